//! Convolutions. In f32 the channels are the last axis, and a convolution is a product of its
//! windows and its filters ([`Convolution`]); the way back is several of them ([`Transposed`]).
//! Other types are computed as the definition says ([`plain()`]).

mod binary;
mod deformable;
mod depthwise;
mod plain;
mod pool;
mod transposed;

pub use binary::binary;
pub use deformable::{Deformable, Places};
pub use plain::{Definition, Direction, plain};
pub use pool::ChannelsPool;
pub use transposed::Transposed;

use crate::gemm::{Layout, Left, Packed, Product, Right, Step, Window, Windows, apply_steps};
use crate::memory::ScratchPool;
use crate::num::Loose;
use crate::par::Threads;

/// Below so many channels, those of neighbouring taps are read as one run.
const NARROW: usize = 16;

/// A convolution: what slides over what.
#[derive(Clone, Debug, PartialEq)]
pub struct Convolution {
    /// Elements of the batch.
    pub batch: usize,
    /// The windows along the spatial axes; [`Window::NONE`] makes them three.
    pub axes: [Window; 3],
    /// Channels of the input.
    pub inputs: usize,
    /// Channels of the output.
    pub outputs: usize,
    /// Groups of channels that are convolved apart from each other; it divides both.
    pub groups: usize,
}

/// The filters of a convolution.
#[derive(Debug)]
pub enum Filters<'a> {
    /// As a model gives them, to be packed while they are used.
    Plain(&'a [f32]),
    /// One packed matrix for each group.
    Panels(Vec<Packed>),
    /// For each tap one element for each channel, where each channel is a group.
    Channels(Vec<f32>),
}

impl Convolution {
    /// Taps of the kernel.
    pub fn taps(&self) -> usize {
        self.axes.iter().map(|a| a.taps).product()
    }

    /// Positions of the output.
    pub fn positions(&self) -> usize {
        self.axes.iter().map(|a| a.output).product()
    }

    /// Floating-point operations, those over the padding included.
    pub fn flops(&self) -> u64 {
        let (inputs, _) = self.group();
        let factors = [2, self.batch, self.positions(), self.outputs, inputs, self.taps()];
        factors.iter().map(|n| *n as u64).product()
    }

    /// Channels of one group: of the input, and of the output.
    fn group(&self) -> (usize, usize) {
        (self.inputs / self.groups.max(1), self.outputs / self.groups.max(1))
    }

    fn is_depthwise(&self) -> bool {
        self.groups > 1 && self.groups == self.inputs && self.groups == self.outputs
    }

