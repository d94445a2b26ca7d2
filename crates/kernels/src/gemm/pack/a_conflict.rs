//! Blocks whose rows of A compete for the same places of the first cache.
//!
//! Where rows lie whole pages apart, equal places of all of them belong to one set of that cache,
//! which holds eight lines, or twelve. With more rows in a block, each line would come from the
//! second cache again for every element of it. So they come through a stage: while one line of each
//! row is multiplied, the next ones are copied beside it, one for each element. Columns of powers
//! of two are common.

use crate::base::simd::{Vector, opaque};
use crate::gemm::each_row::each_row;
use crate::gemm::microkernel::args::MicrokernelArgs;
use crate::gemm::prefetch::LINE;
use std::mem::MaybeUninit;

/// Bytes from row to row, or a multiple of it, that make them compete.
const PAGE: usize = 4 << 10;

/// Rows of one cache set that L1 holds in any case.
const WAYS: usize = 8;

/// A line of each row, as many as a line has elements, and the next ones.
#[repr(C, align(64))]
struct Stage([[[f32; LINE]; LINE]; 2]);

/// Whether the rows of a block compete, which are `step` elements apart, and have whole lines.
#[inline(always)]
pub(crate) fn compete_at<V: Vector, const R: usize>(block: &MicrokernelArgs, step: usize) -> bool {
    let are_apart = (step * size_of::<f32>()).is_multiple_of(PAGE) && step > 0;
    V::LANES == LINE && R > WAYS && are_apart && block.k > LINE && block.k.is_multiple_of(LINE)
}

/// The same of rows that lie anywhere; `a` has a pointer for each run and row. The run in the
/// middle is the tap of a window that lies within the input.
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
    // SAFETY: the caller's promise.
    let place = |i: usize| unsafe { (*a.add(block.runs / 2 * R + i)).addr() };
    let step = place(R - 1).wrapping_sub(place(0)) | place(R / 2).wrapping_sub(place(0));
    compete_at::<V, R>(block, step / size_of::<f32>())
}

/// The sums of a block of `R` rows and `P` vectors; `rows` tells where a run of a row begins, null
/// for the first where all are 0.
///
/// # Safety
/// As [`indirect`](crate::gemm::microkernel::generic::indirect), where the rows have whole lines
/// and `V` is one.
#[inline(always)]
pub(crate) unsafe fn sums<V: Vector, const R: usize, const P: usize>(
    block: &MicrokernelArgs,
    rows: impl Fn(usize, usize) -> *const f32,
) -> [[V; P]; R] {
    debug_assert!(V::LANES == LINE && R <= LINE && block.k > 0 && block.k.is_multiple_of(LINE));
    let mut stage = MaybeUninit::<Stage>::uninit();
    let stage = stage.as_mut_ptr().cast::<f32>();
    // SAFETY: the caller's promise; what is read of the stage has been written.
    unsafe {
        let mut sums = [[V::zero(); P]; R];
        let (mut panel, mut requests) = (block.b, block.ahead);
        for run in 0..block.runs {
            let mut b = panel;
            panel = panel.add(block.k * P * V::LANES);
            if rows(run, 0).is_null() {
                continue;
            }
            // Rows that are not there are the last one again.
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
                // Behind the last line, itself.
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
                    each_row!(R, i => {
                        let a = V::splat(*element.add(i * LINE));
                        for p in 0..P {
                            sums[i][p] = a.fma(columns[p], sums[i][p]);
                        }
                    });
                    V::load((*row).add(soon)).store(to);
                    (row, to) = (row.add(1), to.add(LINE));
                    (b, element) = (b.add(P * V::LANES), element.add(1));
                    requests.term();
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
