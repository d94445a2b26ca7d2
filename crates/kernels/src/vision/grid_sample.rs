//! GridSample: samples of images at given positions.

use crate::base::num::Pod;
use crate::base::par::Threads;
use crate::math::real::Real;
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
}

impl Sampling {
    /// The position of a coordinate along an axis, in elements.
    fn position(&self, coordinate: f32, size: usize) -> f32 {
        let size = size as f32;
        if self.align_corners {
            (coordinate + 1.0) * (size - 1.0) / 2.0
        } else {
            ((coordinate + 1.0) * size - 1.0) / 2.0
        }
    }

    /// `N` elements around a position, and its distance from the one below.
    fn neighbours<const N: usize>(&self, coordinate: f32, size: usize) -> ([usize; N], f32) {
        let x = self.position(coordinate, size);
        let low = x.floor();
        let first = whole(low) - (N as i64 / 2 - 1);
        (std::array::from_fn(|i| self.outside.element(first + i as i64, size)), x - low)
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

    /// Writes `value(image, place)` for every output element. `place` computes what the channels
    /// share from a position; it is stored if there are several channels.
    fn each<T: Pod, P: Copy + Send + Sync>(
        &self,
        threads: &Threads,
        (data, grid): (&[T], &[f32]),
        out: &mut [T],
        place: impl Fn(&[f32; 2]) -> P + Sync,
        value: impl Fn(&[T], &P) -> T + Sync,
    ) {
        let Images { channels, height, width, count, .. } = *self;
        let (positions, size) = (grid.as_chunks::<2>().0, height * width);
        let mut places = vec![None; if channels > 1 { positions.len() } else { 0 }];
        threads.par_chunks_mut(&mut places, 1, GRAIN, |first, part| {
            part.iter_mut().zip(&positions[first..]).for_each(|(to, at)| *to = Some(place(at)));
        });
        threads.par_chunks_mut(out, 1, GRAIN, |first, part| {
            let mut done = 0;
            while done < part.len() {
                let (image, sample) = ((first + done) / count, (first + done) % count);
                let some = (count - sample).min(part.len() - done);
                let (from, at) = (&data[image * size..][..size], image / channels * count + sample);
                let (positions, to) = (&positions[at..][..some], &mut part[done..][..some]);
                for (i, (to, position)) in to.iter_mut().zip(positions).enumerate() {
                    let kept = places.get(at + i).copied().flatten();
                    *to = value(from, &kept.unwrap_or_else(|| place(position)));
                }
                done += some;
            }
        });
    }

    /// The nearest element at each position, ties to even.
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
            sampling.outside.element(whole(at), size)
        };
        let place = |at: &[f32; 2]| match (element(at[1], height), element(at[0], width)) {
            (MISSING, _) | (_, MISSING) => MISSING,
            (y, x) => y * width + x,
        };
        self.each(threads, (data, grid), out, place, |image, place| match *place {
            MISSING => T::default(),
            place => image[place],
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
        weights: impl Fn(f32) -> [f32; N] + Sync,
        (data, grid): (&[T], &[f32]),
        out: &mut [T],
    ) {
        self.check(data.len(), grid.len(), out.len());
        let (height, width) = (self.height, self.width);
        let sum = |value: f32| <T::Sum as Real>::of(value.into());
        let axis = |coordinate, size| {
            let (elements, part) = sampling.neighbours::<N>(coordinate, size);
            (elements, weights(part).map(sum))
        };
        let place = |at: &[f32; 2]| (axis(at[1], height), axis(at[0], width));
        self.each(threads, (data, grid), out, place, |image, (across, along)| {
            let ((rows, row_weights), (columns, column_weights)) = (across, along);
            let mut total = sum(0.0);
            for (y, v) in rows.iter().zip(row_weights) {
                let mut row = sum(0.0);
                for (x, w) in columns.iter().zip(column_weights) {
                    if *y != MISSING && *x != MISSING {
                        row = row + *w * image[y * width + x].load();
                    }
                }
                total = total + *v * row;
            }
            T::from_f64(total.to_f64())
        });
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
        let grid = [-1.0, -1.0, 0.0, 0.0, 5.0, f32::NAN];
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