    /// Lays out filters, given for each output channel, for each input channel of its group, tap
    /// by tap.
    ///
    /// # Panics
    /// When there are too few.
    pub fn filters(&self, threads: &Threads, filters: &[f32]) -> Filters<'static> {
        let taps = self.taps();
        if self.is_depthwise() {
            let turned = |i: usize| filters[i % self.groups * taps + i / self.groups];
            return Filters::Channels((0..taps * self.groups).map(turned).collect());
        }
        let (inputs, outputs) = self.group();
        let k = taps * inputs;
        let layout = Layout::Kernel { taps };
        let group = |g: usize| &filters[g * k * outputs..][..k * outputs];
        let pack = |g: usize| Packed::new(threads, Loose::of(group(g)), layout, k, outputs);
        Filters::Panels((0..self.groups).map(pack).collect())
    }

    /// Filters that are used once: those of single channels laid out, others as they are.
    pub fn filters_once<'a>(&self, filters: &'a [f32]) -> Filters<'a> {
        match self.is_depthwise() {
            true => self.filters(Threads::single(), filters),
            false => Filters::Plain(filters),
        }
    }

    /// Convolves `input` into `output`; `steps` are applied to each element, the channels as
    /// columns. Each sum goes through the taps in order, and the channels under each.
    ///
    /// # Panics
    /// When a slice is not of the size the convolution is for.
    pub fn run(
        &self,
        threads: &Threads,
        scratch: &ScratchPool,
        (input, filters): (&[f32], &Filters<'_>),
        steps: &[Step<'_>],
        output: &mut [f32],
    ) {
        assert_eq!(output.len(), self.batch * self.positions() * self.outputs);
        if output.is_empty() {
            return;
        }
        match filters {
            Filters::Channels(filters) => {
                depthwise::depthwise(self, threads, (input, filters), steps, output);
            }
            _ if self.taps() * self.group().0 == 0 => {
                output.fill(0.0);
                for (i, row) in output.chunks_mut(self.outputs).enumerate() {
                    apply_steps(steps, i, 0, row);
                }
            }
            _ => {
                let right = |g: usize| self.right(filters, g);
                if self.is_narrow() {
                    let (one, padded) = self.widened(scratch, input);
                    let input = (&padded[..], self.axes[2].taps);
                    one.groups((threads, scratch), input, &right, steps, output);
                } else {
                    self.groups((threads, scratch), (input, 1), &right, steps, output);
                }
            }
        }
    }

    /// The filters of a group as the right side of a product.
    fn right<'a>(&self, filters: &'a Filters<'_>, group: usize) -> Right<'a> {
        match filters {
            Filters::Panels(panels) => Right::Packed(&panels[group]),
            Filters::Plain(values) => {
                let (inputs, outputs) = self.group();
                let taps = self.taps();
                let own = &values[group * taps * inputs * outputs..];
                Right::Plain(Loose::of(own), Layout::Kernel { taps })
            }
            Filters::Channels(_) => {
                unreachable!("depthwise convolutions have a kernel of their own")
            }
        }
    }

    /// Group after group. Under each tap of the last axis lie those of `run` neighbours.
    fn groups<'a>(
        &self,
        (threads, scratch): (&Threads, &ScratchPool),
        (input, run): (&[f32], usize),
        right: &dyn Fn(usize) -> Right<'a>,
        steps: &[Step<'_>],
        output: &mut [f32],
    ) {
        let (inputs, outputs) = self.group();
        let mut zeros = scratch.take::<f32>(inputs * run);
        zeros.fill(0.0);
        for group in 0..self.groups {
            let windows = Windows {
                input,
                axes: self.axes,
                step: self.inputs,
                channels: (group * inputs, inputs * run),
                zeros: &zeros,
            };
            let first = group * outputs;
            let steps: Vec<Step<'_>> = steps.iter().map(|s| s.from_column(first)).collect();
            let product = Product {
                m: self.batch * self.positions(),
                n: outputs,
                k: self.taps() * inputs * run,
                a: self.left(&windows),
                b: right(group),
                c_stride: self.outputs,
                steps: &steps,
            };
            product.run(threads, scratch, output.get_mut(first..).unwrap_or_default());
        }
    }

    /// One tap at every position in turn is the input itself.
    fn left<'a>(&self, windows: &'a Windows<'a>) -> Left<'a> {
        let plain =
            |a: &Window| a.taps == 1 && a.stride == 1 && a.start == 0 && a.input == a.output;
        match self.axes.iter().all(plain) {
            true => {
                let values = windows.input.get(windows.channels.0..).unwrap_or_default();
                Left::Rows { values, stride: self.inputs }
            }
            false => Left::Windows(windows),
        }
    }

    /// Whether runs of channels are so short that those of neighbouring taps are better read as
    /// one.
    fn is_narrow(&self) -> bool {
        let width = self.axes[2];
        self.groups == 1 && self.inputs < NARROW && width.taps > 1 && width.dilation == 1
    }

    /// The input with the padding of the last axis written out, and the convolution that reads
    /// all taps of that axis as one.
    fn widened<'s>(
        &self,
        scratch: &'s ScratchPool,
        input: &[f32],
    ) -> (Convolution, crate::Scratch<'s, f32>) {
        let [depth, height, width] = self.axes;
        let lines = self.batch * depth.input * height.input;
        let padded = (width.output - 1) * width.stride + width.taps;
        let mut image = scratch.take::<f32>(lines * padded * self.inputs);
        image.fill(0.0);
        let (from, to) = (width.start.max(0) as usize, (-width.start).max(0) as usize);
        let len = width.input.saturating_sub(from).min(padded.saturating_sub(to)) * self.inputs;
        let both = image.chunks_mut(padded * self.inputs);
        for (to_line, line) in both.zip(input.chunks((width.input * self.inputs).max(1))) {
            let to = to.min(padded) * self.inputs;
            let from = from.min(width.input) * self.inputs;
            to_line[to..][..len].copy_from_slice(&line[from..][..len]);
        }
        let width = Window { input: padded, taps: 1, start: 0, ..width };
        (Convolution { axes: [depth, height, width], ..self.clone() }, image)
    }
}

#[cfg(test)]
mod tests;
