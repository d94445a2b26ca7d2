//! Pooling of boxes by the maximum of each bin, or by one sample per bin.

use super::channels_last::ChannelsLast;
use super::{Maps, Sample, Window, corners, each_box, larger};
use crate::base::num::Wide as _;
use crate::base::par::Threads;
use crate::math::real::{Real, StoredReal};

/// Pooling of boxes, which are `[batch, x1, y1, x2, y2]`.
#[derive(Clone, Debug)]
pub struct BoxPool {
    /// Bins along the height and the width.
    pub bins: (usize, usize),
    /// Factor from box coordinates to map coordinates. `None`: boxes are relative to the size of
    /// the maps, and each bin is one sample, from corner to corner.
    pub scale: Option<f64>,
}

impl BoxPool {
    /// Pools boxes, one for each element of `batches`; further boxes give zeros.
    ///
    /// # Panics
    /// When the sizes of the slices do not match.
    pub fn run<T: StoredReal>(
        &self,
        threads: &Threads,
        maps: Maps<'_, T>,
        (rois, batches): (&[T], &[usize]),
        to: &mut [T],
    ) {
        let bins = (0..self.bins.0 * self.bins.1).map(|i| (i / self.bins.1, i % self.bins.1));
        let boxes = rois.chunks_exact(5).take(batches.len());
        let boxes = boxes.map(|roi| corners(&roi[1..], self.scale.unwrap_or(1.0)));
        if self.scale.is_none() {
            let sample = |(roi, bin)| Sample::new(&maps, self.point(&maps, roi, bin), 0.0);
            let samples: Vec<_> = product(boxes, bins).map(sample).collect();
            let reads = 4 * samples.len();
            let channels_last = ChannelsLast::if_it_pays(threads, &maps, reads);
            let pool = |batch, sample: &Option<Sample<_>>, pooled: &mut [_]| match &channels_last {
                Some(maps) => maps.pool(batch, sample.as_slice(), false, pooled),
                None => pooled.iter_mut().enumerate().for_each(|(channel, pooled)| {
                    // A sum from 0, as above: of -0 it is 0.
                    let zero = T::Wide::default();
                    let value = |s: &Sample<_>| zero + s.value(maps.plane(batch, channel));
                    *pooled = sample.as_ref().map_or(zero, value);
                }),
            };
            return each_bin(threads, maps.channels, (batches, &samples, reads), to, pool);
        }
        let window = |(roi, bin)| self.window(&maps, roi, bin);
        let windows: Vec<_> = product(boxes, bins).map(window).collect();
        let reads = windows.iter().map(Window::area).fold(0, usize::saturating_add);
        let channels_last = ChannelsLast::if_it_pays(threads, &maps, reads);
        let pool = |batch, window: &Window, pooled: &mut [_]| match &channels_last {
            Some(maps) => maps.largest(batch, window, pooled),
            None => pooled.iter_mut().enumerate().for_each(|(channel, pooled)| {
                *pooled = largest(maps.plane(batch, channel), maps.width, window);
            }),
        };
        each_bin(threads, maps.channels, (batches, &windows, reads), to, pool);
    }

    /// The rows and columns of a bin.
    fn window<T, W: Real>(&self, maps: &Maps<'_, T>, roi: [W; 4], bin: (usize, usize)) -> Window {
        // Coordinates beyond 32 bits are outside of any map.
        let whole = |v: W| i64::from(v.round_away().to_f64() as i32);
        let axis = |start: W, end: W, bins: usize, bin: usize, size: usize| {
            let (start, end) = (whole(start), whole(end));
            let each = W::of((end - start + 1).max(1) as f64) / W::of(bins as f64);
            let edge = |v: W| (v.to_f64() as i64 + start).clamp(0, size as i64) as usize;
            edge((W::of(bin as f64) * each).floor())..edge((W::of((bin + 1) as f64) * each).ceil())
        };
        let [x1, y1, x2, y2] = roi;
        Window {
            rows: axis(y1, y2, self.bins.0, bin.0, maps.height),
            columns: axis(x1, x2, self.bins.1, bin.1, maps.width),
        }
    }

    /// The sample of a bin.
    fn point<T, W: Real>(&self, maps: &Maps<'_, T>, roi: [W; 4], bin: (usize, usize)) -> (W, W) {
        let axis = |start: W, end: W, bins: usize, bin: usize, size: usize| {
            let last = W::of(size as f64 - 1.0);
            match bins {
                1 => W::of(0.5) * (start + end) * last,
                // Exactly the end, however the steps are rounded.
                _ if bin == bins - 1 => end * last,
                _ => {
                    let step = (end - start) * last / W::of(bins as f64 - 1.0);
                    W::of(bin as f64) * step + start * last
                }
            }
        };
        let [x1, y1, x2, y2] = roi;
        (
            axis(x1, x2, self.bins.1, bin.1, maps.width),
            axis(y1, y2, self.bins.0, bin.0, maps.height),
        )
    }
}

