//! Pooling of boxes by the maximum of each bin, or by one sample per bin.

use super::{Maps, Sample, corners, each_box};
use crate::base::num::Wide as _;
use crate::base::par::Threads;
use crate::math::real::{Real, StoredReal};
use std::ops::Range;

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
        let bins = self.bins.0 * self.bins.1;
        let reads = maps.height * maps.width / bins.max(1);
        each_box(threads, (batches, maps.channels * bins, reads), to, |index, batch, to| {
            let roi = &rois[index * 5 + 1..][..4];
            let places = (0..bins).map(|bin| (bin / self.bins.1, bin % self.bins.1));
            let planes = to.chunks_exact_mut(bins.max(1)).enumerate();
            let planes = planes.map(|(channel, to)| (maps.plane(batch, channel), to));
            match self.scale {
                Some(scale) => {
                    let roi = corners(roi, scale);
                    let windows: Vec<_> = places.map(|bin| self.window(&maps, roi, bin)).collect();
                    for (plane, to) in planes {
                        for (to, window) in to.iter_mut().zip(&windows) {
                            *to = largest(&maps, plane, window);
                        }
                    }
                }
                None => {
                    let roi = corners(roi, 1.0);
                    let sample = |bin| Sample::new(&maps, self.point(&maps, roi, bin), 0.0);
                    let samples: Vec<_> = places.map(sample).collect();
                    let zero = <T::Wide as Real>::of(0.0);
                    for (plane, to) in planes {
                        for (to, sample) in to.iter_mut().zip(&samples) {
                            let value = sample.as_ref().map_or(zero, |sample| sample.value(plane));
                            *to = value.narrow();
                        }
                    }
                }
            }
        });
    }

    /// The rows and columns of a bin.
    fn window<T, W: Real>(
        &self,
        maps: &Maps<'_, T>,
        roi: [W; 4],
        bin: (usize, usize),
    ) -> (Range<usize>, Range<usize>) {
        // Coordinates beyond 32 bits are outside of any map.
        let whole = |v: W| i64::from(v.round_away().to_f64() as i32);
        let axis = |start: W, end: W, bins: usize, bin: usize, size: usize| {
            let (start, end) = (whole(start), whole(end));
            let each = W::of((end - start + 1).max(1) as f64) / W::of(bins as f64);
            let edge = |v: W| (v.to_f64() as i64 + start).clamp(0, size as i64) as usize;
            edge((W::of(bin as f64) * each).floor())..edge((W::of((bin + 1) as f64) * each).ceil())
        };
        let [x1, y1, x2, y2] = roi;
        (
            axis(y1, y2, self.bins.0, bin.0, maps.height),
            axis(x1, x2, self.bins.1, bin.1, maps.width),
        )
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

/// The maximum of a window; 0 if it is empty.
fn largest<T: StoredReal>(
    maps: &Maps<'_, T>,
    plane: &[T],
    (rows, columns): &(Range<usize>, Range<usize>),
) -> T {
    let of = <T::Wide as Real>::of;
    let columns = columns.start..columns.end.min(maps.width);
    if rows.is_empty() || columns.is_empty() {
        return of(0.0).narrow();
    }
    let mut best = of(f64::NEG_INFINITY);
    for row in rows.clone() {
        for x in &plane[row * maps.width..][columns.clone()] {
            let x = x.widen();
            best = if best >= x { best } else { x };
        }
    }
    best.narrow()
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
}
