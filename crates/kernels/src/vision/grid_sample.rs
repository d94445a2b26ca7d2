//! GridSample: samples of images at given positions.

use crate::base::num::Pod;
use crate::base::par::{Slice, Threads};
use crate::math::real::Real;
use crate::multiversion;
use crate::nn::interpolate::Pixel;

/// What is read outside an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outside {
    /// Zeros.
    Zeros,
    /// The nearest element.
    Border,
    /// Reflection at the edges.
    Mirror,
    /// Reflection at the centres of the outermost elements.
    MirrorCentres,
}

/// How images are sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// Whether -1 and 1 are the centres of the outermost elements, not their edges.
    pub align_corners: bool,
    /// What is read outside.
    pub outside: Outside,
}

/// Images and samples: `batch` times `channels` images of `height` by `width`, with `count` samples
/// each. Channels share the positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Images {
    /// Images with positions of their own.
    pub batch: usize,
    /// Images that share positions.
    pub channels: usize,
    /// Rows of an image.
    pub height: usize,
    /// Columns of an image.
    pub width: usize,
    /// Samples of an image.
    pub count: usize,
}

/// Samples that are worth a second thread.
const GRAIN: usize = 2 << 10;

/// Samples whose positions are computed at a time, for some channels.
const BLOCK: usize = 64;

/// Channels that share the computed positions.
const CHANNELS: usize = 32;

/// An element outside the image, which is 0.
const MISSING: usize = usize::MAX;

impl Outside {
    /// The element for index `at` along an axis of `size`, at least 1.
    fn element(self, at: i64, size: usize) -> usize {
        let size = size as i64;
        let found = match self {
            Outside::Zeros if !(0..size).contains(&at) => return MISSING,
            Outside::Zeros => at,
            Outside::Border => at.clamp(0, size - 1),
            Outside::Mirror => {
                let at = at.rem_euclid(2 * size);
                at.min(2 * size - 1 - at)
            }
            Outside::MirrorCentres if size == 1 => 0,
            Outside::MirrorCentres => {
                let at = at.rem_euclid(2 * (size - 1));
                at.min(2 * (size - 1) - at)
            }
        };
        found as usize
    }

    /// `N` elements around the one at `low`, a whole number, along an axis of `size`.
    fn neighbours<const N: usize>(self, low: f32, size: usize) -> [usize; N] {
        let first = whole(low) - (N as i64 / 2 - 1);
        std::array::from_fn(|i| self.element(first + i as i64, size))
    }
}

impl Sampling {
    /// The position of a coordinate along an axis, in elements.
    #[inline(always)]
    fn position(&self, coordinate: f32, size: usize) -> f32 {
        let size = size as f32;
        if self.align_corners {
            (coordinate + 1.0) * (size - 1.0) / 2.0
        } else {
            ((coordinate + 1.0) * size - 1.0) / 2.0
        }
    }
}

/// A position along an axis, in elements.
#[derive(Clone, Copy, Default)]
struct Position {
    /// Rounded down.
    low: f32,
    /// The distance from there.
    part: f32,
}

multiversion! {
    /// The positions of coordinates along the axes of columns and rows.
    fn positions_of(
        sampling: Sampling,
        coordinates: &[[f32; 2]],
        sizes: [usize; 2],
        to: &mut [[Position; BLOCK]; 2],
    ) {
        for (axis, to) in to.iter_mut().enumerate() {
            for (to, coordinates) in to.iter_mut().zip(coordinates) {
                let x = sampling.position(coordinates[axis], sizes[axis]);
                *to = Position { low: x.floor(), part: x - x.floor() };
            }
        }
    }
}

/// As an integer, clamped far from the ends of its type.
fn whole(x: f32) -> i64 {
    x.clamp(-1e15, 1e15) as i64
}

impl Images {
    fn check(&self, data: usize, grid: usize, out: usize) {
        let Images { batch, channels, height, width, count } = *self;
        assert!(data == batch * channels * height * width);
        assert!(grid == 2 * batch * count && out == batch * channels * count);
        assert!(out == 0 || data > 0, "there is nothing to sample");
    }

    /// Calls `block(positions, sample)` for each block of samples and some channels. It returns a
    /// function that computes the samples of one channel from its image.
    fn each<T: Pod, F: FnMut(&[T], &mut [T])>(
        &self,
        threads: &Threads,
        (data, grid): (&[T], &[f32]),
        out: &mut [T],
        block: impl Fn(&[[f32; 2]]) -> F + Sync,
    ) {
        let Images { batch, channels, height, width, count } = *self;
        let (positions, size) = (grid.as_chunks::<2>().0, height * width);
        let (blocks, groups) = (count.div_ceil(BLOCK), channels.div_ceil(CHANNELS));
        let out = Slice::new(out);
        let grain = GRAIN.div_ceil(BLOCK * channels.clamp(1, CHANNELS));
        threads.par_ranges(batch * groups * blocks, grain, |range| {
            for part in range {
                let (first, image) = (part % blocks * BLOCK, part / blocks);
                let (image, group) = (image / groups, image % groups * CHANNELS);
                let samples = BLOCK.min(count - first);
                let mut sample = block(&positions[image * count + first..][..samples]);
                for channel in group..channels.min(group + CHANNELS) {
                    let channel = image * channels + channel;
                    // SAFETY: the samples of each block and channel are disjoint.
                    let to = unsafe { out.part(channel * count + first, samples) };
                    sample(&data[channel * size..][..size], to);
                }
            }
        });
    }

