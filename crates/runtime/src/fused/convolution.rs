//! Convolutions with NHWC output.

use crate::graph::net::FusedOp;
use crate::kernel::post_ops::{PostOp, bound};
use crate::kernel::prepack::Prepacked;
use crate::ops::convolution::{ConvKind, Prepared, in_precision};
use crate::prelude::*;
use kernels::conv::{Convolution, DepthwiseInput, Input};
use kernels::gemm::{self, Precision, Target};
use kernels::quantize::{ColumnQuantizers, Output, Quantizer, Quantizers};
use smallvec::SmallVec;
use std::ops::Range;

/// A convolution with NHWC output. Inputs: data, filters as the model gives them, operands of the
/// post-ops, gates, and the inputs that are concatenated with the data.
#[derive(Clone)]
pub(crate) struct ChannelsLast {
    pub(crate) conv: Convolution,
    /// Whether it is a transposed convolution.
    pub(crate) is_transposed: bool,
    /// Whether the data are NCHW.
    pub(crate) channels_first: bool,
    /// The input with gates that multiply the channels of the data.
    pub(crate) gates: Option<usize>,
    /// The inputs that are concatenated with the data along channels, each with as many channels.
    pub(crate) concat_inputs: Range<usize>,
    pub(crate) post_ops: Vec<PostOp>,
    /// Whether a second output is the mean of each channel.
    pub(crate) gives_means: bool,
    /// The input with quantization parameters per channel, if the data are quantized.
    pub(crate) quantized_input: Option<usize>,
    /// The quantizer of the output, if the output is quantized.
    pub(crate) writes: Option<Quantizer>,
    /// Which of data and output are bf16.
    pub(crate) bf16: Bf16Ports,
}

/// Whether the data are bf16, and whether the output is written as bf16.
#[derive(Clone, Copy, Default, PartialEq)]
pub(crate) struct Bf16Ports {
    data: bool,
    results: bool,
}

impl ChannelsLast {
    /// The same with the mean of each channel as a second output, if it can give that.
    pub(crate) fn with_means(&self) -> Option<ChannelsLast> {
        let can = self.is_depthwise() && !self.gives_means && self.writes.is_none();
        can.then(|| ChannelsLast { gives_means: true, ..self.clone() })
    }

    /// Whether it goes through few channels at a time.
    pub(crate) fn is_depthwise(&self) -> bool {
        self.conv.is_depthwise() && !self.is_transposed
    }

    /// The same for quantized data, if it can read them. `parameters` is the input with the
    /// quantization parameters.
    pub(crate) fn with_quantized_input(&self, parameters: usize) -> Option<ChannelsLast> {
        let can =
            self.is_depthwise() && self.conv.accepts_quantized() && self.quantized_input.is_none();
        can.then(|| ChannelsLast { quantized_input: Some(parameters), ..self.clone() })
    }

    /// The same for bf16 data, if it can read them. It would convert f32 data to bf16 itself.
    pub(crate) fn with_bf16_input(&self) -> Option<ChannelsLast> {
        let is_alone = self.gates.is_none() && self.concat_inputs.is_empty() && !self.is_transposed;
        let can = is_alone && !self.channels_first && self.in_bf16().accepts_bf16();
        let bf16 = Bf16Ports { data: true, ..self.bf16 };
        can.then(|| ChannelsLast { bf16, ..self.clone() })
    }

    /// The same with bf16 output, if it can write that.
    pub(crate) fn with_bf16_output(&self) -> Option<ChannelsLast> {
        let can = !self.is_transposed
            && self.in_bf16().can_output_bf16()
            && gemm::are_absorbed(&self.post_ops);
        let bf16 = Bf16Ports { results: true, ..self.bf16 };
        can.then(|| ChannelsLast { bf16, ..self.clone() })
    }

    fn in_bf16(&self) -> Convolution {
        in_precision(self.conv.clone(), Precision::Bf16)
    }

    /// Whether it is a 1×1 convolution of NHWC data, without padding or strides. Then it can
    /// multiply the channels by gates, or read them from several inputs.
    pub(crate) fn is_pointwise(&self) -> bool {
        let is_plain = self.gates.is_none() && self.concat_inputs.is_empty();
        is_plain && !self.is_transposed && !self.channels_first && self.conv.is_pointwise()
    }
}

impl FusedOp for ChannelsLast {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let conv = in_precision(self.conv.clone(), cx.precision());
        Ok(Box::new(ChannelsLastKernel {
            kind: ConvKind::new(&conv, self.is_transposed),
            conv: self.clone(),
            filters: Prepacked::new(1, cx.is_invariant(1)),
        }))
    }
}

struct ChannelsLastKernel {
    conv: ChannelsLast,
    /// The same in the precision of the session.
    kind: ConvKind,
    filters: Prepacked<Prepared<'static>>,
}

impl Kernel for ChannelsLastKernel {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let own = &self.conv;
        let given = cx.input(1);
        let post_ops = bound(&own.post_ops, cx, own.conv.outputs);
        let workers = cx.workers();
        let once;
        let prepare = || self.kind.prepare(cx.to_arena(), given);
        let filters = match self.filters.on_second_use(cx, || self.kind.filters_layout(), prepare) {
            Some(prepared) => prepared,
            None => {
                once = self.kind.prepare_once(cx.threads(), given);
                &once
            }
        };
        if own.gives_means || own.quantized_input.is_some() || own.writes.is_some() {
            let map = match own.quantized_input {
                Some(at) => {
                    DepthwiseInput::Quantized(cx.input(0), ColumnQuantizers::new(cx.input(at), 0.0))
                }
                None => DepthwiseInput::F32(cx.input(0)),
            };
            let output = match own.writes {
                Some(to) => Output::Quantized(cx.output(0), Quantizers::Uniform(to)),
                None => Output::F32(cx.output(0)),
            };
            let means = if own.gives_means { cx.output(1) } else { &mut [] };
            self.kind.run_depthwise(workers, (map, filters), &post_ops, (output, means));
            return Ok(());
        }
        let factors = own.gates.map(|gates| cx.input(gates));
        let concat_inputs: SmallVec<[&[f32]; 8]> =
            own.concat_inputs.clone().map(|i| cx.input(i)).collect();
        let input = if own.bf16.data {
            Input::bf16(cx.input(0))
        } else {
            Input::channels_last(cx.input(0))
        };
        let input =
            Input { channels_first: own.channels_first, factors, concat: &concat_inputs, ..input };
        if own.bf16 == Bf16Ports::default() {
            self.kind.run(workers, input, (filters, given), &post_ops, cx.output(0));
            return Ok(());
        }
        let output =
            if own.bf16.results { Target::Bf16(cx.output(0)) } else { Target::F32(cx.output(0)) };
        self.kind.run_bf16(workers, (input, filters), &post_ops, output);
        Ok(())
    }

    fn flops(&self) -> u64 {
        self.kind.flops()
    }

    fn memory(&self, threads: usize) -> KernelMemory {
        self.kind.memory(threads)
    }

    fn name(&self) -> &'static str {
        "convolution"
    }
}
