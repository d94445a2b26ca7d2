//! Convolutions of quantized data with integer filters.

use crate::graph::net::FusedOp;
use crate::kernel::post_ops::{PostOp, Quantize, bound, output};
use crate::kernel::prepack::Prepacked;
use crate::prelude::*;
use kernels::Packer;
use kernels::conv::Input;
use kernels::quantize::{Output, Quantizer};
use kernels::quantized::{
    ConcatConvolution, Data, Operands, PackedFilters, QuantParams, QuantizedConvolution,
};
use std::sync::Arc;

/// A quantized convolution with NHWC output. Inputs: data, i8 filters, a scale per output channel;
/// the same of each input that is concatenated with the data; and the operands of the post-ops.
#[derive(Clone)]
pub(crate) struct IntegerConvolution {
    pub(crate) data: IntegerInput,
    /// The inputs that are concatenated with the data along channels, if they are quantized
    /// differently.
    pub(crate) concat: Vec<IntegerInput>,
    /// Channels of the output.
    pub(crate) columns: usize,
    /// The input with gates that multiply the channels of the data.
    pub(crate) gates: Option<usize>,
    pub(crate) post_ops: Vec<PostOp>,
    /// The quantizer of the output, if the output is quantized.
    pub(crate) writes: Option<Quantize>,
}

/// An input of a quantized convolution.
#[derive(Clone)]
pub(crate) struct IntegerInput {
    /// The convolution of this input.
    pub(crate) quantized: QuantizedConvolution,
    pub(crate) reads: Reads,
}

/// The type of the data.
#[derive(Clone)]
pub(crate) enum Reads {
    /// f32 values in NHWC, and how they are quantized.
    F32(Quantizer),
    /// f32 values in NCHW, and how each channel is quantized.
    Planes(Arc<[Quantizer]>),
    /// Quantized values as u8.
    Quantized,
}

/// Inputs of the node for each input of the convolution: data, filters and scales.
const INPUTS: usize = 3;

impl IntegerConvolution {
    /// The convolution, unless it is one of several concatenated inputs.
    pub(crate) fn alone(&self) -> Option<&QuantizedConvolution> {
        self.concat.is_empty().then_some(&self.data.quantized)
    }

    /// Whether it is a 1×1 convolution of f32 NHWC data, which it quantizes. Then it can multiply
    /// the channels by gates.
    pub(crate) fn is_pointwise(&self) -> bool {
        let reads_values = matches!(self.data.reads, Reads::F32(_));
        let is_alone = self.gates.is_none() && self.concat.is_empty();
        reads_values && is_alone && self.data.quantized.is_pointwise()
    }

    /// Whether its own quantizer of an input of the node gives the values that `quant_params`
    /// describes.
    pub(crate) fn accepts_quantized(
        &self,
        input: usize,
        quant_params: Option<QuantParams>,
    ) -> bool {
        let Some(IntegerInput { quantized, reads }) = self.of_data(input) else { return false };
        let own = quantized.params();
        let finds = matches!(reads, Reads::F32(quantizer) if own.quantizer() == Some(*quantizer));
        finds && self.gates.is_none() && quant_params == Some(own)
    }

    /// The input of the convolution whose data an input of the node has.
    fn of_data(&self, input: usize) -> Option<&IntegerInput> {
        let inputs = std::iter::once(&self.data).chain(&self.concat);
        inputs.enumerate().find_map(|(i, own)| (i * INPUTS == input).then_some(own))
    }

    /// The same for u8 data at an input of the node.
    pub(crate) fn reading_quantized(mut self, input: usize) -> IntegerConvolution {
        let inputs = std::iter::once(&mut self.data).chain(&mut self.concat);
        for (i, own) in inputs.enumerate() {
            if i * INPUTS == input {
                own.reads = Reads::Quantized;
            }
        }
        self
    }

    /// The data of a run.
    pub(crate) fn data<'a, 'r: 'a>(&'a self, cx: &RunCx<'r>) -> Data<'a> {
        let factors = self.gates.map(|gates| cx.input(gates));
        self.data.read(cx, 0, factors)
    }

    /// The output of a run.
    pub(crate) fn output<'r>(&self, cx: &mut RunCx<'r>) -> Output<'r> {
        output(self.writes, cx)
    }
}

