//! Packs rows of A that map to the same L1 sets.
//!
//! Rows of A that are a multiple of 4 KB apart map to one L1 set, of 8 or 12 ways. In a block of
//! more rows each line would be evicted between two elements, and every element would be read from
//! L2. So while one cache line of each row is multiplied, the next one is copied to a buffer in
//! which the rows are packed, one line for each element along k. Columns of powers of two are
//! common.

use crate::base::aligned_buf::LINE_F32;
use crate::base::simd::{Vector, opaque};
use crate::gemm::microkernel::args::MicrokernelArgs;
use std::mem::MaybeUninit;

/// Rows whose distance is a multiple of this many bytes share an L1 set.
const PAGE: usize = 4 << 10;

/// Rows that fit one L1 set of any CPU.
const WAYS: usize = 8;

/// A cache line of each row, for as many rows as a line has elements, twice: the current lines, and
/// the next ones.
#[repr(C, align(64))]
struct Stage([[[f32; LINE_F32]; LINE_F32]; 2]);

/// Whether the rows of a block are whole cache lines and share an L1 set: their distance, `step`
/// elements, is a multiple of a page.
#[inline(always)]
pub(crate) fn stride_conflicts<V: Vector, const R: usize>(
    block: &MicrokernelArgs,
    step: usize,
) -> bool {
    let are_apart = (step * size_of::<f32>()).is_multiple_of(PAGE) && step > 0;
    V::LANES == LINE_F32
        && R > WAYS
        && are_apart
        && block.k > LINE_F32
        && block.k.is_multiple_of(LINE_F32)
}

/// The same for rows that lie anywhere; `a` has a pointer for each run and row. The middle run is
/// looked at: in a convolution it is a tap within the input.
///
/// # Safety
/// There are pointers for the rows of all runs.
#[inline(always)]
pub(crate) unsafe fn rows_conflict<V: Vector, const R: usize>(
    block: &MicrokernelArgs,
    a: *const *const f32,
) -> bool {
    if block.runs == 0 {
        return false;
    }
    debug_assert!(!a.is_null());
    // SAFETY: the caller's promise.
    let address = |i: usize| unsafe { (*a.add(block.runs / 2 * R + i)).addr() };
    let distance = |i: usize| address(i).wrapping_sub(address(0));
    // The distances of two rows stand for all. Their OR is a multiple of a page, which is a power
    // of two, only if both are.
    let step = distance(R - 1) | distance(R / 2);
    stride_conflicts::<V, R>(block, step / size_of::<f32>())
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
    debug_assert!(
        V::LANES == LINE_F32 && R <= LINE_F32 && block.k > 0 && block.k.is_multiple_of(LINE_F32)
    );
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
            let mut from = [rows(run, R - 1); LINE_F32];
            for i in 0..R {
                from[i] = rows(run, i);
            }
            for i in 0..LINE_F32 {
                V::load(from[i]).store(stage.add(i * LINE_F32));
            }
            let (mut this, mut other) = (stage, stage.add(LINE_F32 * LINE_F32));
            let mut at = 0;
            loop {
                // Past the last line, the same line again.
                let soon = if at + LINE_F32 < block.k { at + LINE_F32 } else { at };
                let mut row = from.as_ptr();
                let mut to = other;
                let mut element = opaque(this);
                let mut left = LINE_F32;
                loop {
                    let mut columns = [V::zero(); P];
                    for p in 0..P {
                        columns[p] = V::load(b.add(p * V::LANES));
                    }
                    for i in 0..R {
                        let a = V::splat(*element.add(i * LINE_F32));
                        for p in 0..P {
                            sums[i][p] = a.fma(columns[p], sums[i][p]);
                        }
                    }
                    V::load((*row).add(soon)).store(to);
                    (row, to) = (row.add(1), to.add(LINE_F32));
                    (b, element) = (b.add(P * V::LANES), element.add(1));
                    prefetch.term();
                    left -= 1;
                    if left == 0 {
                        break;
                    }
                }
                at += LINE_F32;
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
