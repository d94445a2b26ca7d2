//! A quantized 1×1 convolution and the depthwise one that alone reads its result.

use crate::fused::quantized::{IntegerConvolution, packed};
use crate::graph::net::FusedOp;
use crate::kernel::post_ops::{Operand, PostOp, Quantize, bound, moved};
use crate::kernel::prepack::Prepacked;
use crate::prelude::*;
use kernels::quantized::{ExpandedDepthwise, Operands, PackedFilters, Stage};

/// Both convolutions. Inputs: those of the 1×1 convolution, then those of the depthwise one except
/// its data.
#[derive(Clone)]
pub(crate) struct ExpandedConvolution {
    pair: ExpandedDepthwise,
    /// The 1×1 convolution, and the quantizer of its result.
    expand: (IntegerConvolution, Quantize),
    /// The depthwise convolution, with the operands where they are here.
    depthwise: IntegerConvolution,
    /// The input with the filters of the depthwise convolution; its scales come next.
    filters: usize,
}

impl ExpandedConvolution {
    /// The operation of a 1×1 convolution with so many inputs, and the depthwise one of its result.
    /// `None` if it does not pay or the result is not stored quantized.
    pub(crate) fn new(
        (expand, inputs): (&IntegerConvolution, usize),
        depthwise: &IntegerConvolution,
    ) -> Option<ExpandedConvolution> {
        let pair = ExpandedDepthwise::new(expand.alone()?, depthwise.alone()?)?;
        // Lines of the result have no rows of their own in a matrix.
        let has_rows = |op: &PostOp| {
            matches!(
                op,
                PostOp::Add(Operand::Matrix(_))
                    | PostOp::Multiply(Operand::Matrix(_))
                    | PostOp::AddQuantized { .. }
            )
        };
        if expand.post_ops.iter().any(has_rows) {
            return None;
        }
        // The data of the depthwise convolution are no input.
        let by = inputs.checked_sub(1)?;
        let depthwise = IntegerConvolution {
            post_ops: depthwise.post_ops.iter().map(|op| moved(*op, by)).collect(),
            writes: depthwise.writes.map(|writes| writes.moved(by)),
            ..depthwise.clone()
        };
        let expand = (expand.clone(), expand.writes?);
        Some(ExpandedConvolution { pair, expand, depthwise, filters: inputs })
    }
}

impl FusedOp for ExpandedConvolution {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let kept = |input| Prepacked::new(input, cx.is_invariant(input));
        let filters = [kept(1), kept(self.filters)];
        Ok(Box::new(ExpandedKernel { convolution: self.clone(), filters }))
    }
}

struct ExpandedKernel {
    convolution: ExpandedConvolution,
    filters: [Prepacked<PackedFilters>; 2],
}

impl Kernel for ExpandedKernel {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let ExpandedConvolution { pair, expand: (expand, between), depthwise, filters: at } =
            &self.convolution;
        let (mut once, mut second_once) = (None, None);
        let filters = packed(pair.expand(), cx, (&self.filters[0], 1), &mut once);
        let second = packed(pair.depthwise(), cx, (&self.filters[1], *at), &mut second_once);
        let post_ops = [expand, depthwise].map(|conv| bound(&conv.post_ops, cx, conv.columns));
        let data = expand.data(cx);
        let first = Operands { data, filters, scales: cx.input(2) };
        let first = Stage { operands: first, post_ops: &post_ops[0] };
        let second = Operands { data, filters: second, scales: cx.input(at + 1) };
        let second = Stage { operands: second, post_ops: &post_ops[1] };
        let workers = cx.workers();
        let (between, output) = (between.quantizers(cx), depthwise.output(cx));
        pair.run(workers, (first, between), second, output);
        Ok(())
    }

    fn flops(&self) -> u64 {
        self.convolution.pair.flops()
    }

    fn memory(&self, threads: usize) -> KernelMemory {
        let pair = &self.convolution.pair;
        let kept = pair.expand().packed_bytes() + pair.depthwise().packed_bytes();
        KernelMemory { kept, passing: pair.scratch_bytes(threads) }
    }

    fn name(&self) -> &'static str {
        "integers"
    }
}
