//! Convolutions with few input channels in bf16, such as the first of a network.
//!
//! The input is repacked in NHWC, converted to bf16 and padded. If the taps of a line are
//! contiguous, they are one run of an even number of elements. The last element may belong to the
//! next position; the filters have a 0 there. Since 0 times infinity is NaN, an input that holds
//! infinities or NaN gets an even number of channels instead.

use super::problem::{Convolution, Input};
use crate::base::num::UnalignedF32;
use crate::base::par::Threads;
use crate::base::workers::{Packer, Workers};
use crate::conv::tuning::SMALL_IC_GRAIN;
use crate::gemm::{
    Gemm, Im2col, InputStrides, Layout, Lhs, Packed, PaddedLine, PostOp, Precision, Rhs, RhsSize,
    Target, Window, convert_to_bf16,
};
use std::sync::atomic::{AtomicBool, Ordering};

/// Limit of the padded input, as a multiple of the input: a model may have any padding.
const MAX_PADDED: usize = 8;

/// A convolution with few input channels.
pub(super) struct SmallIc<'a> {
    conv: &'a Convolution,
    /// Its windows over an input that includes the padding.
    axes: [Window; 3],
}

/// A format of the repacked input, and the windows over it; counted in elements.
struct RepackedInput {
    /// Channels of a position, including zeros.
    channels: usize,
    /// The windows, over groups of `position` elements along the last axis.
    axes: [Window; 3],
    position: usize,
    /// Elements under each tap of `axes`.
    run: usize,
}

/// The convolution, if it is bf16 and has few input channels, and its padding is not far larger
/// than the input. Not 1×1 kernels: their input may have factors or be concatenated.
pub(super) fn small_ic(conv: &Convolution) -> Option<SmallIc<'_>> {
    if !conv.reads_channels_first() || conv.is_pointwise() || conv.precision == Precision::F32 {
        return None;
    }
    let axes = conv.axes.map(reached);
    let size = axes.iter().try_fold(1usize, |size, a| size.checked_mul(a.input))?;
    (size <= conv.inside().saturating_mul(MAX_PADDED)).then_some(SmallIc { conv, axes })
}

/// The windows over the positions that they reach, padding included. A single window has stride 1,
/// whatever the model says.
fn reached(axis: Window) -> Window {
    let stride = if axis.output > 1 { axis.stride } else { 1 };
    Window { input: axis.reach(), stride, start: 0, ..axis }
}

