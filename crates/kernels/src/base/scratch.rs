//! Memory that kernels borrow: in-place operands, and scratch buffers.

use crate::base::aligned_buf::AlignedBuf;
use crate::base::num::Pod;
use std::any::TypeId;
use std::cell::RefCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut, Range};

/// An input and an output of the same length, which may be the same memory.
///
/// Element `i` of the output is written after element `i` of the input has been read, and no other
/// element of the input may be read after that. [`InOut::load`] and [`InOut::store`] of groups of
/// lanes comply.
pub struct InOut<'a, T> {
    from: *const T,
    to: *mut T,
    len: usize,
    borrow: PhantomData<&'a mut [T]>,
}

// SAFETY: it stands for a shared and an exclusive borrow of plain data.
unsafe impl<T: Send + Sync> Send for InOut<'_, T> {}
// SAFETY: as above; writing through a shared reference is `unsafe`.
unsafe impl<T: Send + Sync> Sync for InOut<'_, T> {}

impl<'a, T: Pod> InOut<'a, T> {
    /// An input and an output that do not overlap.
    ///
    /// # Panics
    /// When their lengths differ.
    pub fn separate(from: &'a [T], to: &'a mut [T]) -> InOut<'a, T> {
        assert_eq!(from.len(), to.len(), "input and output differ in length");
        InOut { from: from.as_ptr(), to: to.as_mut_ptr(), len: to.len(), borrow: PhantomData }
    }

    /// One slice that is read and overwritten.
    pub fn in_place(data: &'a mut [T]) -> InOut<'a, T> {
        let to = data.as_mut_ptr();
        InOut { from: to, to, len: data.len(), borrow: PhantomData }
    }

    /// The same as f32, if they are.
    pub(crate) fn as_f32(&mut self) -> Option<InOut<'_, f32>> {
        let is_f32 = TypeId::of::<T>() == TypeId::of::<f32>();
        let (from, to) = (self.from.cast(), self.to.cast());
        is_f32.then_some(InOut { from, to, len: self.len, borrow: PhantomData })
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The same part of both.
    ///
    /// # Safety
    /// Parts that are used at the same time must be disjoint, unless they are only read.
    ///
    /// # Panics
    /// When the range is not within the length.
    pub unsafe fn part(&self, range: Range<usize>) -> InOut<'_, T> {
        assert!(range.start <= range.end && range.end <= self.len);
        // SAFETY: the range lies within both.
        let (from, to) = unsafe { (self.from.add(range.start), self.to.add(range.start)) };
        InOut { from, to, len: range.len(), borrow: PhantomData }
    }

    /// The two slices, if they are different memory.
    ///
    /// # Errors
    /// The one slice that is read and overwritten.
    #[inline(always)]
    pub fn slices(&mut self) -> Result<(&[T], &mut [T]), &mut [T]> {
        // SAFETY: both are valid for `len` elements, the output is borrowed exclusively, and unless
        // they begin at the same address they do not overlap.
        unsafe {
            let to = std::slice::from_raw_parts_mut(self.to, self.len);
            if std::ptr::eq(self.from, self.to) {
                Err(to)
            } else {
                Ok((std::slice::from_raw_parts(self.from, self.len), to))
            }
        }
    }

    /// A part of the input.
    ///
    /// # Panics
    /// When the range is not within the length.
    pub(crate) fn input(&self, range: Range<usize>) -> &[T] {
        assert!(range.start <= range.end && range.end <= self.len);
        // SAFETY: within the input; what overwrites it needs a mutable borrow.
        unsafe { std::slice::from_raw_parts(self.from.add(range.start), range.len()) }
    }

    /// A part of the output, for reading and writing.
    ///
    /// # Panics
    /// When the range is not within the length.
    pub fn output(&mut self, range: Range<usize>) -> &mut [T] {
        assert!(range.start <= range.end && range.end <= self.len);
        // SAFETY: within the output, which is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.to.add(range.start), range.len()) }
    }

    /// Elements `at..at + N` of the input.
    ///
    /// # Panics
    /// When they are not within the length.
    #[inline(always)]
    pub fn load<const N: usize>(&self, at: usize) -> [T; N] {
        assert!(at + N <= self.len);
        // SAFETY: within the input, which is valid for reads; the read is unaligned.
        unsafe { self.from.add(at).cast::<[T; N]>().read_unaligned() }
    }

    /// Elements `at..at + len` of the input, followed by zeros.
    ///
    /// # Panics
    /// When they are not within the length, or more than `N`.
    #[inline(always)]
    pub fn load_masked<const N: usize>(&self, at: usize, len: usize) -> [T; N] {
        assert!(len <= N && at + len <= self.len);
        let mut values = [T::default(); N];
        // SAFETY: within the input and the array.
        unsafe { self.from.add(at).copy_to_nonoverlapping(values.as_mut_ptr(), len) };
        values
    }

    /// Writes the first `len` of `values` to the output at `at`.
    ///
    /// # Panics
    /// When they are not within the length, or more than `N`.
    #[inline(always)]
    pub fn store_masked<const N: usize>(&mut self, at: usize, values: [T; N], len: usize) {
        assert!(len <= N && at + len <= self.len);
        // SAFETY: within the output, which is borrowed exclusively, and the array.
        unsafe { self.to.add(at).copy_from_nonoverlapping(values.as_ptr(), len) };
    }

    /// The output as both input and output.
    pub fn rewrite(&mut self) -> InOut<'_, T> {
        InOut { from: self.to, ..*self }
    }

    /// Writes elements `at..at + N` of the output.
    ///
    /// # Panics
    /// When they are not within the length.
    #[inline(always)]
    pub fn store<const N: usize>(&mut self, at: usize, values: [T; N]) {
        assert!(at + N <= self.len);
        // SAFETY: within the output, which is borrowed exclusively.
        unsafe { self.to.add(at).cast::<[T; N]>().write_unaligned(values) }
    }
}

