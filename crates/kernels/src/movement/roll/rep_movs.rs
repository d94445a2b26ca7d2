//! Rolling by the instruction that moves a string of bytes, where that is faster than lines.
//!
//! Rows that are rotated by less than a line, in either direction, are moved many at a time as if
//! they were not divided; the few bytes that come from the other end of their row are written after
//! that.

use super::plan::{Batch, LINE, RollPlan, SHORT_ROW_BYTES, low};
use crate::base::isa::{Isa, isa, moves_strings_fast};
use std::arch::x86_64::*;
use std::ops::Range;

/// Bytes that are moved before the few among them are written, which then are still in the cache.
const BLOCK_BYTES: usize = 8 << 10;

/// Bytes from which on a run is moved as a string: the instruction takes a while to begin.
const STRING: usize = 1 << 10;

/// Rows of fewer bytes have few of theirs in nearly every line.
const MIN_ROW_BYTES: usize = 80;

/// Whether this is the fastest way to roll the rows of a plan within the caches of this machine.
pub(super) fn pays(plan: &RollPlan) -> bool {
    let few = plan.shift.min(plan.row - plan.shift) <= LINE;
    (plan.row > SHORT_ROW_BYTES || plan.row >= MIN_ROW_BYTES && few)
        && moves_strings_fast()
        && isa() >= Isa::Avx512
}

/// Writes output bytes `range`.
///
/// # Safety
/// The machine has AVX-512, `from` and `to` are valid for the bytes of the plan and do not overlap,
/// and nobody else uses the bytes of `range`.
#[target_feature(enable = "avx512f,avx512bw,bmi2")]
pub(super) unsafe fn roll(plan: &RollPlan, from: *const u8, to: *mut u8, range: Range<usize>) {
    debug_assert!(isa() >= Isa::Avx512 && plan.len().is_some_and(|len| range.end <= len));
    let step = (BLOCK_BYTES / plan.row).max(1) * plan.row;
    for batch in plan.batches(range) {
        let rows = BatchRows::new(plan, &batch, from, to);
        let (start, end) = (batch.inside, batch.inside + batch.len);
        let whole = if rows.few.len() <= LINE {
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

/// The rows of a [`Batch`]. Bytes are counted from where its first row begins.
struct BatchRows {
    row: usize,
    from: *const u8,
    to: *mut u8,
    /// Which bytes of a row come from the smaller part of their source, and from how far ahead.
    few: Range<usize>,
    few_from: isize,
    /// From how far ahead the others come.
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

    /// Writes the many of whole rows, and where their few are something, and then these, which are
    /// a line at most.
    ///
    /// # Safety
    /// The rows are of the batch.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,bmi2")]
    unsafe fn copy_block(&self, rows: Range<usize>) {
        debug_assert!(rows.start.is_multiple_of(self.row) && rows.end.is_multiple_of(self.row));
        debug_assert!(self.few.len() <= LINE);
        // The few at either end have no neighbour in the source where these come from.
        let many = match self.few.start {
            0 => rows.start + self.few.end..rows.end,
            few => rows.start..rows.end - self.row + few,
        };
        // SAFETY: the first and the last of them come from within the rows, so the others do.
        unsafe { self.put(many, self.many_from) };
        let mask = low(self.few.len());
        let to = self.to.wrapping_add(self.few.start);
        let from = self.from.wrapping_add(self.few.start).wrapping_offset(self.few_from);
        for row in rows.step_by(self.row) {
            // SAFETY: these come from within their row, and what the mask leaves out is neither
            // read nor written.
            unsafe {
                let bytes = _mm512_maskz_loadu_epi8(mask, from.wrapping_add(row).cast());
                _mm512_mask_storeu_epi8(to.wrapping_add(row).cast(), mask, bytes);
            }
        }
    }

    /// Writes some bytes, run by run.
    ///
    /// # Safety
    /// The bytes are of the batch.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,bmi2")]
    unsafe fn by_runs(&self, bytes: Range<usize>) {
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

    /// Writes bytes that come from so far ahead.
    ///
    /// # Safety
    /// They are of the batch, and so is where they come from.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,bmi2")]
    unsafe fn put(&self, bytes: Range<usize>, ahead: isize) {
        let (from, to) = (self.from.wrapping_add(bytes.start), self.to.wrapping_add(bytes.start));
        // SAFETY: the caller's promise.
        unsafe { copy(from.wrapping_offset(ahead), to, bytes.len()) }
    }
}

/// Copies a run: a long one as a string, a short one by vectors, the last under a mask.
///
/// # Safety
/// `len` bytes can be read and written, and the two do not overlap.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,bmi2")]
unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    debug_assert!(from.addr().abs_diff(to.addr()) >= len);
    if len >= STRING {
        // SAFETY: the caller's promise; the direction is forwards wherever Rust runs.
        unsafe {
            std::arch::asm!("rep movsb", inout("rdi") to => _, inout("rsi") from => _, inout("rcx") len => _,
                options(nostack, preserves_flags));
        }
        return;
    }
    for at in (0..len).step_by(LINE) {
        let left = low(len - at);
        // SAFETY: what the mask leaves out is neither read nor written.
        unsafe {
            let (from, to) = (from.add(at), to.add(at));
            let bytes = _mm512_maskz_loadu_epi8(left, from.cast());
            _mm512_mask_storeu_epi8(to.cast(), left, bytes);
        }
    }
}
