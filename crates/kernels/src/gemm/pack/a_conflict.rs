//! Packs rows of A that map to the same L1 sets.
//!
//! Rows of A that are a multiple of 4 KB apart map to one L1 set, of 8 or 12 ways. In a block of
//! more rows each line would be evicted between two elements, and every element would be read from
//! L2. So while one cache line of each row is multiplied, the next one is copied to a buffer in
//! which the rows are packed, one line for each element along k. Columns of powers of two are
//! common.

use crate::base::simd::{Vector, opaque};
use crate::gemm::microkernel::args::MicrokernelArgs;
use crate::gemm::prefetch::LINE;
use std::mem::MaybeUninit;

/// Rows whose distance is a multiple of this many bytes share an L1 set.
const PAGE: usize = 4 << 10;

/// Rows that fit one L1 set of any CPU.
const WAYS: usize = 8;

/// A cache line of each row, for as many rows as a line has elements, twice: the current lines, and
/// the next ones.
#[repr(C, align(64))]
struct Stage([[[f32; LINE]; LINE]; 2]);

/// Whether the rows of a block, `step` elements apart, share an L1 set and are whole cache lines.
#[inline(always)]
pub(crate) fn compete_at<V: Vector, const R: usize>(block: &MicrokernelArgs, step: usize) -> bool {
    let are_apart = (step * size_of::<f32>()).is_multiple_of(PAGE) && step > 0;
    V::LANES == LINE && R > WAYS && are_apart && block.k > LINE && block.k.is_multiple_of(LINE)
}

/// The same for rows that lie anywhere; `a` has a pointer for each run and row. The middle run is
/// looked at: in a convolution it is a tap within the input.
///
/// # Safety
/// There are pointers for the rows of all runs.
#[inline(always)]
pub(crate) unsafe fn compete<V: Vector, const R: usize>(
    block: &MicrokernelArgs,
    a: *const *const f32,
) -> bool {
    if block.runs == 0 {
        return false;
    }
    debug_assert!(!a.is_null());
    // SAFETY: the caller's promise.
    let place = |i: usize| unsafe { (*a.add(block.runs / 2 * R + i)).addr() };
    let step = place(R - 1).wrapping_sub(place(0)) | place(R / 2).wrapping_sub(place(0));
    compete_at::<V, R>(block, step / size_of::<f32>())
}

/// Sums of a block of `R` rows and `P` vectors. `rows` is the address of a run of a row; that of
/// the first row is null if the run is 0 in all rows.
///
/// # Safety
/// As [`indirect`](crate::gemm::microkernel::generic::indirect); the rows are whole cache lines,
/// and `V` is one cache line.
#[inline(always)]
pub(crate) unsafe fn sums<V: Vector, const R: usize, const P: usize>(
    block: &MicrokernelArgs,
    rows: impl Fn(usize, usize) -> *const f32,
) -> [[V; P]; R] {
    debug_assert!(V::LANES == LINE && R <= LINE && block.k > 0 && block.k.is_multiple_of(LINE));
    let mut stage = MaybeUninit::<Stage>::uninit();
    let stage = stage.as_mut_ptr().cast::<f32>();
    // SAFETY: the caller's promise; what is read of the buffer has been written.
    unsafe {
        let mut sums = [[V::zero(); P]; R];
        let (mut panel, mut prefetch) = (block.b, block.ahead);
        for run in 0..block.runs {
            let mut b = panel;
            panel = panel.add(block.k * P * V::LANES);
            if rows(run, 0).is_null() {
                continue;
            }
            prefetch.begin_run(rows(run, 0));
            // Missing rows repeat the last one.
            let mut from = [rows(run, R - 1); LINE];
            for i in 0..R {
                from[i] = rows(run, i);
            }
            for i in 0..LINE {
                V::load(from[i]).store(stage.add(i * LINE));
            }
            let (mut this, mut other) = (stage, stage.add(LINE * LINE));
            let mut at = 0;
            loop {
                // Past the last line, the same line again.
                let soon = if at + LINE < block.k { at + LINE } else { at };
                let mut row = from.as_ptr();
                let mut to = other;
                let mut element = opaque(this);
                let mut left = LINE;
                loop {
                    let mut columns = [V::zero(); P];
                    for p in 0..P {
                        columns[p] = V::load(b.add(p * V::LANES));
                    }
                    for i in 0..R {
                        let a = V::splat(*element.add(i * LINE));
                        for p in 0..P {
                            sums[i][p] = a.fma(columns[p], sums[i][p]);
                        }
                    }
                    V::load((*row).add(soon)).store(to);
                    (row, to) = (row.add(1), to.add(LINE));
                    (b, element) = (b.add(P * V::LANES), element.add(1));
                    prefetch.term();
                    left -= 1;
                    if left == 0 {
                        break;
                    }
                }
                at += LINE;
                if at == block.k {
                    break;
                }
                (this, other) = (other, this);
            }
        }
        sums
    }
}

#[cfg(test)]
mod tests;
