//! Interpolate: a table of taps and weights per axis, then weighted sums axis by axis. If all sizes
//! stay the same, it is a view.
//!
//! Positions are computed in f32 as in OpenVINO, because they decide between neighbours. Weights of
//! the Pillow modes are computed in f64.

use super::SameBytes;
use crate::kernel::dispatch::kernel_for;
use crate::kernel::lanes::Lanes;
use crate::prelude::*;
use crate::tensor::dispatch::with_type;
use infer::ops::interpolate::{Coordinates, Interpolate, Mode, Rounding, Sampling};
use kernels::Scratch;
use kernels::copy::{CopyPlan, dense_strides};
use kernels::interpolate::{Pick, Pixel, Resample, Taps};
use kernels::num::Pod;
use kernels::real::Real;
use std::marker::PhantomData;

/// The longest axis, since each has a table.
const MAX_AXIS: usize = 1 << 26;

/// The most elements of the padded data.
const MAX_ELEMENTS: usize = 1 << 30;

impl Lower for Interpolate {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let (sizes, output) = (cx.sizes(0), cx.output_sizes(0)?);
        let values = self.axes_input(cx.input_count()).map(|input| cx.ints(input)).transpose()?;
        let axes = self.axes(values.as_deref(), sizes.len())?;
        let pad = Padding::new(self, sizes)?;
        let scales = self.scales_input().map(|input| cx.floats(input)).transpose()?;
        let all = Axis::all(&axes, scales.as_deref(), &pad.sizes, output);
        if let Some(axis) = (0..sizes.len()).find(|i| pad.sizes[*i] == 0 && output[*i] != 0) {
            return Err(RuleError::at(0, format!("has nothing on axis {axis} to sample")).into());
        }
        let sampling = self.sampling(sizes.len(), &axes);
        let resized = all.iter().filter(|a| a.input != a.output);
        if let Some(axis) = resized.clone().find(|a| a.output > MAX_AXIS) {
            let message = format!("an axis of {} elements is too long", axis.output);
            return Err(LowerError::Unsupported(message));
        }
        if pad.copy.is_none() && resized.clone().next().is_none() {
            return Ok(Box::new(SameBytes));
        }
        if sampling.mode == Mode::Nearest {
            let mut choices = vec![None; sizes.len()];
            resized.for_each(|axis| choices[axis.axis] = Some(axis.nearest(sampling)));
            let pick = Pick::new(&pad.sizes, &choices);
            return kernel_for!(cx, 0, size T => PickKernel::<T> { pad, pick, of: PhantomData });
        }
        let shrinks = all.iter().any(|a| a.scale < 1.0);
        let table = |axis: &Axis| (axis.axis, axis.taps(sampling, shrinks));
        let mut tables: Vec<(usize, Taps)> = resized.map(table).collect();
        // Pillow goes from the last axis to the first; other modes start with the axis that shrinks
        // most.
        tables.reverse();
        let pillow = matches!(sampling.mode, Mode::BilinearPillow | Mode::BicubicPillow);
        if !pillow {
            let growth = |(axis, _): &(usize, Taps)| output[*axis] as f32 / pad.sizes[*axis] as f32;
            tables.sort_unstable_by(|a, b| growth(a).total_cmp(&growth(b)).then(b.0.cmp(&a.0)));
        }
        with_type!(cx.element_type(0), number T => {
            // Pillow rounds images of bytes after each axis.
            kernel::<T>(pad, &tables, pillow && size_of::<T>() == 1)
        })
        .ok_or_else(|| LowerError::element_type(0, cx.element_type(0)))
    }
}

fn kernel<T: Pixel>(pad: Padding, tables: &[(usize, Taps)], rounds: bool) -> Box<dyn Kernel> {
    if tables.is_empty() {
        let pick = Pick::new(&pad.sizes, &vec![None; pad.sizes.len()]);
        return Box::new(PickKernel::<T> { pad, pick, of: PhantomData });
    }
    let resample = Resample::new(&pad.sizes, tables);
    Box::new(ResampleKernel { pad, resample, rounds, lanes: Lanes::through::<T>(T::WAYS) })
}

/// Zero padding of the data.
struct Padding {
    /// The padded sizes.
    sizes: Vec<usize>,
    /// The copy into the padded data, if there is padding.
    copy: Option<CopyPlan>,
}

