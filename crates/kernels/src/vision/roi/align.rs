//! RoIAlign: bins of interpolated samples, reduced to their maximum or mean.

use super::channels_last::ChannelsLast;
use super::{Maps, Sample, each_box};
use crate::base::num::Wide as _;
use crate::base::par::Threads;
use crate::math::real::{Real, StoredReal};

/// How box coordinates become map coordinates. The centres of map elements are at integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alignment {
    /// Scaled; boxes are at least 1 wide and high.
    Asymmetric,
    /// Scaled, then shifted by half an element.
    HalfPixelForNn,
    /// Shifted by half a pixel, scaled, and shifted back by half an element.
    HalfPixel,
    /// As [`Alignment::HalfPixelForNn`]. Boxes are centre, size and rotation angle.
    Rotated {
        /// Whether the angle is clockwise.
        clockwise: bool,
    },
}

/// Pooling of boxes by samples.
#[derive(Clone, Debug)]
pub struct Align {
    /// Bins along the height and the width.
    pub bins: (usize, usize),
    /// Samples of a bin along each axis; 0 for one per element of the bin.
    pub samples: usize,
    /// Factor from box coordinates to map coordinates.
    pub scale: f64,
    /// The alignment.
    pub alignment: Alignment,
    /// Whether a bin is the maximum of its samples, or 0 if they are negative; else their mean.
    pub max: bool,
}

/// The most samples per bin, so that memory for them is bounded.
pub const MOST_SAMPLES: usize = 1 << 20;

/// A box with more samples than [`MOST_SAMPLES`] in a bin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManySamples {
    /// The box.
    pub index: usize,
}

/// A box in map coordinates.
struct Region<W> {
    /// The corner before rotation: x and y.
    start: (W, W),
    /// Size of a bin.
    bin: (W, W),
    /// Samples of a bin along x and y.
    samples: (usize, usize),
    /// Centre and angle of the rotation, if any.
    rotation: Option<RotationOf<W>>,
}

/// A rotation around a centre.
struct RotationOf<W> {
    centre: (W, W),
    sin: W,
    cos: W,
}

impl<W: Real> Region<W> {
    /// The position of sample `i` of a bin, by x and y.
    fn point(&self, bin: (usize, usize), i: (usize, usize)) -> (W, W) {
        let along = |start: W, size: W, samples: usize, bin: usize, i: usize| {
            let step = size / W::of(samples as f64);
            start + W::of(bin as f64) * size + step * (W::of(i as f64) + W::of(0.5))
        };
        let x = along(self.start.0, self.bin.0, self.samples.0, bin.0, i.0);
        let y = along(self.start.1, self.bin.1, self.samples.1, bin.1, i.1);
        let Some(rotation) = &self.rotation else { return (x, y) };
        let (right, down) =
            (y * rotation.sin + x * rotation.cos, y * rotation.cos - x * rotation.sin);
        (right + rotation.centre.0, down + rotation.centre.1)
    }

    /// The samples of a bin, except those outside the maps.
    fn sample<T>(&self, maps: &Maps<'_, T>, bin: (usize, usize), samples: &mut Vec<Sample<W>>) {
        samples.clear();
        for i in 0..self.samples.0 * self.samples.1 {
            let point = self.point(bin, (i % self.samples.0, i / self.samples.0));
            samples.extend(Sample::new(maps, point, 1.0));
        }
    }
}

impl Align {
    /// Number of elements that describe a box.
    pub fn box_size(&self) -> usize {
        if matches!(self.alignment, Alignment::Rotated { .. }) { 5 } else { 4 }
    }

