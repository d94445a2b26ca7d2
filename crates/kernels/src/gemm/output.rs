//! Where the result of a GEMM goes: to f32, or converted to bf16 for GEMMs that read it so.

use super::post_ops::BlockPostOps;
use crate::base::aligned_buf::LINE_F32;
use crate::base::num::bf16;
use crate::base::par::Slice;
use crate::base::simd::prefetch;

/// Where the elements of a result go.
#[derive(Debug)]
pub enum Target<'a> {
    /// In f32.
    F32(&'a mut [f32]),
    /// In bf16, converted as a GEMM that reads f32 would convert it.
    Bf16(&'a mut [bf16]),
}

impl Target<'_> {
    /// Elements that fit.
    pub(crate) fn len(&self) -> usize {
        match self {
            Target::F32(to) => to.len(),
            Target::Bf16(to) => to.len(),
        }
    }

    /// The target from an element on; empty if that is past the end.
    pub(crate) fn after(&mut self, first: usize) -> Target<'_> {
        match self {
            Target::F32(to) => Target::F32(to.get_mut(first..).unwrap_or_default()),
            Target::Bf16(to) => Target::Bf16(to.get_mut(first..).unwrap_or_default()),
        }
    }

    /// The same target for several threads. They must not use it after the borrow ends.
    pub(super) fn shared(&mut self) -> SharedTarget {
        match self {
            Target::F32(to) => SharedTarget::F32(Slice::new(to)),
            Target::Bf16(to) => SharedTarget::Bf16(Slice::new(to)),
        }
    }
}

/// A [`Target`] of which threads write disjoint parts.
#[derive(Clone, Copy)]
pub(crate) enum SharedTarget {
    F32(Slice<f32>),
    Bf16(Slice<bf16>),
}

impl SharedTarget {
    /// The elements, if they are f32.
    pub(super) fn values(self) -> Option<Slice<f32>> {
        match self {
            SharedTarget::F32(to) => Some(to),
            SharedTarget::Bf16(_) => None,
        }
    }

    /// Elements that fit.
    fn count(self) -> usize {
        match self {
            SharedTarget::F32(to) => to.count(),
            SharedTarget::Bf16(to) => to.count(),
        }
    }

    /// The destination of a block whose first element is `offset`.
    ///
    /// # Safety
    /// `offset` and the columns behind it are within the target, and no other thread uses what is
    /// written through it.
    pub(super) unsafe fn block(
        self,
        offset: usize,
        (stride, columns): (usize, usize),
        absorbed: BlockPostOps,
    ) -> Out {
        debug_assert!(offset + columns <= self.count());
        // SAFETY: the caller's promise.
        let (to, is_bf16) = unsafe {
            match self {
                SharedTarget::F32(to) => (to.at(offset), false),
                SharedTarget::Bf16(to) => (to.at(offset).cast(), true),
            }
        };
        Out { to, is_bf16, stride, columns, earlier: std::ptr::null(), absorbed }
    }
}

/// The destination of a block of sums, and its post-ops.
#[derive(Clone, Copy)]
pub(crate) struct Out {
    /// The first element; bf16 if `is_bf16`.
    pub(crate) to: *mut f32,
    /// Whether results are converted to bf16; only if the vectors
    /// [can](crate::base::simd::Vector::ROUNDS).
    pub(crate) is_bf16: bool,
    /// Distance between rows.
    pub(crate) stride: usize,
    /// Elements to write in a row: the columns of the block that are within C.
    pub(crate) columns: usize,
    /// Sums of earlier blocks along k, which are added before the post-ops: rows of all columns
    /// that the microkernel computes. Null if there are none.
    pub(crate) earlier: *const f32,
    /// The post-ops that are done in registers.
    pub(crate) absorbed: BlockPostOps,
}

impl Out {
    /// Prefetches the destination of some rows, and the matrix that is added to them.
    pub(super) fn prefetch(&self, rows: usize) {
        let (add, stride) = self.absorbed.add;
        let element = if self.is_bf16 { size_of::<u16>() } else { size_of::<f32>() };
        prefetch_rows(self.to, (rows, self.stride * element), self.columns * element);
        // The matrix is often the destination itself.
        if !add.is_null() && add != self.to.cast_const() {
            let bytes = self.columns * size_of::<f32>();
            prefetch_rows(add, (rows, stride * size_of::<f32>()), bytes);
        }
    }

    /// The address of vector `p`, of `lanes` lanes, in row `i`.
    #[inline(always)]
    pub(super) fn at(&self, i: usize, p: usize, lanes: usize) -> *mut f32 {
        self.to.wrapping_add(i * self.stride + p * lanes)
    }

    /// The same address if results are bf16.
    #[inline(always)]
    pub(super) fn bf16_at(&self, i: usize, p: usize, lanes: usize) -> *mut u16 {
        self.to.cast::<u16>().wrapping_add(i * self.stride + p * lanes)
    }

    /// The destination from a row on, of sums that have no earlier ones.
    pub(super) fn below(&self, row: usize) -> Out {
        debug_assert!(self.earlier.is_null());
        let (add, stride) = self.absorbed.add;
        let add = if add.is_null() { add } else { add.wrapping_add(row * stride) };
        let to = if self.is_bf16 { self.bf16_at(row, 0, 0).cast() } else { self.at(row, 0, 0) };
        Out { to, absorbed: BlockPostOps { add: (add, stride), ..self.absorbed }, ..*self }
    }
}

/// Prefetches rows of `bytes` bytes, `stride` bytes apart.
fn prefetch_rows(first: *const f32, (rows, stride): (usize, usize), bytes: usize) {
    const BYTES: usize = LINE_F32 * size_of::<f32>();
    let lines = bytes.div_ceil(BYTES);
    for row in 0..rows {
        let row = first.wrapping_byte_add(row * stride);
        for line in 0..lines {
            prefetch(row.wrapping_byte_add(line * BYTES));
        }
    }
}

/// bf16 elements as pairs in lanes of f32, as the GEMM reads them. `None` unless they are aligned
/// and an even number.
pub(crate) fn pairs(elements: &[bf16]) -> Option<&[f32]> {
    // SAFETY: all bits are a number.
    let (before, pairs, after) = unsafe { elements.align_to() };
    (before.is_empty() && after.is_empty()).then_some(pairs)
}
