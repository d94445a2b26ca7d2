//! Converts indices to positions in a row-major tensor.

use crate::base::par::Threads;
use crate::base::strides::dense_strides;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// Indices that are worth a second thread.
const GRAIN: usize = 16 << 10;

/// Indices of either type.
#[derive(Clone, Copy, Debug)]
pub enum Indices<'a> {
    /// Of 32 bits.
    I32(&'a [i32]),
    /// Of 64 bits.
    I64(&'a [i64]),
}

impl<'a> Indices<'a> {
    /// Number of indices.
    pub fn len(&self) -> usize {
        match self {
            Indices::I32(indices) => indices.len(),
            Indices::I64(indices) => indices.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One of them.
    ///
    /// # Panics
    /// When there are fewer.
    #[inline]
    pub fn at(&self, i: usize) -> i64 {
        match self {
            Indices::I32(indices) => indices[i].into(),
            Indices::I64(indices) => indices[i],
        }
    }

    /// Those of a range.
    ///
    /// # Panics
    /// When there are fewer.
    pub fn part(&self, range: Range<usize>) -> Indices<'a> {
        match self {
            Indices::I32(indices) => Indices::I32(&indices[range]),
            Indices::I64(indices) => Indices::I64(&indices[range]),
        }
    }
}

/// An index that is out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfRange {
    /// The index.
    pub index: i64,
    /// The size of the axis.
    pub size: usize,
}

/// The non-negative index along an axis of `size`; negative ones count from the end.
///
/// # Errors
/// When it is out of range.
#[inline]
pub fn normal(index: i64, size: usize) -> Result<usize, OutOfRange> {
    let positive = if index < 0 { index.wrapping_add(size as i64) } else { index };
    match usize::try_from(positive) {
        Ok(i) if i < size => Ok(i),
        _ => Err(OutOfRange { index, size }),
    }
}

/// The rows of a tensor of indices, and their positions in the data. Each index replaces one
/// coordinate of its own position. Axes that are contiguous in the data are merged.
#[derive(Clone, Debug)]
pub(crate) struct IndexRows {
    /// Sizes and strides of all axes except the last.
    outer: Vec<(usize, usize)>,
    len: usize,
    step: usize,
    stride: usize,
    size: usize,
}

/// A row of indices: index `i` stands for position `base + i · step + index · stride`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) base: usize,
    pub(crate) step: usize,
    pub(crate) stride: usize,
    /// The size of the axis that is indexed.
    pub(crate) size: usize,
}

impl Row {
    /// The row without its first indices.
    #[inline(always)]
    pub(crate) fn from(self, first: usize) -> Row {
        Row { base: self.base + first * self.step, ..self }
    }

    /// The position of index number `i`, whose value is `index`.
    #[inline(always)]
    pub(crate) fn at(self, i: usize, index: usize) -> usize {
        self.base + i * self.step + index * self.stride
    }
}

impl IndexRows {
    /// The rows of a tensor of `sizes`, with indices along `axis` of data of sizes `data`.
    pub(crate) fn new((data, axis): (&[usize], usize), sizes: &[usize]) -> IndexRows {
        let strides = dense_strides(data);
        let mut axes: Vec<(usize, usize)> = Vec::new();
        for (i, size) in sizes.iter().enumerate().filter(|(_, size)| **size != 1) {
            let step = if i == axis { 0 } else { strides[i] as usize };
            match axes.last_mut() {
                Some(outer) if outer.1 == step * size => *outer = (outer.0 * size, step),
                _ => axes.push((*size, step)),
            }
        }
        let (len, step) = axes.pop().unwrap_or((1, 0));
        IndexRows { outer: axes, len, step, stride: strides[axis] as usize, size: data[axis] }
    }

    /// Indices in a row.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Row `i`.
    pub(crate) fn row(&self, i: usize) -> Row {
        let (mut rest, mut base) = (i, 0);
        for (size, step) in self.outer.iter().rev() {
            base += rest % size * step;
            rest /= size;
        }
        Row { base, step: self.step, stride: self.stride, size: self.size }
    }
}

/// Tuples of indices, each of which names a slice of a tensor.
#[derive(Clone, Copy, Debug)]
pub struct Tuples<'a> {
    /// The indices, tuple after tuple.
    pub indices: Indices<'a>,
    /// The axes that a tuple indexes.
    pub sizes: &'a [usize],
    /// Elements of a slice.
    pub inner: usize,
}

