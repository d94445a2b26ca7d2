//! Deformable convolutions: every tap of every window samples the input at its own position, by
//! bilinear interpolation. The samples become the rows of a matrix for a GEMM with the filters.

use crate::base::num::Pod;
use crate::base::par::{Slice, Threads};
use crate::conv::tuning::DEFORMABLE_GRAIN;
use crate::gemm::Window;
use crate::math::real::Real;
use crate::multiversion;
use std::ops::Range;

/// The sizes of a deformable convolution, for one image of the batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Deformable {
    /// Channels of the input.
    pub channels: usize,
    /// Rows and columns.
    pub axes: [Window; 2],
    /// Groups of channels with filters of their own; it divides the channels.
    pub groups: usize,
    /// Groups of channels with offsets of their own; it divides the channels.
    pub offset_groups: usize,
    /// Whether positions less than one element outside are interpolated with zeros. Otherwise a
    /// sample before the first element is 0, and one behind the last is the last.
    pub padded: bool,
}

/// The positions that the taps sample: for each group and tap an offset in rows, an offset in
/// columns, and a factor.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a, R> {
    /// Two planes for each group and tap.
    pub offsets: &'a [R],
    /// One plane for each group and tap.
    pub mask: Option<&'a [R]>,
}

/// A position between elements.
struct Sample<R> {
    /// The elements around it, counted over the plane; `None` is a zero.
    around: [Option<usize>; 4],
    /// Their weights.
    weights: [R; 4],
}

impl Deformable {
    /// Positions of the output.
    pub fn positions(&self) -> usize {
        self.axes[0].output * self.axes[1].output
    }

    /// Taps of the kernel.
    pub fn taps(&self) -> usize {
        self.axes[0].taps * self.axes[1].taps
    }

    /// Writes the samples, `[groups, positions, taps, channels of a group]`. The input has its
    /// channels last.
    ///
    /// # Panics
    /// When the samples have another size, or a slice is too short.
    pub fn rows<R: Real + Pod>(
        &self,
        threads: &Threads,
        input: &[R],
        places: Places<'_, R>,
        to: &mut [R],
    ) {
        let (positions, taps) = (self.positions(), self.taps());
        assert_eq!(to.len(), positions * taps * self.channels);
        let zeros = vec![R::of(0.0); self.channels / self.groups];
        let sampler = Sampler { plan: self, input, places, zeros };
        let to = Slice::new(to);
        let grain = DEFORMABLE_GRAIN.div_ceil((taps * self.channels).max(1));
        threads.par_ranges(positions, grain, |range| windows(&sampler, range, to));
    }

    /// The elements around a position and their weights; `None` for a zero outside of the input.
    #[inline(always)]
    fn sample<R: Real>(&self, y: R, x: R) -> Option<Sample<R>> {
        let [height, width] = &self.axes;
        let least = R::of(if self.padded { -1.0 } else { 0.0 });
        let inside = |v: R, axis: &Window| {
            (v > least || v == least && !self.padded) && v < R::of(axis.input as f64)
        };
        if !(inside(y, height) && inside(x, width)) {
            return None;
        }
        let (top, left) = (y.floor(), x.floor());
        let (dy, dx) = (y - top, x - left);
        let (top, left) = (top.to_f64() as isize, left.to_f64() as isize);
        let at = |i: isize, axis: &Window| {
            if self.padded {
                usize::try_from(i).ok().filter(|i| *i < axis.input)
            } else {
                Some((i as usize).min(axis.input - 1))
            }
        };
        let element = |row, column| Some(at(row, height)? * width.input + at(column, width)?);
        let (up, before) = (R::of(1.0) - dy, R::of(1.0) - dx);
        Some(Sample {
            around: [
                element(top, left),
                element(top + 1, left),
                element(top, left + 1),
                element(top + 1, left + 1),
            ],
            weights: [before * up, before * dy, dx * up, dx * dy],
        })
    }
}

/// What the samples of an image are taken from.
struct Sampler<'a, R> {
    plan: &'a Deformable,
    /// Channels last.
    input: &'a [R],
    places: Places<'a, R>,
    /// The channels of an element outside.
    zeros: Vec<R>,
}

impl<R: Real> Sampler<'_, R> {
    /// Writes the samples of one tap of a window in some channels, from `first` on.
    #[inline(always)]
    fn write(&self, (position, tap): (usize, usize), mut first: usize, mut to: &mut [R]) {
        let Places { offsets, mask } = self.places;
        let (positions, taps) = (self.plan.positions(), self.plan.taps());
        let [height, width] = &self.plan.axes;
        let start = |axis: &Window, i: usize, tap: usize| {
            R::of((i * axis.stride + tap * axis.dilation) as f64 + axis.start as f64)
        };
        let y = start(height, position / width.output, tap / width.taps);
        let x = start(width, position % width.output, tap % width.taps);
        let shared = self.plan.channels / self.plan.offset_groups;
        while !to.is_empty() {
            let map = first / shared * taps + tap;
            let of = |plane: usize| plane * positions + position;
            let (down, across) = (offsets[of(2 * map)], offsets[of(2 * map + 1)]);
            let factor = mask.map_or(R::of(1.0), |mask| mask[of(map)]);
            let part;
            (part, to) = to.split_at_mut((shared - first % shared).min(to.len()));
            match self.plan.sample(y + down, x + across) {
                None => part.fill(R::of(0.0) * factor),
                Some(Sample { around, weights }) => {
                    let channels = |at: Option<usize>| match at {
                        Some(at) => &self.input[at * self.plan.channels + first..][..part.len()],
                        None => &self.zeros[..part.len()],
                    };
                    blend(around.map(channels), weights, factor, part);
                }
            }
            first += part.len();
        }
    }
}

