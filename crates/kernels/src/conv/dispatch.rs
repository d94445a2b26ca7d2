//! Chooses the kernel of a convolution.

use super::depthwise::{self, DepthwiseInput};
use super::problem::{Convolution, Filters, Input};
use super::small_ic::small_ic;
use super::small_oc::small_oc;
use super::winograd;
use crate::base::par::Threads;
use crate::base::scratch::ScratchPool;
use crate::base::workers::{Packer, Workers};
use crate::gemm::{PostOp, Target, apply_post_ops};
use crate::math::quantize::Output;
use crate::reduce;

/// The most filters per channel for which the channels are repeated; [`depthwise::repeat`] is
/// compiled for each number.
const MAX_REPEATS: usize = 4;

impl Convolution {
    /// Whether the depthwise kernel computes it: each channel is convolved on its own or in a small
    /// group, with channels as lanes.
    pub fn is_depthwise(&self) -> bool {
        depthwise::group_channels(self).is_some()
    }

    /// Whether its data can be quantized values.
    pub fn accepts_quantized(&self) -> bool {
        depthwise::accepts_quantized(self)
    }

    /// The depthwise convolution that replaces one with a few filters for each input channel: its
    /// input repeats each channel once per filter. A GEMM would have just a few columns.
    pub(super) fn repeated(&self) -> Option<Convolution> {
        let (inputs, outputs) = self.group();
        let has_few = self.groups > 1 && inputs == 1 && (2..=MAX_REPEATS).contains(&outputs);
        has_few.then(|| Convolution { inputs: self.outputs, groups: self.outputs, ..self.clone() })
    }

    /// Whether it is a bf16 GEMM, whose results can be stored as bf16 for others that read them.
    /// Its post-ops must be [absorbed](crate::gemm::are_absorbed).
    pub fn can_output_bf16(&self) -> bool {
        let (inputs, outputs) = self.group();
        let has_terms = self.taps() * inputs * outputs > 0;
        let is_depthwise = self.is_depthwise() || self.repeated().is_some();
        has_terms && !is_depthwise && self.gemm_precision().keeps_pairs()
    }

    /// Whether its input can be bf16: no pair of channels may span two groups or positions.
    pub fn accepts_bf16(&self) -> bool {
        let is_even = self.group().0.is_multiple_of(2) && self.inputs.is_multiple_of(2);
        self.can_output_bf16() && is_even && !self.reads_channels_first()
    }

    /// Whether Winograd's algorithm computes it, which rounds differently.
    pub fn is_winograd(&self) -> bool {
        winograd::suits(self)
    }

    /// What the packed layout of the filters depends on, apart from sizes.
    pub fn filters_layout(&self) -> String {
        let windows = self.axes.map(|w| (w.taps, w.stride, w.dilation));
        let (inputs, outputs) = (small_ic(self).is_some(), small_oc(self).is_some());
        let kind = (self.is_winograd(), inputs, outputs, self.is_padded());
        format!("{} {windows:?} {kind:?}", self.groups)
    }

    /// Packs filters into an arena. They are given by output channel, then input channel of the
    /// group, then tap.
    ///
    /// # Panics
    /// When there are too few.
    pub fn pack_filters(&self, to: Packer<'_>, filters: &[f32]) -> Filters<'static> {
        if self.is_winograd() && !self.must_skip(to.threads, filters) {
            Filters::Winograd(winograd::pack_filters(self, to, filters))
        } else {
            self.pack_direct_filters(to, filters)
        }
    }

    /// As [`Self::pack_filters`], for [`Self::run_direct`].
    pub(super) fn pack_direct_filters(&self, to: Packer<'_>, filters: &[f32]) -> Filters<'static> {
        let taps = self.taps();
        if let Some(repeated) = self.repeated() {
            return repeated.pack_direct_filters(to, filters);
        }
        if let Some(each) = depthwise::group_channels(self) {
            let mut packed = to.arena.alloc(taps * each * self.outputs * size_of::<f32>());
            depthwise::pack_weights(self, each, filters, packed.elements_mut());
            return Filters::Depthwise(packed);
        }
        if self.must_skip(to.threads, filters) {
            return self.by_taps(to.arena, filters);
        }
        if let Some(small) = small_ic(self) {
            return Filters::SmallIc(small.pack_filters(to, filters));
        }
        if let Some(small) = small_oc(self) {
            return Filters::SmallOc(small.pack_filters(to.arena, filters));
        }
        self.packed(to, filters)
    }

    /// Filters that are used once: unpacked, unless their kernel needs them packed.
    pub fn filters_once<'a>(&self, threads: &Threads, filters: &'a [f32]) -> Filters<'a> {
        let is_depthwise = self.is_depthwise() || self.repeated().is_some();
        let is_small = small_ic(self).is_some() || small_oc(self).is_some();
        let has_own = is_depthwise || is_small || self.is_winograd();
        if has_own || self.must_skip(threads, filters) {
            self.pack_filters(Packer::unpooled(threads), filters)
        } else {
            Filters::Plain(filters)
        }
    }