/// Buffers for intermediate values, kept for reuse.
#[derive(Default)]
pub struct ScratchPool {
    free: RefCell<Vec<AlignedBuf>>,
}

impl ScratchPool {
    /// A buffer of `len` elements with arbitrary contents, aligned to a cache line.
    pub fn take<T: Pod>(&self, len: usize) -> Scratch<'_, T> {
        let bytes = len * size_of::<T>();
        let mut free = self.free.borrow_mut();
        let fit = |i: &usize| free.get(*i).is_some_and(|b| b.len() >= bytes);
        let best = (0..free.len()).filter(fit).min_by_key(|i| free[*i].len());
        let mut buffer = match best.or_else(|| free.len().checked_sub(1)) {
            Some(i) => free.swap_remove(i),
            None => AlignedBuf::default(),
        };
        if buffer.len() < bytes {
            // A new buffer, since growing one would copy.
            buffer = AlignedBuf::zeroed(bytes);
        }
        Scratch { pool: self, buffer, len, element: PhantomData }
    }
}

/// A borrowed scratch buffer; it returns to its pool when dropped.
pub struct Scratch<'p, T> {
    pool: &'p ScratchPool,
    buffer: AlignedBuf,
    len: usize,
    element: PhantomData<T>,
}

impl<T: Pod> Deref for Scratch<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.buffer.elements()[..self.len]
    }
}

impl<T: Pod> DerefMut for Scratch<'_, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.buffer.elements_mut()[..self.len]
    }
}

impl<T> Drop for Scratch<'_, T> {
    fn drop(&mut self) {
        self.pool.free.borrow_mut().push(std::mem::take(&mut self.buffer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_place_reads_before_it_writes() {
        let mut data: Vec<f32> = (0..8).map(|i| i as f32).collect();
        let mut io = InOut::in_place(&mut data);
        for at in [0, 4] {
            let lanes: [f32; 4] = io.load(at);
            io.store(at, lanes.map(|v| v * 2.0));
        }
        assert_eq!(data, [0., 2., 4., 6., 8., 10., 12., 14.]);
    }

    #[test]
    fn scratch_is_reused() {
        let pool = ScratchPool::default();
        let address = pool.take::<f32>(100).as_ptr() as usize;
        assert_eq!(address % 64, 0);
        let mut again = pool.take::<u8>(400);
        assert_eq!(again.as_ptr() as usize, address);
        let other = pool.take::<u64>(3);
        assert_ne!(other.as_ptr() as usize, address);
        again.fill(1);
        assert_eq!((again.len(), other.len()), (400, 3));
    }
}