multiversion! {
    vectors if size_of::<R>() == size_of::<f32>();
    /// Writes the samples of some windows. Other threads write those of other windows.
    fn windows<R: Real>(sampler: &Sampler<'_, R>, range: Range<usize>, to: Slice<R>) {
        let Deformable { channels, groups, .. } = *sampler.plan;
        let (positions, taps) = (sampler.plan.positions(), sampler.plan.taps());
        let channels = channels / groups;
        for position in range {
            for tap in 0..taps {
                for group in 0..groups {
                    let at = ((group * positions + position) * taps + tap) * channels;
                    // SAFETY: below the length that `rows` has asserted; each part is written once.
                    let to = unsafe { to.part(at, channels) };
                    sampler.write((position, tap), group * channels, to);
                }
            }
        }
    }
}

/// The weighted sum of four rows, times a factor.
#[inline(always)]
fn blend<R: Real>(rows: [&[R]; 4], weights: [R; 4], factor: R, to: &mut [R]) {
    let [a, b, c, d] = rows.map(|row| &row[..to.len()]);
    for (i, to) in to.iter_mut().enumerate() {
        let above = weights[0] * a[i] + weights[1] * b[i];
        *to = (above + weights[2] * c[i] + weights[3] * d[i]) * factor;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_between_elements() {
        let axis = Window { input: 2, output: 2, taps: 1, stride: 1, dilation: 1, start: 0 };
        let input = [1.0, 3.0, 5.0, 7.0f64];
        let run = |padded: bool, offsets: [f64; 8], mask: Option<&[f64]>| {
            let plan =
                Deformable { channels: 1, axes: [axis; 2], groups: 1, offset_groups: 1, padded };
            let (mut to, places) = ([0.0; 4], Places { offsets: &offsets, mask });
            plan.rows(Threads::single(), &input, places, &mut to);
            to
        };
        assert_eq!(run(false, [0.0; 8], None), input);
        let between = [0.5, 0.25, 0.0, 0.0, 0.5, 0.0, 0.25, -0.5];
        assert_eq!(run(false, between, None), [4.0, 4.0, 5.5, 6.0]);
        assert_eq!(run(false, between, Some(&[1.0, 0.5, 0.0, 2.0])), [4.0, 2.0, 0.0, 12.0]);
        let outside = [-0.5, 0.0, 0.5, 1.0, 0.0, 0.5, 0.0, f64::NAN];
        assert_eq!(run(false, outside, None), [0.0, 3.0, 5.0, 0.0]);
        assert_eq!(run(true, outside, None), [0.5, 1.5, 2.5, 0.0]);
    }

    /// Six channels in two groups with filters and three with offsets, each channel against one of
    /// its own.
    #[test]
    fn groups_cross() {
        let axis = Window { input: 5, output: 4, taps: 2, stride: 1, dilation: 1, start: 0 };
        let plan =
            Deformable { channels: 6, axes: [axis; 2], groups: 2, offset_groups: 3, padded: true };
        let number = |i: usize| (i * 7919 % 97) as f32 / 41.0 - 1.0;
        let input: Vec<f32> = (0..25 * 6).map(number).collect();
        let offsets: Vec<f32> = (0..3 * 4 * 2 * 16).map(number).collect();
        let mask: Vec<f32> = (0..3 * 4 * 16).map(number).collect();
        let mut all = vec![0.0; 16 * 4 * 6];
        let places = Places { offsets: &offsets, mask: Some(&mask) };
        plan.rows(&Threads::new(2), &input, places, &mut all);
        for channel in 0..6 {
            let one = Deformable { channels: 1, groups: 1, offset_groups: 1, ..plan.clone() };
            let group = channel / 2;
            let places = Places {
                offsets: &offsets[group * 128..][..128],
                mask: Some(&mask[group * 64..][..64]),
            };
            let input: Vec<f32> = input.iter().skip(channel).step_by(6).copied().collect();
            let mut expected = vec![0.0; 16 * 4];
            one.rows(Threads::single(), &input, places, &mut expected);
            let found = all[channel / 3 * 16 * 4 * 3..].iter().skip(channel % 3).step_by(3);
            assert!(found.zip(&expected).all(|(a, b)| a == b), "channel {channel}");
        }
    }
}