    /// Convolves `input` into `output`, which is NHWC. The filters are given both packed and as in
    /// the model. `post_ops` are applied to each element, with channels as columns.
    ///
    /// A sum runs over the taps in order, and over the channels under each tap. If it
    /// [`Self::is_depthwise`], it runs over the lines of taps, then the channels, then the taps of
    /// the line. Winograd's algorithm has its own order; it is replaced by direct convolution if a
    /// sum is not finite. Padding adds nothing, whatever the filters hold.
    ///
    /// # Panics
    /// When a slice does not have the size of the convolution, or its kernel cannot read the
    /// input's layout.
    pub fn run(
        &self,
        threads: &Threads,
        scratch: &ScratchPool,
        (input, filters, given): (Input<'_>, &Filters<'_>, &[f32]),
        post_ops: &[PostOp<'_>],
        output: &mut [f32],
    ) {
        let Filters::Winograd(transformed) = filters else {
            return self.run_direct(threads, scratch, (input, filters), post_ops, output);
        };
        assert!(input.is_plain(), "channels lie last, in one input");
        let operands = (input.values, transformed.elements());
        if !winograd::run(self, Workers { threads, scratch }, operands, post_ops, output) {
            self.run_direct(threads, scratch, (input, &Filters::Plain(given)), post_ops, output);
        }
    }

    /// As [`Self::run`], for bf16 data or results.
    ///
    /// # Panics
    /// As [`Self::run`]; unless it [`Self::can_output_bf16`]; if the data are bf16, unless it
    /// [`Self::accepts_bf16`].
    pub fn run_bf16(
        &self,
        workers: Workers<'_>,
        operands: (Input<'_>, &Filters<'_>),
        post_ops: &[PostOp<'_>],
        output: Target<'_>,
    ) {
        assert!(self.can_output_bf16() && (self.accepts_bf16() || !operands.0.is_bf16));
        assert_eq!(output.len(), self.batch * self.positions() * self.outputs);
        if output.len() > 0 {
            self.run_gemm(workers, operands, post_ops, output);
        }
    }

    /// As [`Self::run`], for quantized data or results. Unless `means` is empty, it gets the mean
    /// of each output channel of each image: positions are added along each line, then lines.
    ///
    /// # Panics
    /// As [`Self::run`]; unless it [`Self::is_depthwise`]; if the data are quantized, unless it
    /// [`Self::accepts_quantized`].
    pub fn run_depthwise(
        &self,
        Workers { threads, scratch }: Workers<'_>,
        (input, filters): (DepthwiseInput<'_>, &Filters<'_>),
        post_ops: &[PostOp<'_>],
        (output, means): (Output<'_>, &mut [f32]),
    ) {
        let Filters::Depthwise(filters) = filters else { panic!("each channel has a filter") };
        assert!(means.is_empty() || means.len() == self.batch * self.outputs);
        let positions = self.positions();
        if output.len() == 0 {
            return means.fill(0.0);
        }
        let lines = positions / self.axes[2].output;
        let count = if means.is_empty() { 0 } else { self.batch * lines * self.outputs };
        let mut sums = scratch.take(count);
        let to = (output, &mut sums[..]);
        depthwise::depthwise(
            self,
            Workers { threads, scratch },
            (input, filters.elements()),
            post_ops,
            to,
        );
        let each = sums.chunks_mut(lines * self.outputs).zip(means.chunks_mut(self.outputs));
        each.for_each(|(sums, means)| reduce::means(positions, sums, means));
    }

    /// As [`Self::run`], without Winograd's algorithm.
    pub(super) fn run_direct(
        &self,
        threads: &Threads,
        scratch: &ScratchPool,
        (input, filters): (Input<'_>, &Filters<'_>),
        post_ops: &[PostOp<'_>],
        output: &mut [f32],
    ) {
        assert_eq!(output.len(), self.batch * self.positions() * self.outputs);
        if output.is_empty() {
            return;
        }
        match filters {
            Filters::Depthwise(filters) => {
                assert!(input.is_plain(), "channels lie last, in one input");
                let (values, filters) = (input.values, filters.elements());
                let (workers, to) =
                    (Workers { threads, scratch }, (Output::F32(output), &mut [][..]));
                let Some(repeated) = self.repeated() else {
                    let operands = (DepthwiseInput::F32(values), filters);
                    return depthwise::depthwise(self, workers, operands, post_ops, to);
                };
                let mut inputs = scratch.take(self.batch * repeated.inside() * repeated.inputs);
                depthwise::repeat(threads, values, &mut inputs);
                let operands = (DepthwiseInput::F32(&inputs), filters);
                depthwise::depthwise(&repeated, workers, operands, post_ops, to);
            }
            Filters::SmallOc(filters) => {
                let small =
                    small_oc(self).expect("filters for few outputs are of one that has few");
                let operands = (input, filters.elements());
                small.run(Workers { threads, scratch }, operands, post_ops, output);
            }
            _ if self.taps() * self.group().0 == 0 => {
                output.fill(0.0);
                for (i, row) in output.chunks_mut(self.outputs).enumerate() {
                    apply_post_ops(post_ops, i, 0, row);
                }
            }
            _ => {
                let operands = (input, filters);
                self.run_gemm(
                    Workers { threads, scratch },
                    operands,
                    post_ops,
                    Target::F32(output),
                );
            }
        }
    }

    /// Convolves by GEMM; k must not be 0.
    fn run_gemm(
        &self,
        Workers { threads, scratch }: Workers<'_>,
        (input, filters): (Input<'_>, &Filters<'_>),
        post_ops: &[PostOp<'_>],
        output: Target<'_>,
    ) {
        match (small_ic(self), filters) {
            (_, Filters::Skipping(filters)) => {
                let operands = (input, filters.elements());
                self.skip_padding(threads, operands, post_ops, output);
            }
            (Some(small), Filters::SmallIc(filters)) => {
                small.run(Workers { threads, scratch }, (input, filters), post_ops, output);
            }
            _ => self.groups(Workers { threads, scratch }, (input, filters), post_ops, output),
        }
    }
}
