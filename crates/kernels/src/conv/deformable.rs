//! Deformable convolutions: every tap of every window samples the input at its own position, by
//! bilinear interpolation. The samples become the columns of a matrix for a GEMM with the filters.

use crate::base::par::Threads;
use crate::conv::tuning::DEFORMABLE_GRAIN;
use crate::gemm::Window;
use crate::math::real::Real;

/// The sizes of a deformable convolution, for one image of the batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Deformable {
    /// Channels of the input.
    pub channels: usize,
    /// Rows and columns.
    pub axes: [Window; 2],
    /// Groups of channels with their own offsets; it divides the channels.
    pub groups: usize,
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

/// A tap in a channel.
#[derive(Clone, Copy)]
struct Tap {
    /// The plane of offsets, counted over groups and taps.
    map: usize,
    /// The tap, counted over the kernel.
    tap: usize,
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

    /// Writes the samples: a row for each channel and tap, a column for each position.
    ///
    /// # Panics
    /// When a slice is too short.
    pub fn columns<R: Real>(
        &self,
        threads: &Threads,
        input: &[R],
        places: Places<'_, R>,
        to: &mut [R],
    ) {
        let (positions, taps) = (self.positions(), self.taps());
        let plane = self.axes[0].input * self.axes[1].input;
        threads.par_chunks_mut(to, positions, DEFORMABLE_GRAIN, |first, part| {
            for (i, row) in part.chunks_mut(positions.max(1)).enumerate() {
                let (channel, tap) = ((first + i) / taps, (first + i) % taps);
                let group = channel / (self.channels / self.groups);
                let input = &input[channel * plane..][..plane];
                self.row(input, Tap { map: group * taps + tap, tap }, places, row);
            }
        });
    }

    /// The samples of one tap in one channel.
    fn row<R: Real>(
        &self,
        input: &[R],
        Tap { map, tap }: Tap,
        Places { offsets, mask }: Places<'_, R>,
        to: &mut [R],
    ) {
        let [height, width] = &self.axes;
        let start = |axis: &Window, i: usize, tap: usize| {
            R::of((i * axis.stride + tap * axis.dilation) as f64 + axis.start as f64)
        };
        let count = to.len();
        let (down, across) = offsets[2 * map * count..][..2 * count].split_at(count);
        let mask = mask.map(|mask| &mask[map * count..][..count]);
        for (i, to) in to.iter_mut().enumerate() {
            let y = start(height, i / width.output, tap / width.taps) + down[i];
            let x = start(width, i % width.output, tap % width.taps) + across[i];
            let value = self.sample(input, y, x);
            *to = mask.map_or(value, |mask| value * mask[i]);
        }
    }

    /// The value at a position, interpolated between the four elements around it.
    #[inline(always)]
    fn sample<R: Real>(&self, input: &[R], y: R, x: R) -> R {
        let [height, width] = &self.axes;
        let least = R::of(if self.padded { -1.0 } else { 0.0 });
        let inside = |v: R, axis: &Window| {
            (v > least || v == least && !self.padded) && v < R::of(axis.input as f64)
        };
        if !(inside(y, height) && inside(x, width)) {
            return R::of(0.0);
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
        let element = |row: isize, column: isize| match (at(row, height), at(column, width)) {
            (Some(row), Some(column)) => input[row * width.input + column],
            _ => R::of(0.0),
        };
        let (up, before) = (R::of(1.0) - dy, R::of(1.0) - dx);
        before * up * element(top, left)
            + before * dy * element(top + 1, left)
            + dx * up * element(top, left + 1)
            + dx * dy * element(top + 1, left + 1)
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
            let plan = Deformable { channels: 1, axes: [axis; 2], groups: 1, padded };
            let (mut to, places) = ([0.0; 4], Places { offsets: &offsets, mask });
            plan.columns(Threads::single(), &input, places, &mut to);
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
}