    /// Pools boxes, one for each element of `batches`; further boxes give zeros.
    ///
    /// # Errors
    /// When a box is too large to be sampled; then nothing is written.
    ///
    /// # Panics
    /// When the sizes of the slices do not match.
    pub fn run<T: StoredReal>(
        &self,
        threads: &Threads,
        maps: Maps<'_, T>,
        (rois, batches): (&[T], &[usize]),
        to: &mut [T],
    ) -> Result<(), TooManySamples> {
        let boxes = rois.chunks_exact(self.box_size()).zip(batches).enumerate();
        let region = |(index, (roi, _))| self.region(roi).ok_or(TooManySamples { index });
        let regions: Vec<Region<T::Wide>> = boxes.map(region).collect::<Result<_, _>>()?;
        let most = regions.iter().map(|r| r.samples.0 * r.samples.1).max().unwrap_or(0);
        let bins = self.bins.0 * self.bins.1;
        let work = (batches, maps.channels * bins, 4 * most);
        let reads = regions.iter().map(|r| bins.saturating_mul(4 * (r.samples.0 * r.samples.1)));
        let reads = reads.fold(0, usize::saturating_add);
        let channels_last = ChannelsLast::if_it_pays(threads, &maps, reads);
        each_box(threads, work, to, |index, batch, to| {
            let region = &regions[index];
            let (mut samples, mut pooled) = (Vec::new(), vec![T::Wide::default(); maps.channels]);
            for bin in 0..bins {
                region.sample(&maps, (bin % self.bins.1, bin / self.bins.1), &mut samples);
                match &channels_last {
                    Some(maps) => maps.pool(batch, &samples, self.max, &mut pooled),
                    None => pooled.iter_mut().enumerate().for_each(|(channel, pooled)| {
                        *pooled = self.pooled(&samples, maps.plane(batch, channel));
                    }),
                }
                // The divisor of a mean.
                let count = if self.max { 1 } else { region.samples.0 * region.samples.1 };
                let count = <T::Wide as Real>::of(count.max(1) as f64);
                for (to, pooled) in to.iter_mut().skip(bin).step_by(bins).zip(&pooled) {
                    *to = (*pooled / count).narrow();
                }
            }
        });
        Ok(())
    }

    /// The maximum or the sum of the samples of a bin. Those outside the maps are 0.
    fn pooled<T: StoredReal>(&self, samples: &[Sample<T::Wide>], plane: &[T]) -> T::Wide {
        let zero = <T::Wide as Real>::of(0.0);
        let values = samples.iter().map(|sample| sample.value(plane));
        if self.max {
            values.fold(zero, |max, x| if x > max { x } else { max })
        } else {
            values.fold(zero, |sum, x| sum + x)
        }
    }

