//! Convolutions. In f32 the channels are the last axis, and a convolution is a product of its
//! windows and its filters ([`Convolution`]); the way back is several of them ([`Transposed`]).
//! Other types are computed as the definition says ([`plain()`]).

mod binary;
mod deformable;
mod depthwise;
mod naive;
mod pool;
mod small_ic;
mod transposed;
pub(crate) mod winograd;

pub use binary::binary;
pub use deformable::{Deformable, Places};
pub use depthwise::DepthwiseInput;
pub use naive::{Definition, Direction, plain};
pub use pool::ChannelsPool;
pub use transposed::Transposed;

use crate::base::aligned_buf::{AlignedBuf, WeightArena};
use crate::base::num::{UnalignedF32, bf16};
use crate::base::par::Threads;
use crate::base::scratch::ScratchPool;
use crate::gemm::{
    Gemm, Layout, Lhs, Packed, Place, Precision, Rhs, Step, Target, Window, Windows, apply_steps,
    pairs,
};
use crate::math::quantize::Output;
use crate::reduce;
use small_ic::narrow;

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
    /// What data and filters are rounded to, unless few channels are a group or there are few in all.
    pub precision: Precision,
}

/// The filters of a convolution.
#[derive(Debug)]
pub enum Filters<'a> {
    /// As a model gives them, to be packed while they are used.
    Plain(&'a [f32]),
    /// One packed matrix for each group.
    Panels(Vec<Packed>),
    /// For each tap one element for each channel, where few channels are a group.
    Channels(AlignedBuf),
    /// A packed matrix for each way to write the input, where few channels are read and all is rounded.
    Narrow(Vec<Packed>),
    /// Transformed, with fewer multiplications.
    Winograd(AlignedBuf),
}

/// What is convolved.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The elements.
    pub values: &'a [f32],
    /// Whether the channels lie before the axes, and not behind them.
    pub channels_first: bool,
    /// A factor for each channel of each element of the batch, if any; for convolutions that
    /// [`Convolution::is_pointwise`].
    pub factors: Option<&'a [f32]>,
    /// Inputs whose channels follow those of `values`, as many in each; for convolutions that
    /// [`Convolution::is_pointwise`], without factors.
    pub beside: &'a [&'a [f32]],
    /// Whether they have been rounded to bf16: each of `values` is a pair of neighbours then. For
    /// convolutions that [`Convolution::accepts_bf16`].
    pub is_bf16: bool,
}