impl Padding {
    fn new(rule: &Interpolate, sizes: &[usize]) -> Result<Padding, LowerError> {
        let pads = || (0..sizes.len()).map(|axis| rule.pads(axis));
        let padded = sizes.iter().zip(pads());
        let padded = padded.map(|(s, (a, b))| s.checked_add(a)?.checked_add(b));
        let padded: Option<Vec<usize>> = padded.collect();
        let fits = |padded: &Vec<usize>| {
            let count = padded.iter().try_fold(1usize, |n, s| n.checked_mul((*s).max(1)));
            padded == sizes || count.is_some_and(|n| n <= MAX_ELEMENTS)
        };
        let padded = padded.filter(fits);
        let padded =
            padded.ok_or_else(|| LowerError::Unsupported("the padding is too large".into()))?;
        let copy = (padded != sizes).then(|| {
            let strides = dense_strides(&padded);
            let start = strides.iter().zip(pads()).map(|(s, (begin, _))| s * begin as isize).sum();
            CopyPlan::scatter(sizes, &strides, start)
        });
        Ok(Padding { sizes: padded, copy })
    }

    /// The padded data, if there is padding.
    fn padded<'r, T: Pod>(&self, cx: &RunCx<'r>, data: &[T]) -> Option<Scratch<'r, T>> {
        let copy = self.copy.as_ref()?;
        let mut padded = cx.scratch::<T>(self.sizes.iter().product());
        padded.fill(T::default());
        copy.run(cx.threads(), data, &mut padded);
        Some(padded)
    }
}

/// One axis of the data and the output.
struct Axis {
    axis: usize,
    input: usize,
    output: usize,
    scale: f32,
}

impl Axis {
    /// All axes. An axis that is not named has scale 1, whatever its output size is.
    fn all(named: &[usize], given: Option<&[f64]>, input: &[usize], output: &[usize]) -> Vec<Axis> {
        let axis = |(axis, (&input, &output)): (usize, (&usize, &usize))| {
            let scale = match (named.iter().position(|n| *n == axis), given) {
                (None, _) => 1.0,
                (Some(i), Some(given)) => given[i] as f32,
                (Some(_), None) => output as f32 / input as f32,
            };
            Axis { axis, input, output, scale }
        };
        input.iter().zip(output).enumerate().map(axis).collect()
    }

    /// The position in the data of an output element.
    fn position(&self, i: usize, coordinates: Coordinates) -> f32 {
        let x = i as f32;
        if self.scale == 1.0 {
            return x;
        }
        match coordinates {
            Coordinates::PytorchHalfPixel if self.output <= 1 => 0.0,
            Coordinates::HalfPixel | Coordinates::PytorchHalfPixel => (x + 0.5) / self.scale - 0.5,
            Coordinates::Asymmetric => x / self.scale,
            Coordinates::TfHalfPixelForNn => (x + 0.5) / self.scale,
            Coordinates::AlignCorners if self.output == 1 => 0.0,
            Coordinates::AlignCorners => x * (self.input as f32 - 1.0) / (self.output as f32 - 1.0),
        }
    }

    /// The nearest element of the axis.
    fn clamp(&self, at: f32) -> usize {
        (at.max(0.0) as usize).min(self.input - 1)
    }

    fn nearest(&self, sampling: Sampling) -> Vec<usize> {
        let round = |x: f32| match sampling.rounding {
            Rounding::PreferFloor if x == x.trunc() + 0.5 => x.floor(),
            Rounding::PreferFloor | Rounding::PreferCeil => x.round(),
            Rounding::Floor => x.floor(),
            Rounding::Ceil => x.ceil(),
            Rounding::Simple if self.scale < 1.0 => x.ceil(),
            Rounding::Simple => x.trunc(),
        };
        let position = |i| self.clamp(round(self.position(i, sampling.coordinates)));
        (0..self.output).map(position).collect()
    }

    fn taps(&self, sampling: Sampling, shrinks: bool) -> Taps {
        let mut taps = Taps::default();
        for i in 0..self.output {
            let x = self.position(i, sampling.coordinates);
            match sampling.mode {
                Mode::Nearest | Mode::LinearOnnx => self.neighbours(x, &mut taps),
                Mode::Linear => self.triangle(x, sampling.antialias && shrinks, &mut taps),
                Mode::Cubic => self.cubic(x, sampling.cubic as f32, &mut taps),
                Mode::BilinearPillow => self.pillow(i, 1.0, |x| 1.0 - x, &mut taps),
                Mode::BicubicPillow => {
                    let a = sampling.cubic;
                    let curve = |x: f64| {
                        if x < 1.0 {
                            ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
                        } else {
                            (((x - 5.0) * x + 8.0) * x - 4.0) * a
                        }
                    };
                    self.pillow(i, 2.0, curve, &mut taps);
                }
            }
        }
        taps
    }

