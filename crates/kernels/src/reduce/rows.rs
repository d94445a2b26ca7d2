//! Reductions over rows that are as long as the output.

use super::fold::{Fold, StoredScale, Sum};
use crate::base::num::Wide as _;
use crate::base::par::Threads;
use crate::multiversion;
use std::marker::PhantomData;

/// Lanes of a sum along a row.
pub(super) const LANES: usize = 16;

/// Elements that are worth a second thread.
pub(super) const GRAIN: usize = 16 << 10;

/// Columns that are reduced at a time, in registers.
const WIDE: usize = 4 * LANES;

/// From this many rows on, they are reduced in blocks.
const BLOCKED_ROWS: usize = 32;

/// Number of blocks that many rows are divided into. A thread that has written some of the rows
/// reads the same ones.
const BLOCKS: usize = 8;

/// Columns of long rows that are reduced at a time, in L1. So many elements of a row in turn are
/// prefetched.
pub(super) const LONG_COLUMNS: usize = 2048;

/// Elements of blocks that are worth a second thread. Half of them are in the other thread's cache.
const BLOCK_GRAIN: usize = 8 << 10;

/// Reduces rows that are as long as the output.
pub(super) fn over_rows<F: Fold, T: StoredScale>(
    threads: &Threads,
    f: F,
    from: &[T],
    to: &mut [T],
) {
    let rows = from.len() / to.len();
    // Integers have the same result in any order.
    let is_few = rows < BLOCKED_ROWS || T::Wide::IS_INTEGER;
    // Not compiled for types that networks seldom reduce.
    if size_of::<T>() == size_of::<f32>() && to.len() >= 2 * LONG_COLUMNS {
        let is_whole = is_few || F::IS_ASSOCIATIVE;
        over_long(threads, f, from, to, if is_whole { 1 } else { BLOCKS });
    } else if is_few {
        over_few(threads, f, from, to);
    } else {
        over_many(threads, f, from, to);
    }
}

/// Reduces rows that are as long as the output, divided by columns.
fn over_few<F: Fold, T: StoredScale>(threads: &Threads, f: F, from: &[T], to: &mut [T]) {
    let len = to.len();
    // One cache line, as long as that gives few parts.
    let columns = if len < 8 * WIDE { LANES } else { WIDE };
    threads.par_chunks_mut(to, columns, GRAIN.div_ceil(from.len() / len), |first, part| {
        let mut sums = [f.start::<T::Wide>(); WIDE];
        for (i, to) in part.chunks_mut(columns).enumerate() {
            let sums = &mut sums[..to.len()];
            over(f, ReducedRows::of(from, len), (first + i) * columns, sums);
            for (to, sum) in to.iter_mut().zip(sums) {
                *to = f.finish(*sum).narrow();
            }
        }
    });
}

/// Reduces long rows that are as long as the output, divided by columns, in some blocks, then
/// reduces these.
fn over_long<F: Fold, T: StoredScale>(
    threads: &Threads,
    f: F,
    from: &[T],
    to: &mut [T],
    blocks: usize,
) {
    let len = to.len();
    let rows = from.len() / len;
    let block = rows.div_ceil(blocks) * len;
    threads.par_chunks_mut(to, WIDE, GRAIN.div_ceil(rows), |first, part| {
        let mut sums = [[f.start::<T::Wide>(); LONG_COLUMNS]; 2];
        for (i, to) in part.chunks_mut(LONG_COLUMNS).enumerate() {
            let start = first * WIDE + i * LONG_COLUMNS;
            let [all, sums] = sums.each_mut().map(|sums| &mut sums[..to.len()]);
            for (block, from) in from.chunks(block).enumerate() {
                let rows = ReducedRows::of(from, len);
                if block == 0 {
                    over(f, rows, start, all);
                    continue;
                }
                over(f, rows, start, sums);
                for (all, sum) in all.iter_mut().zip(&*sums) {
                    *all = f.meet(*all, *sum);
                }
            }
            for (to, sum) in to.iter_mut().zip(all) {
                *to = f.finish(*sum).narrow();
            }
        }
    });
}

/// Reduces rows that are as long as the output in blocks, then reduces these.
fn over_many<F: Fold, T: StoredScale>(threads: &Threads, f: F, from: &[T], to: &mut [T]) {
    let len = to.len();
    let rows = (from.len() / len).div_ceil(BLOCKS);
    let blocks = from.len().div_ceil(rows * len);
    let mut sums = vec![f.start::<T::Wide>(); blocks * len];
    threads.par_chunks_mut(&mut sums, len, BLOCK_GRAIN.div_ceil(rows), |first, part| {
        let from = from.chunks(rows * len).skip(first);
        for (block, sums) in from.zip(part.chunks_mut(len)) {
            over_block(f, ReducedRows::of(block, len), 0, sums);
        }
    });
    join(threads, f, &sums, to);
}

/// Rows of which some columns are read.
#[derive(Clone, Copy)]
pub(crate) struct ReducedRows<'a, T> {
    first: *const T,
    stride: usize,
    count: usize,
    borrow: PhantomData<&'a [T]>,
}

