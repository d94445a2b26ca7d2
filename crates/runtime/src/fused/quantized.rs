//! Convolutions of quantized data with integer filters.

use crate::graph::net::FusedOp;
use crate::kernel::post_ops::{PostOp, Quantize, bound};
use crate::kernel::prepack::Prepacked;
use crate::prelude::*;
use kernels::WeightArena;
use kernels::conv::Input;
use kernels::quantize::{Output, Quantizer};
use kernels::quantized::{Data, Operands, PackedFilters, QuantParams, QuantizedConvolution};

/// A quantized convolution with NHWC output. Inputs: data, i8 filters, a scale per output channel,
/// and the operands of the post-ops.
#[derive(Clone)]
pub(crate) struct IntegerConvolution {
    pub(crate) quantized: QuantizedConvolution,
    /// Channels of the output.
    pub(crate) columns: usize,
    pub(crate) reads: Reads,
    /// The input with gates that multiply the channels of the data.
    pub(crate) gates: Option<usize>,
    pub(crate) post_ops: Vec<PostOp>,
    /// The quantizer of the output, if the output is quantized.
    pub(crate) writes: Option<Quantize>,
}

impl IntegerConvolution {
    /// Whether it is a 1×1 convolution of f32 NHWC data, which it quantizes. Then it can multiply
    /// the channels by gates.
    pub(crate) fn is_pointwise(&self) -> bool {
        let reads_values = matches!(self.reads, Reads::F32 { channels_first: false, .. });
        reads_values && self.gates.is_none() && self.quantized.is_pointwise()
    }

    /// Whether its own quantizer gives the values that `quant_params` describes.
    pub(crate) fn accepts_quantized(&self, quant_params: Option<QuantParams>) -> bool {
        let own = self.quantized.params();
        let finds = matches!(self.reads, Reads::F32 { quantizer, channels_first: false }
            if own.quantizer() == Some(quantizer));
        finds && self.gates.is_none() && quant_params == Some(own)
    }
}

impl IntegerConvolution {
    /// The data of a run.
    pub(crate) fn data<'r>(&self, cx: &RunCx<'r>) -> Data<'r> {
        match self.reads {
            Reads::F32 { quantizer, channels_first } => {
                let factors = self.gates.map(|gates| cx.input(gates));
                let input = Input::channels_last(cx.input(0));
                Data::F32(Input { channels_first, factors, ..input }, quantizer)
            }
            Reads::Quantized => Data::Quantized(cx.input(0)),
        }
    }

    /// The output of a run.
    pub(crate) fn output<'r>(&self, cx: &mut RunCx<'r>) -> Output<'r> {
        match self.writes {
            Some(round) => Output::Quantized(cx.output(0), round.quantizers(cx)),
            None => Output::F32(cx.output(0)),
        }
    }
}

/// The type of the data.
#[derive(Clone, Copy)]
pub(crate) enum Reads {
    /// f32 values.
    F32 {
        /// How they are quantized.
        quantizer: Quantizer,
        /// Whether they are NCHW.
        channels_first: bool,
    },
    /// Quantized values as u8.
    Quantized,
}

impl FusedOp for IntegerConvolution {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let filters = Prepacked::new(1, cx.is_invariant(1));
        Ok(Box::new(IntegerKernel { convolution: self.clone(), filters }))
    }
}

struct IntegerKernel {
    convolution: IntegerConvolution,
    filters: Prepacked<PackedFilters>,
}

impl Kernel for IntegerKernel {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let IntegerConvolution { quantized, columns, post_ops, .. } = &self.convolution;
        let (data, output) = (self.convolution.data(cx), self.convolution.output(cx));
        let post_ops = bound(post_ops, cx, *columns);
        let mut once = None;
        let filters = packed(quantized, cx, (&self.filters, 1), &mut once);
        let operands = Operands { data, filters, scales: cx.input(2) };
        quantized.run((cx.threads(), cx.scratch_pool()), operands, &post_ops, output);
        Ok(())
    }

    fn flops(&self) -> u64 {
        self.convolution.quantized.flops()
    }

    fn memory(&self, threads: usize) -> KernelMemory {
        let quantized = &self.convolution.quantized;
        let (kept, passing) = (quantized.packed_bytes(), quantized.scratch_bytes(threads));
        KernelMemory { kept, passing }
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
    let prepare = || quantized.filters(cx.to_arena(), given);
    match kept.now(cx, || quantized.filters_layout(), prepare) {
        Some(filters) => filters,
        None => once.insert(quantized.filters((cx.threads(), WeightArena::unpooled()), given)),
    }
}