impl SmallIc<'_> {
    /// The formats of the input, the best first. The last one fits any input.
    fn repacked_inputs(&self) -> Vec<RepackedInput> {
        let inputs = self.conv.inputs;
        let [_, _, width] = self.axes;
        let even = inputs.next_multiple_of(2);
        if width.dilation > 1 || self.conv.precision.has_tiles() {
            return vec![RepackedInput {
                channels: even,
                axes: self.axes,
                position: even,
                run: even,
            }];
        }
        let begins_even = (width.stride * inputs).is_multiple_of(2);
        let ends_even = (width.taps * inputs).is_multiple_of(2);
        match (begins_even, ends_even) {
            (true, true) => vec![self.by_lines(inputs)],
            (true, false) => vec![self.by_lines(inputs), self.by_lines(even)],
            (false, _) => vec![self.by_lines(even)],
        }
    }

    /// The format with lines of taps as runs, with `channels` channels.
    fn by_lines(&self, channels: usize) -> RepackedInput {
        let [depth, height, width] = self.axes;
        let (position, run) =
            (width.stride * channels, (width.taps * channels).next_multiple_of(2));
        let input = (width.output.max(1) - 1).saturating_add(run.div_ceil(position));
        let line = Window { input, output: width.output, ..Window::NONE };
        RepackedInput { channels, axes: [depth, height, line], position, run }
    }

    /// The filters for each format of the input.
    pub(super) fn pack_filters(&self, to: Packer<'_>, filters: &[f32]) -> Vec<Packed> {
        let taps = self.conv.taps();
        let own = |o: usize, c: usize| &filters[(o * self.conv.inputs + c) * taps..][..taps];
        let pack = |repacked: RepackedInput| {
            // For each output, element of a run, and run.
            let runs: usize = repacked.axes.iter().map(|a| a.taps).product();
            let side = taps / runs.max(1);
            let mut all = vec![0.0; self.conv.outputs * repacked.run * runs];
            for o in 0..self.conv.outputs {
                for c in 0..self.conv.inputs {
                    for (tap, value) in own(o, c).iter().enumerate() {
                        let element = tap % side * repacked.channels + c;
                        all[(o * repacked.run + element) * runs + tap / side] = *value;
                    }
                }
            }
            let size = RhsSize { k: runs * repacked.run, n: self.conv.outputs };
            let layout = Layout::Kernel { taps: runs };
            Packed::new(to, UnalignedF32::of(&all), layout, size, Precision::Bf16)
        };
        self.repacked_inputs().into_iter().map(pack).collect()
    }

    /// Elements of scratch memory for a run: the repacked input.
    pub(super) fn scratch_len(&self) -> usize {
        let len = |repacked: &RepackedInput| self.conv.batch * self.image_len(repacked);
        self.repacked_inputs().iter().map(len).max().unwrap_or(0)
    }

    /// Lanes of an image of the repacked input.
    fn image_len(&self, repacked: &RepackedInput) -> usize {
        let positions: usize = repacked.axes.iter().map(|a| a.input).product();
        positions * repacked.position / self.conv.precision.per_lane()
    }

    /// Convolves as [`Convolution::run`] does.
    pub(super) fn run(
        &self,
        Workers { threads, scratch }: Workers<'_>,
        (input, filters): (Input<'_>, &[Packed]),
        post_ops: &[PostOp<'_>],
        output: Target<'_>,
    ) {
        assert!(input.is_alone() && !input.is_bf16, "values of few channels are alone");
        let per_lane = self.conv.precision.per_lane();
        let repacked_inputs = self.repacked_inputs();
        let last = repacked_inputs.len() - 1;
        for (i, (repacked, packed)) in repacked_inputs.iter().zip(filters).enumerate() {
            let image = self.image_len(repacked);
            let mut lanes = scratch.take::<f32>(self.conv.batch * image);
            let is_finite = self.write(threads, input, repacked, &mut lanes);
            if !is_finite && i < last {
                continue;
            }
            let mut zeros = scratch.take::<f32>(repacked.run);
            zeros.fill(0.0);
            let windows = Im2col {
                input: &lanes,
                axes: repacked.axes,
                strides: InputStrides { image, position: repacked.position / per_lane, channel: 1 },
                channels: 0..repacked.run / per_lane,
                zeros: &zeros,
            };
            let gemm = Gemm {
                m: self.conv.batch * self.conv.positions(),
                n: self.conv.outputs,
                k: repacked.run * repacked.axes.iter().map(|a| a.taps).product::<usize>(),
                a: Lhs::Bf16(&Lhs::Im2col(&windows)),
                b: Rhs::Packed(packed),
                c_stride: self.conv.outputs,
                precision: self.conv.precision,
                post_ops,
            };
            return gemm.run_to(threads, scratch, output);
        }
    }

    /// Writes the repacked input; returns whether all of it is finite.
    fn write(
        &self,
        threads: &Threads,
        input: Input<'_>,
        repacked: &RepackedInput,
        to: &mut [f32],
    ) -> bool {
        let per_lane = self.conv.precision.per_lane();
        let [depth, height, width] = repacked.axes;
        let line = width.input * repacked.position;
        let is_finite = AtomicBool::new(true);
        threads.par_chunks_mut(to, line / per_lane, SMALL_IC_GRAIN, |first, part| {
            let mut values = vec![0f32; line];
            for (i, to) in part.chunks_exact_mut(line / per_lane).enumerate() {
                let (rest, y) = ((first + i) / height.input, (first + i) % height.input);
                let (batch, z) = (rest / depth.input, rest % depth.input);
                if self.fill_line(input, repacked, [batch, z, y], &mut values) {
                    convert_to_bf16(&values, to);
                } else {
                    to.fill(0.0);
                }
                // The conversion may have made it infinite.
                if to.iter().fold(false, |any, lane| any | is_infinite(lane.to_bits())) {
                    is_finite.store(false, Ordering::Relaxed);
                }
            }
        });
        is_finite.into_inner()
    }

    /// Writes the part of a line that is within the input, as NHWC.
    fn fill_line(
        &self,
        input: Input<'_>,
        repacked: &RepackedInput,
        [batch, z, y]: [usize; 3],
        to: &mut [f32],
    ) -> bool {
        let [depth, height, width] = self.conv.axes;
        let lines = depth.input_at(z).zip(height.input_at(y));
        let Some((z, y)) = lines else { return false };
        let InputStrides { image, position, channel } = self.conv.strides(&input);
        let PaddedLine { before, skipped, count } = width.line();
        if count == 0 {
            return false;
        }
        let from = batch * image + ((z * height.input + y) * width.input + skipped) * position;
        let from = &input.values[from..];
        let to = &mut to[before * repacked.channels..][..count * repacked.channels];
        for c in 0..self.conv.inputs {
            let each = from[c * channel..].iter().step_by(position);
            let places = to[c..].iter_mut().step_by(repacked.channels);
            places.zip(each).for_each(|(to, from)| *to = *from);
        }
        true
    }
}

/// Whether one of the two bf16 numbers of a lane, or its f32 number, is infinite or NaN.
fn is_infinite(lane: u32) -> bool {
    const ONE: u32 = 0x7f80;
    lane & ONE == ONE || lane >> 16 & ONE == ONE
}
