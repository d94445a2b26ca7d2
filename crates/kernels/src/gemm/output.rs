//! Where the result of a product goes: as it is, or rounded to bf16 for products that read it so.

use super::post_ops::BlockPostOps;
use super::prefetch::LINE;
use crate::base::num::bf16;
use crate::base::par::Slice;
use crate::base::simd::prefetch;

/// Where the elements of a result go.
#[derive(Debug)]
pub enum Target<'a> {
    /// As they are.
    F32(&'a mut [f32]),
    /// Each rounded to bf16, as a product that reads it would round it.
    Bf16(&'a mut [bf16]),
}

impl Target<'_> {
    /// Elements that there is room for.
    pub(crate) fn len(&self) -> usize {
        match self {
            Target::F32(to) => to.len(),
            Target::Bf16(to) => to.len(),
        }
    }

    /// The same from an element on, none where there is none.
    pub(crate) fn after(&mut self, first: usize) -> Target<'_> {
        match self {
            Target::F32(to) => Target::F32(to.get_mut(first..).unwrap_or_default()),
            Target::Bf16(to) => Target::Bf16(to.get_mut(first..).unwrap_or_default()),
        }
    }

    /// The same for several threads, for as long as the borrow lasts; the caller keeps to that.
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
    /// The elements as they are, where nothing rounds them.
    pub(super) fn values(self) -> Option<Slice<f32>> {
        match self {
            SharedTarget::F32(to) => Some(to),
            SharedTarget::Bf16(_) => None,
        }
    }

    /// Elements that there is room for.
    fn count(self) -> usize {
        match self {
            SharedTarget::F32(to) => to.count(),
            SharedTarget::Bf16(to) => to.count(),
        }
    }

    /// Where a block goes whose first element is `offset`.
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
        Out { to, is_bf16, stride, columns, absorbed }
    }
}

/// Where a block of sums goes, and its post-ops.
#[derive(Clone, Copy)]
pub(crate) struct Out {
    /// The first element, which is bf16 where sums are rounded.
    pub(crate) to: *mut f32,
    /// Whether results are rounded to bf16; only where vectors
    /// [round](crate::base::simd::Vector::ROUNDS).
    pub(crate) is_bf16: bool,
    /// Distance between rows.
    pub(crate) stride: usize,
    /// Elements of a row, at most those that are computed.
    pub(crate) columns: usize,
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

    /// Where vector `p` of row `i` goes, of so many lanes.
    #[inline(always)]
    pub(super) fn at(&self, i: usize, p: usize, lanes: usize) -> *mut f32 {
        self.to.wrapping_add(i * self.stride + p * lanes)
    }

    /// The same where sums are rounded.
    #[inline(always)]
    pub(super) fn bf16_at(&self, i: usize, p: usize, lanes: usize) -> *mut u16 {
        self.to.cast::<u16>().wrapping_add(i * self.stride + p * lanes)
    }

    /// The same from a row on.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn below(&self, row: usize) -> Out {
        let (add, stride) = self.absorbed.add;
        let add = if add.is_null() { add } else { add.wrapping_add(row * stride) };
        let to = if self.is_bf16 { self.bf16_at(row, 0, 0).cast() } else { self.at(row, 0, 0) };
        Out { to, absorbed: BlockPostOps { add: (add, stride), ..self.absorbed }, ..*self }
    }
}

/// Prefetches rows of `bytes` bytes, `stride` bytes apart.
fn prefetch_rows(first: *const f32, (rows, stride): (usize, usize), bytes: usize) {
    const BYTES: usize = LINE * size_of::<f32>();
    let lines = bytes.div_ceil(BYTES);
    for row in 0..rows {
        let row = first.wrapping_byte_add(row * stride);
        for line in 0..lines {
            prefetch(row.wrapping_byte_add(line * BYTES));
        }
    }
}

/// Elements in bf16 as the pairs that products read; none unless they are aligned, whole pairs.
pub(crate) fn pairs(elements: &[bf16]) -> Option<&[f32]> {
    // SAFETY: all bits are a number.
    let (before, pairs, after) = unsafe { elements.align_to() };
    (before.is_empty() && after.is_empty()).then_some(pairs)
}