impl<'a, T> ReducedRows<'a, T> {
    /// Contiguous rows of `len` elements.
    fn of(rows: &'a [T], len: usize) -> ReducedRows<'a, T> {
        // SAFETY: all of them are borrowed.
        unsafe { ReducedRows::new(rows.as_ptr(), len, rows.len() / len) }
    }

    /// `count` rows, `stride` elements apart.
    ///
    /// # Safety
    /// The columns that are read are valid, and not written while these rows live.
    pub(crate) unsafe fn new(first: *const T, stride: usize, count: usize) -> ReducedRows<'a, T> {
        debug_assert!(first.is_aligned() && !first.is_null());
        ReducedRows { first, stride, count, borrow: PhantomData }
    }

    /// `len` columns of a row, from `start` on.
    #[inline(always)]
    fn columns(self, row: usize, start: usize, len: usize) -> &'a [T] {
        assert!(row < self.count && start + len <= self.stride);
        // SAFETY: the promise of `new`.
        unsafe { std::slice::from_raw_parts(self.first.add(row * self.stride + start), len) }
    }
}

/// Reduces columns from `start` on, within a block.
fn over_block<F: Fold, T: StoredScale>(
    f: F,
    rows: ReducedRows<'_, T>,
    start: usize,
    sums: &mut [T::Wide],
) {
    for (i, sums) in sums.chunks_mut(WIDE).enumerate() {
        over(f, rows, start + i * WIDE, sums);
    }
}

/// Adds up columns from `start` on, row by row.
pub(crate) fn add_rows(rows: ReducedRows<'_, f32>, start: usize, sums: &mut [f32]) {
    over_block(Sum(1), rows, start, sums);
}

/// The means of columns of `count` elements. `sums` are the sums of their blocks, which are added
/// in order.
pub(crate) fn means(count: usize, sums: &[f32], means: &mut [f32]) {
    join(Threads::single(), Sum(count), sums, means);
}

/// Combines the results of blocks. Too little work to be compiled for each instruction set.
fn join<F: Fold, T: StoredScale>(threads: &Threads, f: F, sums: &[T::Wide], to: &mut [T]) {
    let len = to.len();
    threads.par_chunks_mut(to, WIDE, GRAIN.div_ceil(BLOCKS), |first, part| {
        for (i, to) in part.chunks_mut(WIDE).enumerate() {
            let columns = (first + i) * WIDE..;
            let mut all = [f.start::<T::Wide>(); WIDE];
            let all = &mut all[..to.len()];
            for (block, sums) in sums.chunks_exact(len).enumerate() {
                for (sum, part) in all.iter_mut().zip(&sums[columns.clone()]) {
                    *sum = if block == 0 { *part } else { f.meet(*sum, *part) };
                }
            }
            for (to, sum) in to.iter_mut().zip(all) {
                *to = f.finish(*sum).narrow();
            }
        }
    });
}

multiversion! {
    vectors if size_of::<T>() == size_of::<f32>();
    /// Reduces columns from `start` on: [`WIDE`] or [`LANES`] in registers, others in `sums`. Rows
    /// are taken in pairs: of one maximum in memory, LLVM makes masked stores, which take some
    /// twenty cycles on AMD with AVX2.
    fn over<F: Fold, T: StoredScale>(
        f: F, rows: ReducedRows<'_, T>, start: usize, sums: &mut [T::Wide]
    ) {
        match sums.len() {
            WIDE => columns::<F, T, WIDE>(f, rows, start, sums),
            LANES => columns::<F, T, LANES>(f, rows, start, sums),
            _ => {
                sums.fill(f.start());
                let paired = rows.count / 2 * 2;
                for row in (0..paired).step_by(2) {
                    let [a, b] = [row, row + 1].map(|row| rows.columns(row, start, sums.len()));
                    for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
                        *sum = f.step(f.step(*sum, a.widen()), b.widen());
                    }
                }
                for row in paired..rows.count {
                    let row = rows.columns(row, start, sums.len());
                    for (sum, x) in sums.iter_mut().zip(row) {
                        *sum = f.step(*sum, x.widen());
                    }
                }
            }
        }
    }
}

/// Reduces as many columns as fit the registers.
#[inline(always)]
fn columns<F: Fold, T: StoredScale, const N: usize>(
    f: F,
    rows: ReducedRows<'_, T>,
    start: usize,
    to: &mut [T::Wide],
) {
    let mut sums = [f.start::<T::Wide>(); N];
    let paired = rows.count / 2 * 2;
    for row in (0..paired).step_by(2) {
        let [a, b] = [row, row + 1].map(|row| rows.columns(row, start, N));
        for i in 0..N {
            sums[i] = f.step(f.step(sums[i], a[i].widen()), b[i].widen());
        }
    }
    for row in paired..rows.count {
        let row = rows.columns(row, start, N);
        for i in 0..N {
            sums[i] = f.step(sums[i], row[i].widen());
        }
    }
    to.copy_from_slice(&sums);
}