    /// The nearest element at each position, ties to even. NaN is outside, where that is zeros, and
    /// else position 0.
    ///
    /// # Panics
    /// When a slice has another size, or images to sample are empty.
    pub fn nearest<T: Pod>(
        &self,
        threads: &Threads,
        sampling: Sampling,
        (data, grid): (&[T], &[f32]),
        out: &mut [T],
    ) {
        self.check(data.len(), grid.len(), out.len());
        let (height, width) = (self.height, self.width);
        let element = |coordinate, size| {
            let at = sampling.position(coordinate, size).round_ties_even();
            if at.is_nan() && sampling.outside == Outside::Zeros {
                return MISSING;
            }
            sampling.outside.element(whole(at), size)
        };
        self.each(threads, (data, grid), out, |positions| {
            let mut elements = [MISSING; BLOCK];
            for (to, [x, y]) in elements.iter_mut().zip(positions) {
                *to = flat(element(*y, height), element(*x, width), width);
            }
            move |image, to| {
                for (to, element) in to.iter_mut().zip(elements) {
                    *to = image.get(element).copied().unwrap_or_default();
                }
            }
        });
    }

    /// Weighted sums of `N` by `N` elements around each position; `weights` computes the `N`
    /// weights of an axis. Integers truncate.
    ///
    /// # Panics
    /// As [`Images::nearest`].
    pub fn weighted<T: Pixel, const N: usize>(
        &self,
        threads: &Threads,
        sampling: Sampling,
        weights: fn(f32) -> [f32; N],
        (data, grid): (&[T], &[f32]),
        out: &mut [T],
    ) {
        self.check(data.len(), grid.len(), out.len());
        self.each(threads, (data, grid), out, |positions| {
            let neighbours = Neighbours::of(self, sampling, weights, positions);
            move |image, to| neighbours.sums(image, to)
        });
    }
}

/// The element of an image at a row and a column.
fn flat(row: usize, column: usize, width: usize) -> usize {
    if row == MISSING || column == MISSING { MISSING } else { row * width + column }
}

/// `N` by `N` elements around each position of a block, and their weights.
struct Neighbours<const N: usize> {
    /// Elements of the image, row by row; 0 where one is missing.
    elements: [[[usize; BLOCK]; N]; N],
    /// Whether they are not missing.
    are_there: [[[bool; BLOCK]; N]; N],
    /// The weights of the rows.
    across: [[f32; BLOCK]; N],
    /// The weights of the columns.
    along: [[f32; BLOCK]; N],
    /// Elements of the image.
    size: usize,
}

impl<const N: usize> Neighbours<N> {
    fn of(
        images: &Images,
        sampling: Sampling,
        weights: fn(f32) -> [f32; N],
        coordinates: &[[f32; 2]],
    ) -> Neighbours<N> {
        let Images { height, width, .. } = *images;
        let mut neighbours = Neighbours {
            elements: [[[0; BLOCK]; N]; N],
            are_there: [[[false; BLOCK]; N]; N],
            across: [[0.0; BLOCK]; N],
            along: [[0.0; BLOCK]; N],
            size: height * width,
        };
        let mut positions = [[Position::default(); BLOCK]; 2];
        positions_of(sampling, coordinates, [width, height], &mut positions);
        for i in 0..coordinates.len() {
            let [x, y] = positions.each_ref().map(|axis| axis[i]);
            let rows = sampling.outside.neighbours::<N>(y.low, height);
            let columns = sampling.outside.neighbours::<N>(x.low, width);
            let (across, along) = (weights(y.part), weights(x.part));
            for k in 0..N {
                neighbours.across[k][i] = across[k];
                neighbours.along[k][i] = along[k];
                for (l, column) in columns.iter().enumerate() {
                    let element = flat(rows[k], *column, width);
                    if element != MISSING {
                        neighbours.elements[k][l][i] = element;
                        neighbours.are_there[k][l][i] = true;
                    }
                }
            }
        }
        neighbours
    }

    /// The weighted sums of one image.
    fn sums<T: Pixel>(&self, image: &[T], to: &mut [T]) {
        assert!(image.len() == self.size && self.size > 0);
        let mut sums = [<T::Sum as Real>::of(0.0); BLOCK];
        let mut values = [sums; N];
        for k in 0..N {
            for (values, elements) in values.iter_mut().zip(&self.elements[k]) {
                for (value, element) in values.iter_mut().zip(elements) {
                    debug_assert!(*element < self.size);
                    // SAFETY: elements are within the image, which has a first one.
                    *value = unsafe { image.get_unchecked(*element) }.load();
                }
            }
            add_row(&values, &self.are_there[k], &self.along, &self.across[k], &mut sums);
        }
        for (to, sum) in to.iter_mut().zip(sums) {
            *to = T::from_f64(sum.to_f64());
        }
    }
}