    fn neighbours(&self, x: f32, taps: &mut Taps) {
        let x = x.min(self.input as f32 - 1.0).max(0.0);
        let low = self.clamp(x);
        if low + 1 >= self.input {
            return taps.push([(low, 1.0)]);
        }
        let part = f64::from(x - low as f32);
        taps.push([(low, 1.0 - part), (low + 1, part)]);
    }

    /// Weights fall linearly from the position to zero at distance 1; with antialiasing at a larger
    /// distance when shrinking.
    fn triangle(&self, x: f32, antialias: bool, taps: &mut Taps) {
        let slope = if antialias { self.scale } else { 1.0 };
        let reach = if self.scale > 1.0 { 2.0 } else { (2.0 / slope).ceil() };
        let (low, high) = (x.round() - reach, x.round() + reach);
        let weight = |i: usize| (i, f64::from((1.0 - (slope * (x - i as f32)).abs()).max(0.0)));
        let near = low.max(0.0) as usize..self.input.min((high + 1.0).max(0.0) as usize);
        taps.push(normalized(near.map(weight).filter(|(_, w)| *w > 0.0).collect()));
    }

    fn cubic(&self, x: f32, a: f32, taps: &mut Taps) {
        let low = x.floor();
        let (s, t) = (x - low, 1.0 - (x - low));
        let weights = [
            a * s * t * t,
            ((a + 2.0) * s - (a + 3.0)) * s * s + 1.0,
            ((a + 2.0) * t - (a + 3.0)) * t * t + 1.0,
            a * s * s * t,
        ];
        let tap = |(i, w): (usize, f32)| (self.clamp(low + i as f32 - 1.0), f64::from(w));
        taps.push(weights.into_iter().enumerate().map(tap));
    }

    /// Weights by distance from the centre of the output element, up to `support`.
    fn pillow(&self, i: usize, support: f64, curve: impl Fn(f64) -> f64, taps: &mut Taps) {
        let scale = self.input as f64 / self.output as f64;
        let stretch = scale.max(1.0);
        let centre = (i as f64 + 0.5) * scale;
        let reach = support * stretch;
        let low = (centre - reach + 0.5).max(0.0) as usize;
        let high = ((centre + reach + 0.5) as usize).min(self.input);
        let weight = |i: usize| {
            let distance = ((i as f64 - centre + 0.5) / stretch).abs();
            (i, if distance < support { curve(distance) } else { 0.0 })
        };
        taps.push(normalized((low..high).map(weight).collect()));
    }
}

/// Weights scaled to the sum 1, unless their sum is 0.
fn normalized(mut taps: Vec<(usize, f64)>) -> Vec<(usize, f64)> {
    let sum: f64 = taps.iter().map(|(_, w)| w).sum();
    if sum != 0.0 {
        taps.iter_mut().for_each(|(_, w)| *w /= sum);
    }
    taps
}

struct PickKernel<T> {
    pad: Padding,
    pick: Pick,
    of: PhantomData<T>,
}

impl<T: Pod> Kernel for PickKernel<T> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let data = cx.input::<T>(0);
        let padded = self.pad.padded(cx, data);
        self.pick.run(cx.threads(), padded.as_deref().unwrap_or(data), cx.output(0));
        Ok(())
    }

    fn name(&self) -> &'static str {
        "nearest"
    }
}

struct ResampleKernel<W> {
    pad: Padding,
    resample: Resample<W>,
    /// Whether values are rounded after each axis.
    rounds: bool,
    lanes: Lanes<W>,
}

impl<W: Real + Pod> Kernel for ResampleKernel<W> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let data = self.lanes.input(cx, 0);
        let padded = self.pad.padded(cx, &data);
        let from = padded.as_deref().unwrap_or(&data);
        let round = |values: &mut [W]| {
            if self.rounds {
                self.lanes.round(values);
            }
        };
        self.lanes.output(cx, 0, |cx, to| {
            let mut scratch = cx.scratch::<W>(self.resample.scratch_len(cx.threads().count()));
            self.resample.run(cx.threads(), &round, from, to, &mut scratch);
        });
        Ok(())
    }

    fn name(&self) -> &'static str {
        "resample"
    }
}