    /// A box in map coordinates; `None` if it has too many samples.
    fn region<T: StoredReal>(&self, roi: &[T]) -> Option<Region<T::Wide>> {
        let of = <T::Wide as Real>::of;
        let roi: Vec<T::Wide> = roi.iter().map(|v| v.widen()).collect();
        let (start, size, rotation) = match self.alignment {
            Alignment::Rotated { clockwise } => {
                let centre = (roi[0] * of(self.scale) - of(0.5), roi[1] * of(self.scale) - of(0.5));
                let size = (roi[2] * of(self.scale), roi[3] * of(self.scale));
                let angle = if clockwise { -roi[4] } else { roi[4] };
                let (sin, cos) = (angle.via_f64(libm::sin), angle.via_f64(libm::cos));
                let start = (-size.0 / of(2.0), -size.1 / of(2.0));
                (start, size, Some(RotationOf { centre, sin, cos }))
            }
            alignment => {
                let (before, after) = match alignment {
                    Alignment::HalfPixel => (0.5, 0.5),
                    Alignment::HalfPixelForNn => (0.0, 0.5),
                    _ => (0.0, 0.0),
                };
                let place = |i: usize| (roi[i] + of(before)) * of(self.scale) - of(after);
                let least = |v: T::Wide| match alignment {
                    Alignment::Asymmetric => v.greatest(of(1.0)),
                    _ => v,
                };
                let size = (least(place(2) - place(0)), least(place(3) - place(1)));
                ((place(0), place(1)), size, None)
            }
        };
        let bin = (size.0 / of(self.bins.1 as f64), size.1 / of(self.bins.0 as f64));
        let count = |bin: T::Wide| match self.samples {
            0 => bin.ceil().to_f64() as usize,
            fixed => fixed,
        };
        let samples = (count(bin.0), count(bin.1));
        let all = samples.0.checked_mul(samples.1)?;
        (all <= MOST_SAMPLES).then_some(Region { start, bin, samples, rotation })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A plane with the value `x + 10 y` at every point, which interpolation preserves.
    fn slope() -> Vec<f64> {
        (0..48).map(|i| f64::from(i % 8 + i / 8 * 10)).collect()
    }

    fn run(align: &Align, rois: &[f64], to: &mut [f64]) -> Result<(), TooManySamples> {
        let data = slope();
        let maps = Maps { data: &data, channels: 1, height: 6, width: 8 };
        align.run(Threads::single(), maps, (rois, &[0]), to)
    }

    #[test]
    fn means_of_samples() {
        let mut align = Align {
            bins: (1, 2),
            samples: 2,
            scale: 0.5,
            alignment: Alignment::Asymmetric,
            max: false,
        };
        let mut to = [7.0; 4];
        // From (1, 2) to (5, 4): the centres of the bins are (2, 3) and (4, 3). The second box is
        // unused.
        run(&align, &[2., 4., 10., 8., 0., 0., 0., 0.], &mut to).unwrap();
        assert_eq!(to, [32., 34., 0., 0.]);
        align.alignment = Alignment::HalfPixelForNn;
        run(&align, &[3., 5., 11., 9.], &mut to[..2]).unwrap();
        assert_eq!(to[..2], [32., 34.]);
        align.alignment = Alignment::HalfPixel;
        run(&align, &[2.5, 4.5, 10.5, 8.5], &mut to[..2]).unwrap();
        assert_eq!(to[..2], [32., 34.]);
        align.max = true;
        run(&align, &[2.5, 4.5, 10.5, 8.5], &mut to[..2]).unwrap();
        assert_eq!(to[..2], [37.5, 39.5]);
    }

    #[test]
    fn boxes_rotate() {
        let alignment = Alignment::Rotated { clockwise: false };
        let align = Align { bins: (1, 2), samples: 0, scale: 1.0, alignment, max: false };
        let mut to = [0.0; 2];
        run(&align, &[4.5, 3.5, 4., 2., 0.], &mut to).unwrap();
        assert_eq!(to, [33., 35.]);
        run(&align, &[4.5, 3.5, 4., 2., std::f64::consts::FRAC_PI_2], &mut to).unwrap();
        assert!((to[0] - 44.).abs() < 1e-9 && (to[1] - 24.).abs() < 1e-9, "{to:?}");
    }

    /// A box without width may have any height: it has no samples.
    #[test]
    fn boxes_of_no_width_are_0() {
        let alignment = Alignment::HalfPixelForNn;
        let align = Align { bins: (1, 1), samples: 0, scale: 1.0, alignment, max: false };
        run(&align, &[0.0, 0.0, 0.0, 1e30], &mut [7.0]).unwrap();
        let maps = Maps { data: &slope(), channels: 8, height: 2, width: 3 };
        let mut to = [7.0; 8];
        align.run(Threads::single(), maps, (&[0.0, 0.0, 0.0, 1e30], &[0]), &mut to).unwrap();
        assert_eq!(to, [0.0; 8]);
    }

    /// Maps of many channels, which are transposed, give the same bits as each channel alone.
    #[test]
    fn channels_have_the_bits_of_one() {
        let (channels, plane) = (37, 9 * 11);
        let data: Vec<f32> =
            (0..2 * channels * plane).map(|i| (i * 7919 % 1009) as f32 * 0.37 - 150.0).collect();
        let rois: Vec<f32> = (0..30 * 4)
            .map(|i| (i % 4 / 2 * 6) as f32 + (i * 31 % 60) as f32 * 0.13 - 1.0)
            .collect();
        let batches: Vec<usize> = (0..30).map(|i| i % 2).collect();
        for (samples, max) in [(2, false), (0, false), (3, true)] {
            let alignment = Alignment::HalfPixel;
            let align = Align { bins: (3, 2), samples, scale: 0.9, alignment, max };
            let run = |threads: &Threads, data: &[f32], channels| {
                let maps = Maps { data, channels, height: 9, width: 11 };
                let mut to = vec![7.0; 30 * channels * 6];
                align.run(threads, maps, (&rois, &batches), &mut to).unwrap();
                to
            };
            let all = run(Threads::single(), &data, channels);
            assert_eq!(all, run(&Threads::new(3), &data, channels));
            for channel in 0..channels {
                let image = |i: usize| &data[(i * channels + channel) * plane..][..plane];
                let one = run(Threads::single(), &[image(0), image(1)].concat(), 1);
                let of_all = all.chunks_exact(6).skip(channel).step_by(channels);
                assert!(of_all.flatten().eq(&one), "channel {channel}");
            }
        }
    }

    #[test]
    fn boxes_that_are_none() {
        let alignment = Alignment::HalfPixel;
        let align = Align { bins: (1, 1), samples: 0, scale: 1.0, alignment, max: false };
        let mut to = [7.0];
        for roi in [[2., 2., 2., 2.], [3., 3., 1., 1.], [50., 50., 60., 60.]] {
            run(&align, &roi, &mut to).unwrap();
            assert_eq!(to, [0.0]);
        }
        run(&align, &[f64::NAN; 4], &mut to).unwrap();
        let endless = run(&align, &[0., 0., f64::INFINITY, 1.], &mut to);
        assert_eq!(endless, Err(TooManySamples { index: 0 }));
    }
}