multiversion! {
    vectors if size_of::<S>() == size_of::<f32>();
    /// Adds a row of neighbours, with its weight, to the sums of all positions.
    #[inline(never)]
    fn add_row<S: Real>(
        values: &[[S; BLOCK]],
        are_there: &[[bool; BLOCK]],
        along: &[[f32; BLOCK]],
        across: &[f32; BLOCK],
        sums: &mut [S; BLOCK],
    ) {
        let zero = S::of(0.0);
        let mut row = [zero; BLOCK];
        for ((values, are_there), along) in values.iter().zip(are_there).zip(along) {
            for i in 0..BLOCK {
                let product = S::of(along[i].into()) * values[i];
                row[i] = row[i] + if are_there[i] { product } else { zero };
            }
        }
        for i in 0..BLOCK {
            sums[i] = sums[i] + S::of(across[i].into()) * row[i];
        }
    }
}

/// Weights of two neighbours.
pub fn linear(part: f32) -> [f32; 2] {
    [1.0 - part, part]
}

/// Weights of four neighbours, by cubic convolution with parameter -0.75.
pub fn cubic(part: f32) -> [f32; 4] {
    const A: f32 = -0.75;
    let (s, t) = (part, 1.0 - part);
    [
        A * s * t * t,
        ((A + 2.0) * s - (A + 3.0)) * s * s + 1.0,
        ((A + 2.0) * t - (A + 3.0)) * t * t + 1.0,
        A * s * s * t,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_outside() {
        let row = |outside: Outside, size| {
            (-4..7).map(|at| outside.element(at, size) as isize).collect::<Vec<_>>()
        };
        assert_eq!(row(Outside::Zeros, 3), [-1, -1, -1, -1, 0, 1, 2, -1, -1, -1, -1]);
        assert_eq!(row(Outside::Border, 3), [0, 0, 0, 0, 0, 1, 2, 2, 2, 2, 2]);
        assert_eq!(row(Outside::Mirror, 3), [2, 2, 1, 0, 0, 1, 2, 2, 1, 0, 0]);
        assert_eq!(row(Outside::MirrorCentres, 3), [0, 1, 2, 1, 0, 1, 2, 1, 0, 1, 2]);
        assert_eq!(row(Outside::MirrorCentres, 1), [0; 11]);
    }

    #[test]
    fn samples() {
        let images = Images { batch: 1, channels: 2, height: 2, width: 2, count: 3 };
        let data = [1u8, 3, 5, 7, 10, 30, 50, 70];
        let grid = [-1.0, -1.0, 0.0, 0.0, 0.0, f32::NAN];
        let mut out = [9; 6];
        let zeros = Sampling { align_corners: true, outside: Outside::Zeros };
        images.nearest(Threads::single(), zeros, (&data, &grid), &mut out);
        assert_eq!(out, [1, 1, 0, 10, 10, 0]);
        images.weighted(Threads::single(), zeros, linear, (&data, &grid), &mut out);
        assert_eq!(out, [1, 4, 0, 10, 40, 0]);
        images.weighted(Threads::single(), zeros, cubic, (&data, &grid[..6]), &mut out);
        assert_eq!((out[0], out[3]), (1, 10));
    }

    /// Several channels, whose positions are stored, give the bits of each alone, on any number of
    /// threads.
    #[test]
    fn channels_share_positions() {
        let (channels, plane, count) = (3, 35, 1500);
        let data: Vec<f32> =
            (0..2 * channels * plane).map(|i| (i * 37 % 101) as f32 * 0.37).collect();
        let grid: Vec<f32> =
            (0..4 * count).map(|i| (i * 7919 % 2003) as f32 * 0.0012 - 1.2).collect();
        let sampling = Sampling { align_corners: false, outside: Outside::Zeros };
        let sample = |threads: &Threads, data: &[f32], channels| {
            let images = Images { batch: 2, channels, height: 5, width: 7, count };
            let mut out = vec![vec![9.0; 2 * channels * count]; 3];
            let inputs = (data, &grid[..]);
            images.nearest(threads, sampling, inputs, &mut out[0]);
            images.weighted(threads, sampling, linear, inputs, &mut out[1]);
            images.weighted(threads, sampling, cubic, inputs, &mut out[2]);
            out
        };
        let all = sample(Threads::single(), &data, channels);
        assert_eq!(all, sample(&Threads::new(3), &data, channels));
        for channel in 0..channels {
            let image = |i: usize| &data[(i * channels + channel) * plane..][..plane];
            let one = sample(Threads::single(), &[image(0), image(1)].concat(), 1);
            for (all, one) in all.iter().zip(&one) {
                let of_all = all.chunks_exact(count).skip(channel).step_by(channels);
                assert!(of_all.flatten().eq(one), "channel {channel}");
            }
        }
    }
}