impl IntegerInput {
    /// The data of a run, which are at this input of the node. `factors` multiply their channels.
    fn read<'a, 'r: 'a>(
        &'a self,
        cx: &RunCx<'r>,
        input: usize,
        factors: Option<&'r [f32]>,
    ) -> Data<'a> {
        match &self.reads {
            Reads::F32(quantizer) => {
                let input = Input::channels_last(cx.input(input));
                Data::F32(Input { factors, ..input }, *quantizer)
            }
            Reads::Planes(quantizers) => Data::Planes(cx.input(input), quantizers),
            Reads::Quantized => Data::Quantized(cx.input(input)),
        }
    }
}

impl FusedOp for IntegerConvolution {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let kept = |i: usize| {
            let filters = i * INPUTS + 1;
            Prepacked::new(filters, cx.is_invariant(filters))
        };
        if !self.concat.is_empty() {
            let inputs = std::iter::once(&self.data).chain(&self.concat);
            let sum = ConcatConvolution::new(inputs.map(|own| own.quantized.clone()).collect());
            let filters = (0..=self.concat.len()).map(kept).collect();
            return Ok(Box::new(ConcatKernel { convolution: self.clone(), sum, filters }));
        }
        Ok(Box::new(IntegerKernel { convolution: self.clone(), filters: kept(0) }))
    }
}

struct IntegerKernel {
    convolution: IntegerConvolution,
    filters: Prepacked<PackedFilters>,
}

impl Kernel for IntegerKernel {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let IntegerConvolution { data: own, columns, post_ops, .. } = &self.convolution;
        let (data, output) = (self.convolution.data(cx), self.convolution.output(cx));
        let post_ops = bound(post_ops, cx, *columns);
        let mut once = None;
        let filters = packed(&own.quantized, cx, (&self.filters, 1), &mut once);
        let operands = Operands { data, filters, scales: cx.input(2) };
        own.quantized.run(cx.workers(), operands, &post_ops, output);
        Ok(())
    }

    fn flops(&self) -> u64 {
        self.convolution.data.quantized.flops()
    }

    fn memory(&self, threads: usize) -> KernelMemory {
        let quantized = &self.convolution.data.quantized;
        let (kept, passing) = (quantized.packed_bytes(), quantized.scratch_bytes(threads));
        KernelMemory { kept, passing }
    }

    fn name(&self) -> &'static str {
        "integers"
    }
}

/// A convolution of concatenated inputs.
struct ConcatKernel {
    convolution: IntegerConvolution,
    sum: ConcatConvolution,
    filters: Vec<Prepacked<PackedFilters>>,
}

impl Kernel for ConcatKernel {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let IntegerConvolution { data, concat, columns, post_ops, .. } = &self.convolution;
        let post_ops = bound(post_ops, cx, *columns);
        let inputs = || std::iter::once(data).chain(concat).zip(&self.filters).enumerate();
        let mut once: Vec<Option<PackedFilters>> = inputs().map(|_| None).collect();
        let operands: Vec<Operands<'_>> = inputs()
            .zip(&mut once)
            .map(|((i, (own, kept)), once)| {
                let at = i * INPUTS;
                let filters = packed(&own.quantized, cx, (kept, at + 1), once);
                Operands { data: own.read(cx, at, None), filters, scales: cx.input(at + 2) }
            })
            .collect();
        let output = self.convolution.output(cx);
        self.sum.run(cx.workers(), &operands, &post_ops, output);
        Ok(())
    }

    fn flops(&self) -> u64 {
        self.sum.flops()
    }

    fn memory(&self, _threads: usize) -> KernelMemory {
        KernelMemory { kept: self.sum.packed_bytes(), passing: self.sum.scratch_bytes() }
    }

    fn name(&self) -> &'static str {
        "integers"
    }
}

/// The packed filters of a convolution, which are an input: kept, or packed once if they change.
pub(crate) fn packed<'a>(
    quantized: &QuantizedConvolution,
    cx: &RunCx<'_>,
    (kept, input): (&'a Prepacked<PackedFilters>, usize),
    once: &'a mut Option<PackedFilters>,
) -> &'a PackedFilters {
    let given = cx.input(input);
    let prepare = || quantized.pack_filters(cx.to_arena(), given);
    match kept.now(cx, || quantized.filters_layout(), prepare) {
        Some(filters) => filters,
        None => once.insert(quantized.pack_filters(Packer::unpooled(cx.threads()), given)),
    }
}
