//! Normalisation of long contiguous rows of f32, as those of instance and group normalisation over
//! planes. Sums are those of [`Slices`](crate::base::slices::Slices): a long row is summed in
//! parts. All parts of all rows are divided among the threads, so that one row keeps them busy.

use crate::base::par::Threads;
use crate::base::scratch::InOut;
use crate::base::simd::opaque_index;
use crate::base::slices::{GRAIN, LANES, LONG_ROW, PART, Pairs, met};
use crate::multiversion;
use crate::nn::norm::normalization::{Divisor, MeanScale, Normalization};
use std::ops::Range;

/// Parts that are summed in one loop, since one alone is bound by the latency of additions.
const PARTS_AT_ONCE: usize = 4;

/// Contiguous rows of a tensor, each longer than [`LONG_ROW`].
#[derive(Clone, Copy)]
pub(super) struct LongRows {
    rows: usize,
    columns: usize,
}

/// The function of a row's elements: `(x - mean) * scale`, plus `shift` if there is one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Affine {
    pub(super) mean: f32,
    pub(super) scale: f32,
    pub(super) shift: Option<f32>,
}

impl LongRows {
    /// Rows of `columns` elements, if there are any and they are long.
    pub(super) fn new(rows: usize, columns: usize) -> Option<LongRows> {
        (rows > 0 && columns > LONG_ROW).then_some(LongRows { rows, columns })
    }

    /// The means and scales of all rows.
    pub(super) fn mean_scales(
        self,
        threads: &Threads,
        normalization: Normalization,
        io: &mut InOut<'_, f32>,
    ) -> Vec<MeanScale> {
        let from: &[f32] = match io.slices() {
            Ok((from, _)) => from,
            Err(run) => run,
        };
        let count = self.columns as f32;
        let mut means = vec![0.0; self.rows];
        if normalization.center {
            means = self.sums(threads, from, &|part, _| sums_of_parts::<Plain>(part, 0.0));
            means.iter_mut().for_each(|mean| *mean /= count);
        }
        if normalization.divisor == Divisor::One {
            return means.into_iter().map(|mean| MeanScale { mean, scale: 1.0 }).collect();
        }
        let squares = |part: &[f32], row: usize| sums_of_parts::<Squares>(part, means[row]);
        let squares = self.sums(threads, from, &squares);
        let mean_scale = |(mean, sum): (f32, f32)| {
            let scale = 1.0 / normalization.divisor.of(sum, count);
            MeanScale { mean, scale }
        };
        means.into_iter().zip(squares).map(mean_scale).collect()
    }

    /// The sum of each row; `sums` gives those of up to [`PARTS_AT_ONCE`] parts of a row.
    fn sums(
        self,
        threads: &Threads,
        from: &[f32],
        sums: &(dyn Fn(&[f32], usize) -> [f32; PARTS_AT_ONCE] + Sync),
    ) -> Vec<f32> {
        let groups = self.columns.div_ceil(PARTS_AT_ONCE * PART);
        let mut parts = vec![[0f32; PARTS_AT_ONCE]; self.rows * groups];
        threads.par_chunks_mut(
            &mut parts,
            1,
            GRAIN.div_ceil(PARTS_AT_ONCE * PART),
            |first, all| {
                for (i, to) in all.iter_mut().enumerate() {
                    let (row, group) = ((first + i) / groups, (first + i) % groups);
                    let start = group * PARTS_AT_ONCE * PART;
                    let end = self.columns.min(start + PARTS_AT_ONCE * PART);
                    *to = sums(&from[row * self.columns..][start..end], row);
                }
            },
        );
        let total = |row: &[[f32; PARTS_AT_ONCE]]| {
            let mut pairs = Pairs::new(0.0);
            let parts = row.iter().flatten().take(self.columns.div_ceil(PART));
            parts.for_each(|part| pairs.push(*part, |a, b| a + b));
            pairs.sum(0.0, |a, b| a + b)
        };
        parts.chunks_exact(groups).map(total).collect()
    }

    /// Applies to each run of `run` elements its function; each row has a whole number of runs.
    pub(super) fn rewrite(
        self,
        threads: &Threads,
        run: usize,
        affine: &(dyn Fn(usize) -> Affine + Sync),
        io: &InOut<'_, f32>,
    ) {
        // Pieces of a run, so that few runs are divided too.
        let pieces = run.div_ceil(GRAIN);
        let piece = |i: usize| -> Range<usize> {
            let (start, at) = (i / pieces * run, i % pieces * GRAIN);
            start + at..start + run.min(at + GRAIN)
        };
        let count = self.rows * self.columns / run * pieces;
        threads.par_ranges(count, GRAIN.div_ceil(run.min(GRAIN)), |range| {
            for i in range {
                // SAFETY: pieces have no elements in common.
                let mut io = unsafe { io.part(piece(i)) };
                apply(&mut io, affine(i / pieces));
            }
        });
    }
}

/// What is summed of an element.
trait Term {
    fn of(x: f32, mean: f32) -> f32;
}

struct Plain;
struct Squares;

impl Term for Plain {
    #[inline(always)]
    fn of(x: f32, _: f32) -> f32 {
        x
    }
}

impl Term for Squares {
    #[inline(always)]
    fn of(x: f32, mean: f32) -> f32 {
        (x - mean) * (x - mean)
    }
}

multiversion! {
    /// The sums of up to [`PARTS_AT_ONCE`] parts; those that are missing are 0.
    fn sums_of_parts<F: Term>(from: &[f32], mean: f32) -> [f32; PARTS_AT_ONCE] {
        let mut lanes = [[0f32; LANES]; PARTS_AT_ONCE];
        if from.len() == PARTS_AT_ONCE * PART {
            for at in (0..PART).step_by(LANES) {
                let at = opaque_index(at);
                for p in 0..PARTS_AT_ONCE {
                    let x = &from[p * PART + at..][..LANES];
                    for i in 0..LANES {
                        lanes[p][i] += F::of(x[i], mean);
                    }
                }
            }
        } else {
            for (part, lanes) in from.chunks(PART).zip(&mut lanes) {
                for group in part.chunks(LANES) {
                    for (lane, x) in lanes.iter_mut().zip(group) {
                        *lane += F::of(*x, mean);
                    }
                }
            }
        }
        let mut sums = [0f32; PARTS_AT_ONCE];
        for p in 0..PARTS_AT_ONCE {
            sums[p] = met(lanes[p], |a, b| a + b)[0];
        }
        sums
    }
}

multiversion! {
    fn apply(io: &mut InOut<'_, f32>, affine: Affine) {
        let Affine { mean, scale, shift } = affine;
        match (io.slices(), shift) {
            (Ok((from, to)), None) => {
                to.iter_mut().zip(from).for_each(|(y, x)| *y = (x - mean) * scale);
            }
            (Ok((from, to)), Some(shift)) => {
                to.iter_mut().zip(from).for_each(|(y, x)| *y = (x - mean) * scale + shift);
            }
            (Err(run), None) => run.iter_mut().for_each(|x| *x = (*x - mean) * scale),
            (Err(run), Some(shift)) => {
                run.iter_mut().for_each(|x| *x = (*x - mean) * scale + shift);
            }
        }
    }
}