impl<'a> Input<'a> {
    /// An input with its channels last.
    pub fn channels_last(values: &'a [f32]) -> Input<'a> {
        Input { values, channels_first: false, factors: None, beside: &[], is_bf16: false }
    }

    /// The same of elements that have been rounded to bf16.
    ///
    /// # Panics
    /// When they are not whole pairs, or begin within one.
    pub fn bf16(elements: &'a [bf16]) -> Input<'a> {
        let values = pairs(elements).expect("channels are even");
        Input { is_bf16: true, ..Input::channels_last(values) }
    }

    /// Elements for each that is counted.
    fn per_count(&self) -> usize {
        if self.is_bf16 { 2 } else { 1 }
    }

    /// Whether it is no more than elements with their channels last.
    fn is_plain(&self) -> bool {
        self.is_alone() && !self.channels_first && !self.is_bf16
    }

    /// Whether it has neither factors nor inputs beside it.
    fn is_alone(&self) -> bool {
        self.factors.is_none() && self.beside.is_empty()
    }
}

/// Below so many channels, a run of them is too short to be worth turning the input for.
const NARROW: usize = 16;

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

    /// Whether it is best read with its channels before the axes, as models have it.
    pub fn reads_channels_first(&self) -> bool {
        self.groups == 1 && self.inputs < NARROW
    }

    /// What is rounded: the operands of narrow convolutions only if they are [`narrow()`].
    fn rounded(&self) -> Precision {
        match self.reads_channels_first() && narrow(self).is_none() {
            true => Precision::F32,
            false => self.precision,
        }
    }

    /// Whether every output looks at the one position where it lies itself: a product of matrices.
    pub fn is_pointwise(&self) -> bool {
        self.groups == 1 && self.is_one_by_one()
    }

    fn is_one_by_one(&self) -> bool {
        let own = |a: &Window| a.taps == 1 && a.stride == 1 && a.start == 0 && a.input == a.output;
        self.axes.iter().all(own)
    }

    /// Whether it is computed by vectors of channels: each is convolved by itself, or with few others.
    pub fn is_depthwise(&self) -> bool {
        depthwise::each(self).is_some()
    }

    /// Whether its data can be levels.
    pub fn accepts_quantized(&self) -> bool {
        depthwise::accepts_quantized(self)
    }

    /// The depthwise convolution that is computed in place of one whose channels have a few filters
    /// each: its input has each channel as often as that has filters. A product for each channel
    /// would have no more columns than those.
    fn repeated(&self) -> Option<Convolution> {
        /// Filters of a channel, at most.
        const MOST: usize = 4;
        let (inputs, outputs) = self.group();
        let has_few = self.groups > 1 && inputs == 1 && (2..=MOST).contains(&outputs);
        has_few.then(|| Convolution { inputs: self.outputs, groups: self.outputs, ..self.clone() })
    }

    /// Whether it is a product of rounded operands, so that its results can be rounded too where nothing
    /// but such products reads them. Steps must be ones that products absorb.
    pub fn can_output_bf16(&self) -> bool {
        let (inputs, outputs) = self.group();
        let has_terms = self.taps() * inputs * outputs > 0;
        let is_depthwise = self.is_depthwise() || self.repeated().is_some();
        has_terms && !is_depthwise && self.rounded().keeps_pairs()
    }

    /// Whether its input can have been rounded: pairs of channels must not reach from one group, or
    /// position, into the next.
    pub fn accepts_bf16(&self) -> bool {
        let is_even = self.group().0.is_multiple_of(2) && self.inputs.is_multiple_of(2);
        self.can_output_bf16() && is_even && !self.reads_channels_first()
    }

    /// Whether it is computed with fewer multiplications, and so rounds differently.
    pub fn is_winograd(&self) -> bool {
        winograd::suits(self)
    }

    /// Lays out filters, given for each output channel, for each input channel of its group, tap
    /// by tap, and puts them on a arena.
    ///
    /// # Panics
    /// When there are too few.
    pub fn filters(&self, to: (&Threads, &WeightArena), filters: &[f32]) -> Filters<'static> {
        match self.is_winograd() {
            true => Filters::Winograd(winograd::filters(self, to, filters)),
            false => self.direct_filters(to, filters),
        }
    }

