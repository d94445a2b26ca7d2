//! A convolution: its sizes, input and filters.

use crate::base::aligned_buf::AlignedBuf;
use crate::base::num::bf16;
use crate::conv::tuning::SMALL_IC;
use crate::gemm::{InputStrides, KBlocks, Packed, Precision, Window, pairs};

/// The sizes of a convolution.
#[derive(Clone, Debug, PartialEq)]
pub struct Convolution {
    /// Images in the batch.
    pub batch: usize,
    /// The windows along the spatial axes, filled up to three with [`Window::NONE`].
    pub axes: [Window; 3],
    /// Channels of the input.
    pub inputs: usize,
    /// Channels of the output.
    pub outputs: usize,
    /// Groups of channels, each convolved on its own; it divides `inputs` and `outputs`.
    pub groups: usize,
    /// What data and filters are converted to. Depthwise convolutions, and some with few channels,
    /// stay f32.
    pub precision: Precision,
}

/// The filters of a convolution.
#[derive(Debug)]
pub enum Filters<'a> {
    /// As in the model; packed while they are used.
    Plain(&'a [f32]),
    /// One packed matrix for each group.
    Packed(Vec<Packed>),
    /// Depthwise: for each tap, one element per channel.
    Depthwise(AlignedBuf),
    /// For few input channels in bf16: a packed matrix for each format of the input.
    SmallIc(Vec<Packed>),
    /// For few output channels in f32: for each tap and input channel, one element per output
    /// channel.
    SmallOc(AlignedBuf),
    /// For filters that are not all finite, in windows that reach into padding: for each tap and
    /// input channel, one element per output channel.
    Skipping(AlignedBuf),
    /// Transformed by Winograd's algorithm.
    Winograd(AlignedBuf),
}

/// The input of a convolution.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The elements.
    pub values: &'a [f32],
    /// Whether the channels come before the spatial axes (NCHW), not after them (NHWC).
    pub channels_first: bool,
    /// A factor for each channel of each image, if any. Only for convolutions that are
    /// [1×1](Convolution::is_pointwise).
    pub factors: Option<&'a [f32]>,
    /// Further inputs with equally many channels each, concatenated behind those of `values`. Only
    /// for convolutions that are [1×1](Convolution::is_pointwise), without factors.
    pub concat: &'a [&'a [f32]],
    /// Whether the elements are bf16; each of `values` is then a pair. Only for convolutions that
    /// [`Convolution::accepts_bf16`].
    pub is_bf16: bool,
}

impl<'a> Input<'a> {
    /// An NHWC input.
    pub fn channels_last(values: &'a [f32]) -> Input<'a> {
        Input { values, channels_first: false, factors: None, concat: &[], is_bf16: false }
    }

    /// An NHWC input in bf16.
    ///
    /// # Panics
    /// When the number of elements is odd, or the first is not aligned to a pair.
    pub fn bf16(elements: &'a [bf16]) -> Input<'a> {
        let values = pairs(elements).expect("channels are even");
        Input { is_bf16: true, ..Input::channels_last(values) }
    }

    /// Elements in each of `values`.
    pub(super) fn per_count(&self) -> usize {
        if self.is_bf16 { 2 } else { 1 }
    }

    /// Whether it is a single NHWC input in f32.
    pub(super) fn is_plain(&self) -> bool {
        self.is_alone() && !self.channels_first && !self.is_bf16
    }

    /// Whether it has neither factors nor further inputs.
    pub(super) fn is_alone(&self) -> bool {
        self.factors.is_none() && self.concat.is_empty()
    }
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

    /// Floating-point operations, including those on padding.
    pub fn flops(&self) -> u64 {
        let (inputs, _) = self.group();
        let factors = [2, self.batch, self.positions(), self.outputs, inputs, self.taps()];
        factors.iter().map(|n| *n as u64).product()
    }

    /// The blocks of a window along k, in elements, where the convolution is a GEMM.
    pub(super) fn k_blocks(&self) -> KBlocks {
        let ([_, _, width], (inputs, _)) = (self.axes, self.group());
        let k = self.taps() * inputs;
        match self.gemm_precision() {
            Precision::F32 => KBlocks::of_window(k, width.taps * inputs, inputs),
            Precision::Bf16 => KBlocks::whole(k),
        }
    }

    /// Input and output channels of one group.
    pub(super) fn group(&self) -> (usize, usize) {
        (self.inputs / self.groups.max(1), self.outputs / self.groups.max(1))
    }

    /// Positions of the input.
    pub(crate) fn inside(&self) -> usize {
        self.axes.iter().map(|a| a.input).product()
    }

    /// Strides of an input.
    pub(super) fn strides(&self, input: &Input<'_>) -> InputStrides {
        if input.channels_first {
            InputStrides::channels_first(self.inside(), self.inputs)
        } else {
            InputStrides::channels_last(self.inside(), self.inputs / input.per_count())
        }
    }

    /// Whether the input is best read as NCHW, the layout of models.
    pub fn reads_channels_first(&self) -> bool {
        self.groups == 1 && self.inputs < SMALL_IC
    }

    /// Whether the kernel is 1×1 with stride 1 and without groups: a plain GEMM.
    pub fn is_pointwise(&self) -> bool {
        self.groups == 1 && self.is_one_by_one()
    }

    /// Whether the kernel is 1×1 with stride 1 and no padding.
    pub(super) fn is_one_by_one(&self) -> bool {
        let own = |a: &Window| a.taps == 1 && a.stride == 1 && a.start == 0 && a.input == a.output;
        self.axes.iter().all(own)
    }
}
