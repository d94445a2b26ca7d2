//! Normalisation of NHWC feature maps: groups of neighbouring channels over all positions of a map,
//! as in GroupNormalization and instance normalisation.
//!
//! Each channel is summed over the positions, in order, in eight parts of a map. The sums of the
//! parts are added in order, then those of the channels of a group.

use crate::base::par::Threads;
use crate::base::scratch::{InOut, ScratchPool};
use crate::gemm::{PostOp, apply_to_rows};
use crate::multiversion;
use crate::nn::norm::layer_norm::{Divisor, Normalization};

/// Parts of a map. Their number does not depend on the threads, so the sums do not either.
const PARTS: usize = 8;

/// Rows that are written together.
const POSITIONS_AT_ONCE: usize = 16;

/// Elements that are worth a second thread.
const GRAIN: usize = 8 << 10;

/// Feature maps to normalise: `batch` times `positions` rows of `channels` elements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Maps {
    /// Number of maps.
    pub batch: usize,
    /// Positions of a map.
    pub positions: usize,
    /// Number of channels.
    pub channels: usize,
    /// Number of groups, with equally many channels each.
    pub groups: usize,
    /// How a group is normalised.
    pub normalization: Normalization,
}

impl Maps {
    /// Normalises the groups of every map. Then each channel is scaled and shifted, if factors and
    /// shifts are given, and `post_ops` are applied.
    ///
    /// # Panics
    /// When the groups do not divide the channels, or lengths differ.
    pub fn run(
        &self,
        threads: &Threads,
        scratch: &ScratchPool,
        affine: Option<(&[f32], &[f32])>,
        post_ops: &[PostOp<'_>],
        io: &mut InOut<'_, f32>,
    ) {
        let Maps { batch, positions, channels, groups, normalization } = *self;
        assert!(io.len() == batch * positions * channels && groups > 0 && channels % groups == 0);
        if io.is_empty() {
            return;
        }
        let mut workspace = scratch.take::<f32>(batch * channels * (PARTS + 2));
        let (sums, rest) = workspace.split_at_mut(batch * channels * PARTS);
        let (means, factors) = rest.split_at_mut(batch * channels);
        let count = (channels / groups * positions) as f32;
        means.fill(0.0);
        if normalization.center {
            self.add(threads, (sums, means), io, add_rows);
            self.met(sums, means, |sum| sum / count);
        }
        factors.fill(1.0);
        if normalization.divisor != Divisor::One {
            self.add(threads, (sums, means), io, add_squares);
            self.met(sums, factors, |sum| 1.0 / normalization.divisor.of(sum, count));
        }
        if let Some((scale, _)) = affine {
            factors.iter_mut().zip(scale.iter().cycle()).for_each(|(f, s)| *f *= s);
        }
        let shift = affine.map_or(&[][..], |(_, shift)| shift);
        let groups = positions.div_ceil(POSITIONS_AT_ONCE);
        threads.par_ranges(batch * groups, GRAIN.div_ceil(POSITIONS_AT_ONCE * channels), |range| {
            for (map, group) in range.map(|i| (i / groups, i % groups)) {
                let first = map * positions + group * POSITIONS_AT_ONCE;
                let count = POSITIONS_AT_ONCE.min((map + 1) * positions - first);
                // SAFETY: the rows of different groups are disjoint.
                let mut io = unsafe { io.part(first * channels..(first + count) * channels) };
                let of_map = map * channels..(map + 1) * channels;
                write_rows(&mut io, &means[of_map.clone()], &factors[of_map], shift);
                apply_to_rows(post_ops, first, channels, io.output(0..count * channels));
            }
        });
    }

    /// Computes the sums of the channels in each part of each map; `add` adds up some rows.
    fn add(
        &self,
        threads: &Threads,
        (sums, means): (&mut [f32], &[f32]),
        io: &InOut<'_, f32>,
        add: fn(&[f32], &[f32], &mut [f32]),
    ) {
        let Maps { positions, channels, .. } = *self;
        let rows = positions.div_ceil(PARTS);
        let grain = GRAIN.div_ceil(rows * channels) * channels;
        threads.par_chunks_mut(sums, channels, grain, |first, parts| {
            for (i, sums) in parts.chunks_exact_mut(channels).enumerate() {
                let (map, part) = ((first + i) / PARTS, (first + i) % PARTS);
                let rows = (part * rows).min(positions)..((part + 1) * rows).min(positions);
                let start = map * positions;
                let run = (start + rows.start) * channels..(start + rows.end) * channels;
                // SAFETY: nobody writes before all sums are complete.
                let mut io = unsafe { io.part(run) };
                sums.fill(0.0);
                let from: &[f32] = match io.slices() {
                    Ok((from, _)) => from,
                    Err(run) => run,
                };
                add(from, &means[map * channels..][..channels], sums);
            }
        });
    }

    /// Sums each group over parts and channels, and sets all its channels to `finish` of the sum.
    fn met(&self, sums: &[f32], to: &mut [f32], finish: impl Fn(f32) -> f32) {
        let Maps { channels, groups, .. } = *self;
        let size = channels / groups;
        for (parts, to) in sums.chunks_exact(PARTS * channels).zip(to.chunks_exact_mut(channels)) {
            let (first, others) = parts.split_at(channels);
            to.copy_from_slice(first);
            for part in others.chunks_exact(channels) {
                to.iter_mut().zip(part).for_each(|(sum, own)| *sum += own);
            }
            for group in to.chunks_exact_mut(size) {
                let sum = group.iter().fold(0.0, |sum, own| sum + own);
                group.fill(finish(sum));
            }
        }
    }
}

multiversion! {
    /// Adds rows to the sums of their columns.
    fn add_rows(rows: &[f32], means: &[f32], sums: &mut [f32]) {
        for row in rows.chunks_exact(means.len()) {
            for (sum, x) in sums.iter_mut().zip(row) {
                *sum += x;
            }
        }
    }
}

multiversion! {
    /// Adds the squares of rows minus the means of their columns.
    fn add_squares(rows: &[f32], means: &[f32], sums: &mut [f32]) {
        for row in rows.chunks_exact(means.len()) {
            for ((sum, x), mean) in sums.iter_mut().zip(row).zip(means) {
                let d = x - mean;
                *sum += d * d;
            }
        }
    }
}

multiversion! {
    /// Writes rows minus the means of their columns, times factors, plus shifts if there are any.
    fn write_rows(io: &mut InOut<'_, f32>, means: &[f32], factors: &[f32], shift: &[f32]) {
        let columns = means.len();
        let terms = means.iter().zip(factors);
        match io.slices() {
            Ok((from, to)) => {
                let rows = to.chunks_exact_mut(columns).zip(from.chunks_exact(columns));
                for (to, from) in rows {
                    for ((to, x), (mean, factor)) in to.iter_mut().zip(from).zip(terms.clone()) {
                        *to = (x - mean) * factor;
                    }
                }
            }
            Err(rows) => {
                for row in rows.chunks_exact_mut(columns) {
                    for (x, (mean, factor)) in row.iter_mut().zip(terms.clone()) {
                        *x = (*x - mean) * factor;
                    }
                }
            }
        }
        for row in io.output(0..io.len()).chunks_exact_mut(columns) {
            for (x, shift) in row.iter_mut().zip(shift) {
                *x += shift;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::unary::Unary;

    fn values(count: usize, seed: usize) -> Vec<f32> {
        (0..count).map(|i| ((i + seed) * 37 % 101) as f32 * 0.25 + 10.0).collect()
    }

    /// The definition in f64.
    fn reference(maps: &Maps, from: &[f32], (scale, shift): (&[f32], &[f32])) -> Vec<f64> {
        let Maps { batch, positions, channels, groups, .. } = *maps;
        let size = channels / groups;
        let moments = |i: usize| {
            let (map, group) = (i / groups, i % groups);
            let place =
                |i: usize| (map * positions + i / size) * channels + group * size + i % size;
            let all: Vec<f64> = (0..positions * size).map(|i| f64::from(from[place(i)])).collect();
            let mean = all.iter().sum::<f64>() / all.len() as f64;
            let squares: f64 = all.iter().map(|x| (x - mean).powi(2)).sum();
            (mean, (squares / all.len() as f64 + 1e-3).sqrt())
        };
        let moments: Vec<(f64, f64)> = (0..batch * groups).map(moments).collect();
        let of = |at: usize| {
            let (map, group) = (at / channels / positions, at % channels / size);
            let (mean, deviation) = moments[map * groups + group];
            let y = (f64::from(from[at]) - mean) / deviation;
            (y * f64::from(scale[at % channels]) + f64::from(shift[at % channels])).abs()
        };
        (0..from.len()).map(of).collect()
    }

    /// Few, odd and many positions; in place and not; one thread and several.
    #[test]
    fn agrees_with_the_definition() {
        let normalization = Normalization { center: true, divisor: Divisor::DeviationInside(1e-3) };
        for (batch, positions, channels, groups) in
            [(1, 1, 6, 2), (2, 35, 20, 4), (3, 7, 5, 5), (1, 1000, 48, 1), (2, 600, 33, 33)]
        {
            let maps = Maps { batch, positions, channels, groups, normalization };
            let from = values(batch * positions * channels, 1);
            let (scale, shift) = (values(channels, 2), values(channels, 3));
            let exact = reference(&maps, &from, (&scale, &shift));
            let post_ops = [PostOp::Apply(Unary::Abs {})];
            let run = |threads: usize, in_place: bool| {
                let mut to = from.clone();
                let scratch = ScratchPool::default();
                let mut io = if in_place {
                    InOut::in_place(&mut to)
                } else {
                    to.fill(f32::NAN);
                    InOut::separate(&from, &mut to)
                };
                maps.run(
                    &Threads::new(threads),
                    &scratch,
                    Some((&scale, &shift)),
                    &post_ops,
                    &mut io,
                );
                to
            };
            let found = run(1, false);
            for (found, exact) in found.iter().zip(exact) {
                assert!((f64::from(*found) - exact).abs() < 2e-3, "{found} {exact}");
            }
            assert_eq!(found, run(3, false));
            assert_eq!(found, run(2, true));
        }
    }

    /// Only the mean is subtracted, without a divisor or a scale.
    #[test]
    fn channels_are_centred() {
        let normalization = Normalization { center: true, divisor: Divisor::One };
        let maps = Maps { batch: 1, positions: 2, channels: 3, groups: 3, normalization };
        let mut data = [1.0, 2.0, 3.0, 3.0, 4.0, 9.0];
        let scratch = ScratchPool::default();
        maps.run(Threads::single(), &scratch, None, &[], &mut InOut::in_place(&mut data));
        assert_eq!(data, [-1.0, -1.0, -3.0, 1.0, 1.0, 3.0]);
    }
}
