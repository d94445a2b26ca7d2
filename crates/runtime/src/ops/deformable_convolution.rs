//! DeformableConvolution: f16 and bf16 are computed in f32, integers in f64.

use super::matmul::{Factor, Shape};
use crate::kernel::lanes::conversion_of;
use crate::prelude::*;
use crate::tensor::convert::Conversion;
use infer::ops::deformable_convolution::DeformableConvolution as Rule;
use kernels::Scratch;
use kernels::conv::{Deformable, Places};
use kernels::copy::CopyPlan;
use kernels::gemm::Window;
use kernels::num::{bytes, bytes_mut};
use kernels::real::Real;
use std::marker::PhantomData;

impl Lower for Rule {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        match cx.element_type(0) {
            ElementType::F16 | ElementType::BF16 | ElementType::F32 => {
                Ok(Box::new(DeformableKernel::<f32>::new(self, cx, ElementType::F32)?))
            }
            _ => Ok(Box::new(DeformableKernel::<f64>::new(self, cx, ElementType::F64)?)),
        }
    }
}

/// The kernel for types that are computed as `R`.
struct DeformableKernel<R> {
    batch: usize,
    plan: Deformable,
    /// Channels of the output.
    outputs: usize,
    /// Conversions to `R` and back, if the element type is another.
    conversions: Option<(Conversion, Conversion)>,
    of: PhantomData<R>,
}

impl<R: Factor + Real> DeformableKernel<R> {
    fn new(rule: &Rule, cx: &LowerCx<'_>, wide: ElementType) -> Result<Self, LowerError> {
        let (data, filters, output) = (cx.sizes(0), cx.sizes(2), cx.output_sizes(0)?);
        let axis = |i: usize| {
            let (window, input, taps) = (rule.windows()[i], data[2 + i], filters[2 + i]);
            let (before, _) = window.pads(input as i64, taps as i64);
            Window {
                input,
                output: output[2 + i],
                taps,
                stride: window.stride as usize,
                dilation: window.dilation as usize,
                start: -before as isize,
            }
        };
        let element_type = cx.element_type(0);
        let conversion = |from, to| conversion_of(0, from, to);
        let conversions = if element_type == wide {
            None
        } else {
            Some((conversion(element_type, wide)?, conversion(wide, element_type)?))
        };
        Ok(DeformableKernel {
            batch: data[0],
            plan: Deformable {
                channels: data[1],
                axes: [axis(0), axis(1)],
                groups: rule.groups(),
                offset_groups: rule.offset_groups(),
                padded: rule.is_padded(),
            },
            outputs: filters[0],
            conversions,
            of: PhantomData,
        })
    }

    /// The elements of an input as `R`, in `space` if they need conversion.
    fn operand<'a, 'r: 'a>(
        &self,
        cx: &RunCx<'r>,
        input: usize,
        space: &'a mut Option<Scratch<'r, R>>,
    ) -> &'a [R] {
        let Some((up, _)) = &self.conversions else { return cx.input(input) };
        let count = cx.tensor(input).count();
        let space = space.insert(cx.scratch(count));
        up.run(cx.threads(), count, cx.input_bytes(input), bytes_mut(space));
        space
    }

    fn compute(&self, cx: &RunCx<'_>, output: &mut [R]) {
        let mut spaces = [None, None, None, None];
        let [a, b, c, d] = &mut spaces;
        let data = self.operand(cx, 0, a);
        let offsets = self.operand(cx, 1, b);
        let filters = self.operand(cx, 2, c);
        let mask = (cx.input_count() > 3).then(|| self.operand(cx, 3, d));
        let Deformable { channels, groups, .. } = self.plan;
        let (positions, taps) = (self.plan.positions(), self.plan.taps());
        let (depth, rows) = (channels / groups * taps, self.outputs / groups);
        let shape = Shape::new(&[rows, depth], &[positions, depth], false, true);
        // Samples and filters have their channels last, so that a position is read as a whole.
        let mut ordered = cx.scratch::<R>(filters.len());
        let order = CopyPlan::transpose(&[self.outputs, channels / groups, taps], &[0, 2, 1]);
        order.run(cx.threads(), filters, &mut ordered);
        let mut samples = cx.scratch::<R>(channels * taps * positions);
        let one = |all: &[R]| all.len() / self.batch.max(1);
        let mut image = cx.scratch::<R>(one(data));
        let last = CopyPlan::transpose(&[channels, one(data) / channels.max(1)], &[1, 0]);
        for (i, to) in output.chunks_mut((self.outputs * positions).max(1)).enumerate() {
            let part = |all| -> &[R] { &all[i * one(all)..][..one(all)] };
            let places = Places { offsets: part(offsets), mask: mask.map(part) };
            last.run(cx.threads(), part(data), &mut image);
            self.plan.rows(cx.threads(), &image, places, &mut samples);
            for (group, to) in to.chunks_mut((rows * positions).max(1)).enumerate() {
                let samples = &samples[group * depth * positions..];
                R::multiply(&shape, cx, &ordered[group * rows * depth..], samples, to);
            }
        }
    }
}

impl<R: Factor + Real> Kernel for DeformableKernel<R> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let Some((_, down)) = &self.conversions else {
            let output = cx.output(0);
            self.compute(cx, output);
            return Ok(());
        };
        let mut output = cx.scratch(cx.output_sizes(0).iter().product());
        self.compute(cx, &mut output);
        down.run(cx.threads(), output.len(), bytes(&output), cx.output_bytes(0));
        Ok(())
    }

    fn flops(&self) -> u64 {
        let (positions, taps) = (self.plan.positions(), self.plan.taps());
        let depth = self.plan.channels / self.plan.groups * taps;
        [2, self.batch, self.outputs, positions, depth].iter().map(|n| *n as u64).product()
    }

    fn name(&self) -> &'static str {
        "deformable convolution"
    }
}
