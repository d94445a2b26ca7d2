//! Roll by `rep movsb`, where that is faster than cache lines.
//!
//! Rows rotated by less than a cache line, in either direction, are copied many at a time as one
//! block. The few bytes that wrap to the other end of each row are corrected afterwards, while the
//! block is in the cache.

use super::plan::{Batch, RollPlan, SHORT_ROW_BYTES, low};
use crate::base::aligned_buf::LINE_BYTES;
use crate::base::isa::{Isa, isa, moves_strings_fast};
use std::arch::x86_64::*;
use std::ops::Range;

/// Bytes of a block, copied before its wrapped bytes are corrected. They are then still in the
/// cache.
const BLOCK_BYTES: usize = 8 << 10;

/// From this many bytes on, a run is copied by `rep movsb`, which takes a while to start.
const STRING: usize = 1 << 10;

/// In rows of fewer bytes, nearly every line has wrapped bytes.
const MIN_ROW_BYTES: usize = 80;

/// Whether this is the fastest way to roll the rows of a plan within the caches of this CPU.
pub(super) fn pays(plan: &RollPlan) -> bool {
    let few = plan.shift.min(plan.row - plan.shift) <= LINE_BYTES;
    (plan.row > SHORT_ROW_BYTES || plan.row >= MIN_ROW_BYTES && few)
        && moves_strings_fast()
        && isa() >= Isa::Avx512
}

/// Writes output bytes `range`.
///
/// # Safety
/// The CPU has AVX-512, `from` and `to` are valid for the bytes of the plan and do not overlap, and
/// nobody else uses the bytes of `range`.
#[target_feature(enable = "avx512f,avx512bw,bmi2")]
pub(super) unsafe fn roll(plan: &RollPlan, from: *const u8, to: *mut u8, range: Range<usize>) {
    debug_assert!(isa() >= Isa::Avx512 && plan.len().is_some_and(|len| range.end <= len));
    debug_assert!(plan.len().is_some_and(|len| from.addr().abs_diff(to.addr()) >= len));
    let step = (BLOCK_BYTES / plan.row).max(1) * plan.row;
    for batch in plan.batches(range) {
        let rows = BatchRows::new(plan, &batch, from, to);
        let (start, end) = (batch.inside, batch.inside + batch.len);
        let whole = if rows.few.len() <= LINE_BYTES {
            start.next_multiple_of(plan.row).min(end)..end / plan.row * plan.row
        } else {
            end..end
        };
        // SAFETY: all of these are bytes of the batch.
        unsafe {
            rows.by_runs(start..whole.start);
            for first in whole.clone().step_by(step) {
                rows.copy_block(first..whole.end.min(first + step));
            }
            rows.by_runs(whole.end.max(whole.start)..end);
        }
    }
}

/// The rows of a [`Batch`]. Offsets count from the start of its first row.
struct BatchRows {
    row: usize,
    from: *const u8,
    to: *mut u8,
    /// The bytes of a row that come from the shorter part of its source row, and their source
    /// offset.
    few: Range<usize>,
    few_from: isize,
    /// The source offset of the other bytes.
    many_from: isize,
}

impl BatchRows {
    fn new(plan: &RollPlan, batch: &Batch, from: *const u8, to: *mut u8) -> BatchRows {
        let (row, shift) = (plan.row, plan.shift);
        let (tail, head) = ((row - shift) as isize, -(shift as isize));
        let (few, few_from, many_from) =
            if shift <= row - shift { (0..shift, tail, head) } else { (shift..row, head, tail) };
        let from = from.wrapping_add(batch.from).wrapping_sub(batch.inside);
        let to = to.wrapping_add(batch.start).wrapping_sub(batch.inside);
        BatchRows { row, from, to, few, few_from, many_from }
    }

    /// Copies whole rows as one block, with wrong bytes where a row wraps; then corrects these, at
    /// most a line per row.
    ///
    /// # Safety
    /// These are rows of the batch.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,bmi2")]
    unsafe fn copy_block(&self, rows: Range<usize>) {
        debug_assert!(rows.start.is_multiple_of(self.row) && rows.end.is_multiple_of(self.row));
        debug_assert!(self.few.len() <= LINE_BYTES);
        // The wrapped bytes at the outer end of the block have no source within it.
        let many = match self.few.start {
            0 => rows.start + self.few.end..rows.end,
            few => rows.start..rows.end - self.row + few,
        };
        // SAFETY: the first and the last source byte are within the rows, so all are.
        unsafe { self.put(many, self.many_from) };
        let mask = low(self.few.len());
        let to = self.to.wrapping_add(self.few.start);
        let from = self.from.wrapping_add(self.few.start).wrapping_offset(self.few_from);
        for row in rows.step_by(self.row) {
            // SAFETY: the source is within the row, and what the mask leaves out is neither read
            // nor written.
            unsafe {
                let bytes = _mm512_maskz_loadu_epi8(mask, from.wrapping_add(row).cast());
                _mm512_mask_storeu_epi8(to.wrapping_add(row).cast(), mask, bytes);
            }
        }
    }

    /// Writes some bytes, run by run.
    ///
    /// # Safety
    /// These are bytes of the batch.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,bmi2")]
    unsafe fn by_runs(&self, bytes: Range<usize>) {
        debug_assert!(Isa::Avx512.is_available());
        let mut start = bytes.start;
        while start < bytes.end {
            let inside = start % self.row;
            let (end, ahead) = match () {
                () if inside < self.few.start => (self.few.start, self.many_from),
                () if inside < self.few.end => (self.few.end, self.few_from),
                () => (self.row, self.many_from),
            };
            let end = bytes.end.min(start - inside + end);
            // SAFETY: all of them come from one part of their row.
            unsafe { self.put(start..end, ahead) };
            start = end;
        }
    }

    /// Copies bytes from source offset `ahead`.
    ///
    /// # Safety
    /// These and their sources are bytes of the batch.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,bmi2")]
    unsafe fn put(&self, bytes: Range<usize>, ahead: isize) {
        debug_assert!(Isa::Avx512.is_available());
        let (from, to) = (self.from.wrapping_add(bytes.start), self.to.wrapping_add(bytes.start));
        // SAFETY: the caller's promise.
        unsafe { copy(from.wrapping_offset(ahead), to, bytes.len()) }
    }
}

/// Copies a run: a long one by `rep movsb`, a short one by vectors with a mask for the last.
///
/// # Safety
/// `len` bytes can be read and written, and source and destination do not overlap.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,bmi2")]
unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    debug_assert!(from.addr().abs_diff(to.addr()) >= len);
    if len >= STRING {
        // SAFETY: the caller's promise; the direction flag is clear in Rust code.
        unsafe {
            std::arch::asm!("rep movsb", inout("rdi") to => _, inout("rsi") from => _, inout("rcx") len => _,
                options(nostack, preserves_flags));
        }
        return;
    }
    for at in (0..len).step_by(LINE_BYTES) {
        let left = low(len - at);
        // SAFETY: what the mask leaves out is neither read nor written.
        unsafe {
            let (from, to) = (from.add(at), to.add(at));
            let bytes = _mm512_maskz_loadu_epi8(left, from.cast());
            _mm512_mask_storeu_epi8(to.cast(), left, bytes);
        }
    }
}