impl Tuples<'_> {
    /// The positions of the first `count` slices.
    ///
    /// # Errors
    /// Naming the first index that is out of range.
    pub fn positions(&self, threads: &Threads, count: usize) -> Result<Vec<usize>, OutOfRange> {
        let wrong = AtomicBool::new(false);
        let mut positions = vec![0; count];
        threads.par_chunks_mut(&mut positions, 1, GRAIN, |first, part| {
            if !self.write(first, part) {
                wrong.store(true, Ordering::Relaxed);
            }
        });
        if wrong.into_inner() { self.check().map(|()| positions) } else { Ok(positions) }
    }

    /// Writes the positions from tuple `first` on. Returns whether all indices are in range; if
    /// not, the positions mean nothing.
    pub(crate) fn write(&self, first: usize, positions: &mut [usize]) -> bool {
        let first = first * self.sizes.len();
        let of = (self.sizes, self.inner);
        match self.indices.part(first..first + positions.len() * self.sizes.len()) {
            Indices::I32(indices) => tuple_positions(indices, of, positions),
            Indices::I64(indices) => tuple_positions(indices, of, positions),
        }
    }

    /// # Errors
    /// Naming the first index that is out of range.
    pub(crate) fn check(&self) -> Result<(), OutOfRange> {
        let mut pairs = (0..self.indices.len()).zip(self.sizes.iter().cycle());
        pairs.try_for_each(|(i, size)| normal(self.indices.at(i), *size).map(|_| ()))
    }
}

/// Writes the positions of tuples. Returns whether all indices are in range.
fn tuple_positions<I: Copy + Into<i64>>(
    indices: &[I],
    (sizes, inner): (&[usize], usize),
    positions: &mut [usize],
) -> bool {
    match *sizes {
        [] => {
            positions.fill(0);
            true
        }
        [a, b] => positions_of(indices.as_chunks().0, [a, b], inner, positions),
        [a, b, c] => positions_of(indices.as_chunks().0, [a, b, c], inner, positions),
        _ => {
            let tuples = positions.iter_mut().zip(indices.chunks_exact(sizes.len()));
            tuples.fold(true, |valid, (to, tuple)| valid & position(tuple, sizes, inner, to))
        }
    }
}

/// As [`tuple_positions`], for tuples of known length.
fn positions_of<I: Copy + Into<i64>, const N: usize>(
    tuples: &[[I; N]],
    sizes: [usize; N],
    inner: usize,
    positions: &mut [usize],
) -> bool {
    let tuples = positions.iter_mut().zip(tuples);
    tuples.fold(true, |valid, (to, tuple)| valid & position(tuple, &sizes, inner, to))
}

/// Writes the position of one tuple; returns whether its indices are in range.
#[inline(always)]
fn position<I: Copy + Into<i64>>(
    tuple: &[I],
    sizes: &[usize],
    inner: usize,
    to: &mut usize,
) -> bool {
    let (mut at, mut valid) = (0usize, true);
    for (index, size) in tuple.iter().zip(sizes) {
        let index: i64 = (*index).into();
        let positive = if index < 0 { index.wrapping_add(*size as i64) } else { index } as usize;
        valid &= positive < *size;
        at = at.wrapping_mul(*size).wrapping_add(positive);
    }
    *to = at.wrapping_mul(inner);
    valid
}

#[cfg(test)]
mod tests {
    use super::*;

    fn positions(
        threads: &Threads,
        indices: &[i64],
        count: usize,
        (sizes, inner): (&[usize], usize),
    ) -> Result<Vec<usize>, OutOfRange> {
        let narrow: Vec<i32> = indices.iter().map(|i| *i as i32).collect();
        let of = |indices| Tuples { indices, sizes, inner }.positions(threads, count);
        let found = of(Indices::I64(indices));
        assert_eq!(found, of(Indices::I32(&narrow)));
        found
    }

    #[test]
    fn threads_begin_in_the_middle() {
        let tuples: Vec<i64> = (0..90_000).map(|i| i * 7919 % 50).collect();
        let all = |threads: &Threads| positions(threads, &tuples, 45_000, (&[50, 50], 3)).unwrap();
        let expected = tuples.as_chunks::<2>().0.iter().map(|[a, b]| (a * 150 + b * 3) as usize);
        assert!(all(Threads::single()).into_iter().eq(expected));
        assert_eq!(all(&Threads::new(3)), all(Threads::single()));
    }

    #[test]
    fn tuples_mean_slices() {
        let found = |indices: &[i64], count, of| positions(Threads::single(), indices, count, of);
        assert_eq!(found(&[1, 0, -1, 2], 2, (&[2, 3], 4)), Ok(vec![12, 20]));
        assert_eq!(found(&[], 2, (&[], 4)), Ok(vec![0, 0]));
        assert_eq!(found(&[3, -1], 2, (&[5], 2)), Ok(vec![6, 8]));
        assert_eq!(found(&[1, 0, 1, -1, 2, 1], 2, (&[2, 3, 2], 1)), Ok(vec![7, 11]));
        assert_eq!(found(&[1, 0, 1, 0], 1, (&[2, 2, 2, 3], 1)), Ok(vec![15]));
        let wrong = OutOfRange { index: -3, size: 2 };
        assert_eq!(found(&[1, 0, -3, 2], 2, (&[2, 3], 4)), Err(wrong));
        assert!(normal(i64::MIN, 3).is_err());
    }
}