    /// The same for [`Self::run_directly`].
    fn direct_filters(&self, to: (&Threads, &WeightArena), filters: &[f32]) -> Filters<'static> {
        let taps = self.taps();
        if let Some(repeated) = self.repeated() {
            return repeated.direct_filters(to, filters);
        }
        if let Some(each) = depthwise::each(self) {
            let mut turned = to.1.alloc(taps * each * self.outputs * size_of::<f32>());
            depthwise::pack_weights(self, each, filters, turned.elements_mut());
            return Filters::Channels(turned);
        }
        if let Some(narrow) = narrow(self) {
            return Filters::Narrow(narrow.filters(to, filters));
        }
        self.packed(to, filters)
    }

    /// A packed matrix for each group.
    fn packed(&self, to: (&Threads, &WeightArena), filters: &[f32]) -> Filters<'static> {
        let taps = self.taps();
        let (inputs, outputs) = self.group();
        let k = taps * inputs;
        let layout = Layout::Kernel { taps };
        let group = |g: usize| &filters[g * k * outputs..][..k * outputs];
        let pack = |g: usize| {
            Packed::new(to, UnalignedF32::of(group(g)), layout, (k, outputs), self.rounded())
        };
        Filters::Panels((0..self.groups).map(pack).collect())
    }

    /// Filters that are used once: as they are, unless they must be laid out.
    pub fn filters_once<'a>(&self, threads: &Threads, filters: &'a [f32]) -> Filters<'a> {
        let is_laid_out = self.is_depthwise() || self.repeated().is_some();
        match is_laid_out || narrow(self).is_some() || self.is_winograd() {
            true => self.filters((threads, WeightArena::unpooled()), filters),
            false => Filters::Plain(filters),
        }
    }

    /// Convolves `input` into `output`, with its channels last, by filters that were laid out and as
    /// they were given; `steps` are applied to each element, the channels as columns. Each sum goes
    /// through the taps in order, and the channels under each; where it [`Self::is_depthwise`], through the
    /// lines of taps, the channels under each line, and its taps. Not so where it
    /// [`Self::is_winograd`] and all sums are finite.
    ///
    /// # Panics
    /// When a slice is not of the size the convolution is for, or the input lies as it cannot be
    /// read.
    pub fn run(
        &self,
        threads: &Threads,
        scratch: &ScratchPool,
        (input, filters, given): (Input<'_>, &Filters<'_>, &[f32]),
        steps: &[Step<'_>],
        output: &mut [f32],
    ) {
        let Filters::Winograd(transformed) = filters else {
            return self.run_directly(threads, scratch, (input, filters), steps, output);
        };
        assert!(input.is_plain(), "channels lie last, in one input");
        let operands = (input.values, transformed.elements());
        if !winograd::run(self, (threads, scratch), operands, steps, output) {
            self.run_directly(threads, scratch, (input, &Filters::Plain(given)), steps, output);
        }
    }

    /// Convolves as [`Self::run`] does, where data, or results, may be rounded to bf16.
    ///
    /// # Panics
    /// As [`Self::run`], and unless it [`Self::can_output_bf16`], and [`Self::accepts_bf16`] where the data
    /// are rounded.
    pub fn run_bf16(
        &self,
        place: (&Threads, &ScratchPool),
        operands: (Input<'_>, &Filters<'_>),
        steps: &[Step<'_>],
        output: Target<'_>,
    ) {
        assert!(self.can_output_bf16() && (self.accepts_bf16() || !operands.0.is_bf16));
        assert_eq!(output.len(), self.batch * self.positions() * self.outputs);
        if output.len() > 0 {
            self.products(place, operands, steps, output);
        }
    }

    /// Convolves as [`Self::run`] does, where data, or results, may be levels. Writes the mean of each
    /// channel of the output, of each element of the batch, too, unless `means` is empty: positions are
    /// added along lines, and then line after line.
    ///
    /// # Panics
    /// As [`Self::run`], and unless it is [`Self::is_depthwise`], and [`Self::accepts_quantized`] where
    /// the data are levels.
    pub fn run_depthwise(
        &self,
        (threads, scratch): (&Threads, &ScratchPool),
        (map, filters): (DepthwiseInput<'_>, &Filters<'_>),
        steps: &[Step<'_>],
        (output, means): (Output<'_>, &mut [f32]),
    ) {
        let Filters::Channels(filters) = filters else { panic!("each channel has a filter") };
        assert!(means.is_empty() || means.len() == self.batch * self.outputs);
        let positions = self.positions();
        if output.len() == 0 {
            return means.fill(0.0);
        }
        let lines = positions / self.axes[2].output;
        let count = if means.is_empty() { 0 } else { self.batch * lines * self.outputs };
        let mut sums = scratch.take(count);
        let to = (output, &mut sums[..]);
        depthwise::depthwise(self, (threads, scratch), (map, filters.elements()), steps, to);
        let each = sums.chunks_mut(lines * self.outputs).zip(means.chunks_mut(self.outputs));
        each.for_each(|(sums, means)| reduce::means(positions, sums, means));
    }

    /// Convolves with as many multiplications as the definition has.
    fn run_directly(
        &self,
        threads: &Threads,
        scratch: &ScratchPool,
        (input, filters): (Input<'_>, &Filters<'_>),
        steps: &[Step<'_>],
        output: &mut [f32],
    ) {
        assert_eq!(output.len(), self.batch * self.positions() * self.outputs);
        if output.is_empty() {
            return;
        }
        match filters {
            Filters::Channels(filters) => {
                assert!(input.is_plain(), "channels lie last, in one input");
                let (values, filters) = (input.values, filters.elements());
                let (place, to) = ((threads, scratch), (Output::F32(output), &mut [][..]));
                let Some(whole) = self.repeated() else {
                    let operands = (DepthwiseInput::F32(values), filters);
                    return depthwise::depthwise(self, place, operands, steps, to);
                };
                let mut wide = scratch.take(self.batch * whole.inside() * whole.inputs);
                depthwise::repeat(threads, values, &mut wide);
                let operands = (DepthwiseInput::F32(&wide), filters);
                depthwise::depthwise(&whole, place, operands, steps, to);
            }
            _ if self.taps() * self.group().0 == 0 => {
                output.fill(0.0);
                for (i, row) in output.chunks_mut(self.outputs).enumerate() {
                    apply_steps(steps, i, 0, row);
                }
            }
            _ => {
                let operands = (input, filters);
                self.products((threads, scratch), operands, steps, Target::F32(output));
            }
        }
    }

    /// Convolves by products, at least one.
    fn products(
        &self,
        (threads, scratch): (&Threads, &ScratchPool),
        (input, filters): (Input<'_>, &Filters<'_>),
        steps: &[Step<'_>],
        output: Target<'_>,
    ) {
        match (narrow(self), filters) {
            (Some(narrow), Filters::Narrow(filters)) => {
                narrow.run((threads, scratch), (input, filters), steps, output);
            }
            _ => self.groups((threads, scratch), (input, filters), steps, output),
        }
    }

    /// Positions of the input.
    fn inside(&self) -> usize {
        self.axes.iter().map(|a| a.input).product()
    }

    /// Where the elements of an input lie.
    fn place(&self, input: &Input<'_>) -> Place {
        match input.channels_first {
            true => Place::channels_first(self.inside(), self.inputs),
            false => Place::channels_last(self.inside(), self.inputs / input.per_count()),
        }
    }

    /// The filters of a group as the right side of a product.
    fn rhs<'a>(&self, filters: &'a Filters<'_>, group: usize) -> Rhs<'a> {
        match filters {
            Filters::Panels(panels) => Rhs::Packed(&panels[group]),
            Filters::Plain(values) => {
                let (inputs, outputs) = self.group();
                let taps = self.taps();
                let own = &values[group * taps * inputs * outputs..];
                Rhs::Plain(UnalignedF32::of(own), Layout::Kernel { taps })
            }
            Filters::Channels(_) | Filters::Narrow(_) | Filters::Winograd(_) => {
                unreachable!("these convolutions have a kernel of their own")
            }
        }
    }

    /// Group after group.
    fn groups(
        &self,
        (threads, scratch): (&Threads, &ScratchPool),
        (input, filters): (Input<'_>, &Filters<'_>),
        steps: &[Step<'_>],
        mut output: Target<'_>,
    ) {
        let (inputs, outputs) = self.group();
        let place = self.place(&input);
        let counted = inputs / input.per_count();
        let mut zeros = scratch.take::<f32>(inputs);
        zeros.fill(0.0);
        for group in 0..self.groups {
            let windows = Windows {
                input: input.values,
                axes: self.axes,
                place,
                channels: (group * counted, counted),
                zeros: &zeros,
            };
            let left = self.lhs(&windows, &input);
            let first = group * outputs;
            let steps: Vec<Step<'_>> = steps.iter().map(|s| s.from_column(first)).collect();
            let product = Gemm {
                m: self.batch * self.positions(),
                n: outputs,
                k: self.taps() * inputs,
                a: if input.is_bf16 { Lhs::Bf16(&left) } else { left },
                b: self.rhs(filters, group),
                c_stride: self.outputs,
                precision: self.rounded(),
                steps: &steps,
            };
            product.run_to(threads, scratch, output.after(first));
        }
    }

    /// One tap at every position in turn is the input itself.
    fn lhs<'a>(&self, windows: &'a Windows<'a>, input: &Input<'a>) -> Lhs<'a> {
        let stride = self.inputs / input.per_count();
        let Input { values: first, factors, beside: others, .. } = *input;
        let is_alone = input.is_alone();
        assert!(is_alone || !input.is_bf16, "what has been rounded is alone");
        assert!(is_alone || self.groups == 1, "only a product has factors, or inputs side by side");
        match factors {
            _ if !self.is_one_by_one() || windows.place.channel != 1 => {
                assert!(is_alone, "only a product has factors, or inputs side by side");
                Lhs::Windows(windows)
            }
            Some(factors) => {
                assert!(others.is_empty(), "inputs side by side have no factors");
                Lhs::Scaled { values: first, stride, factors, rows: self.positions() }
            }
            None if !others.is_empty() => {
                Lhs::Concat { first, others, columns: stride / (others.len() + 1) }
            }
            None => {
                let values = windows.input.get(windows.channels.0..).unwrap_or_default();
                Lhs::Rows { values, stride }
            }
        }
    }
}

#[cfg(test)]
mod tests;