/// Each box with each bin.
fn product<A: Copy, B>(
    boxes: impl Iterator<Item = A>,
    bins: impl Iterator<Item = B> + Clone,
) -> impl Iterator<Item = (A, B)> {
    boxes.flat_map(move |roi| bins.clone().map(move |bin| (roi, bin)))
}

/// Pools the bins of each box, whose elements are `places`: `pool(image, place, pooled)` computes
/// all channels of a bin. All bins read `reads` elements of each channel.
fn each_bin<T: StoredReal, P: Sync>(
    threads: &Threads,
    channels: usize,
    (batches, places, reads): (&[usize], &[P], usize),
    to: &mut [T],
    pool: impl Fn(usize, &P, &mut [T::Wide]) + Sync,
) {
    let bins = places.len() / batches.len().max(1);
    let work = (batches, channels * bins, reads.div_ceil(places.len().max(1)));
    each_box(threads, work, to, |index, batch, to| {
        let mut pooled = vec![T::Wide::default(); channels];
        for (bin, place) in places[index * bins..][..bins].iter().enumerate() {
            pool(batch, place, &mut pooled);
            for (to, pooled) in to.iter_mut().skip(bin).step_by(bins).zip(&pooled) {
                *to = pooled.narrow();
            }
        }
    });
}

/// The maximum of a window of a plane; 0 if it is empty.
fn largest<T: StoredReal>(plane: &[T], width: usize, window: &Window) -> T::Wide {
    if window.area() == 0 {
        return T::Wide::default();
    }
    let mut best = <T::Wide as Real>::of(f64::NEG_INFINITY);
    for row in window.rows.clone() {
        for x in &plane[row * width..][window.columns.clone()] {
            best = larger(best, x.widen());
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::num::f16;

    #[test]
    fn largest_elements_and_samples() {
        let data: Vec<f16> = (0..48).map(|i| f16::from_f32((i % 8 - i / 8 * 10) as f32)).collect();
        let maps = Maps { data: &data, channels: 2, height: 3, width: 8 };
        let run = |pool: &BoxPool, roi: [f32; 5]| {
            let mut to = [f16::ONE; 8];
            let roi = roi.map(f16::from_f32);
            pool.run(Threads::single(), maps, (&roi, &[0]), &mut to);
            to.map(f32::from)
        };
        let pool = BoxPool { bins: (2, 2), scale: Some(0.5) };
        // Columns 1 to 4 and rows 1 to 3, one of them outside: bins overlap in row 2.
        let found = run(&pool, [0., 2., 2., 8., 6.]);
        assert_eq!(found, [-8., -6., -18., -16., -38., -36., -48., -46.]);
        assert_eq!(run(&pool, [0., 90., 2., 98., 6.]), [0.; 8]);
        let pool = BoxPool { bins: (2, 2), scale: None };
        let found = run(&pool, [0., 0.25, 0., 1.0, 0.75]);
        assert_eq!(found, [1.75, 7., -13.25, -8., -28.25, -23., -43.25, -38.]);
        assert_eq!(run(&pool, [0., -0.5, -0.5, 2., f32::NAN]), [0.; 8]);
    }

    /// Maps of many channels, which are transposed, give the bits of each channel alone.
    #[test]
    fn many_channels_are_those_of_each() {
        let (channels, plane) = (19, 7 * 9);
        let data: Vec<f32> =
            (0..2 * channels * plane).map(|i| (i * 37 % 101) as f32 * 0.37 - 9.0).collect();
        let one = |roi: [f32; 5], by: f32| roi.map(|x| x * by);
        let boxes =
            [[0.0, 1.0, 1.0, 6.0, 5.0], [1.0, 3.0, 0.0, 8.0, 7.0], [0.0, 90.0, 2.0, 98.0, 6.0]];
        for scale in [Some(1.0), None] {
            let by = if scale.is_some() { 1.0 } else { 0.1 };
            let rois: Vec<f32> = (0..60).flat_map(|i| one(boxes[i % 3], by)).collect();
            let batches: Vec<usize> = (0..60).map(|i| usize::from(i % 3 == 1)).collect();
            let pool = BoxPool { bins: (3, 2), scale };
            let run = |data: &[f32], channels| {
                let maps = Maps { data, channels, height: 7, width: 9 };
                let mut to = vec![9.0; 60 * channels * 6];
                pool.run(&Threads::new(3), maps, (&rois, &batches), &mut to);
                to
            };
            let all = run(&data, channels);
            assert!(all.iter().any(|x| *x != 0.0));
            for channel in 0..channels {
                let of = |image: usize| &data[(image * channels + channel) * plane..][..plane];
                let alone = run(&[of(0), of(1)].concat(), 1);
                let all = all.chunks_exact(6).skip(channel).step_by(channels).flatten();
                assert!(all.eq(&alone), "channel {channel}");
            }
        }
    }
}
