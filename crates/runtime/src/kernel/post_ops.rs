//! Post-ops: applied to each element of a GEMM or convolution before it is stored. Their operands
//! are inputs of the node, behind its own.

use crate::kernel::RunCx;
use kernels::gemm::{self, Bind, PostOpOf, Strided};
use kernels::quantize::{ColumnQuantizers, Output, Quantizer, Quantizers};
use kernels::unary::Unary;
use smallvec::SmallVec;

/// A post-op. Operands are input indices.
pub(crate) type PostOp = PostOpOf<usize, usize, usize, QuantizerInput>;

/// The second operand of a post-op.
pub(crate) type Operand = gemm::Operand<usize, usize>;

/// Quantizers per column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct QuantizerInput {
    /// The input with their parameters.
    pub(crate) input: usize,
    /// The largest quantized value.
    pub(crate) most: f32,
}

impl QuantizerInput {
    fn bind<'r>(self, cx: &RunCx<'r>) -> ColumnQuantizers<'r> {
        ColumnQuantizers::new(cx.input(self.input), self.most)
    }
}

/// The quantizers of an output that is stored as u8.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Quantize {
    /// One quantizer for all columns.
    Uniform(Quantizer),
    /// A quantizer per column.
    Columns(QuantizerInput),
}

impl Quantize {
    /// The quantizers with their parameters.
    pub(crate) fn quantizers<'r>(self, cx: &RunCx<'r>) -> Quantizers<'r> {
        match self {
            Quantize::Uniform(to) => Quantizers::Uniform(to),
            Quantize::Columns(columns) => Quantizers::Columns(columns.bind(cx)),
        }
    }

    /// The same before a run: `constant` gives the values of a constant input.
    pub(crate) fn constant<'v>(
        self,
        constant: impl FnOnce(usize) -> Option<&'v [f32]>,
    ) -> Option<Quantizers<'v>> {
        Some(match self {
            Quantize::Uniform(to) => Quantizers::Uniform(to),
            Quantize::Columns(QuantizerInput { input, most }) => {
                Quantizers::Columns(ColumnQuantizers::new(constant(input)?, most))
            }
        })
    }

    /// The same for a node with `by` more inputs before its operands.
    pub(crate) fn moved(self, by: usize) -> Quantize {
        match self {
            Quantize::Uniform(to) => Quantize::Uniform(to),
            Quantize::Columns(columns) => Quantize::Columns(Moved(by).quantizers(columns)),
        }
    }
}

/// The lowest and highest result of an activation that only clamps.
pub(crate) fn clamped(op: &PostOp) -> Option<(f32, f32)> {
    match op {
        PostOp::Apply(Unary::Relu {}) => Some((0.0, f32::INFINITY)),
        PostOp::Apply(Unary::Clamp { low, high }) => Some((*low as f32, *high as f32)),
        _ => None,
    }
}

/// The output of a run, which is quantized if the node writes u8.
pub(crate) fn output<'r>(writes: Option<Quantize>, cx: &mut RunCx<'r>) -> Output<'r> {
    match writes {
        Some(round) => Output::Quantized(cx.output(0), round.quantizers(cx)),
        None => Output::F32(cx.output(0)),
    }
}

/// Binds post-ops to the inputs of a run. Rows of the result have `columns` elements.
struct Run<'c, 'r> {
    cx: &'c RunCx<'r>,
    columns: usize,
}

impl<'r> Bind<usize, usize, usize, QuantizerInput> for Run<'_, 'r> {
    type Columns = &'r [f32];
    type Matrix = Strided<'r, f32>;
    type Bytes = Strided<'r, u8>;
    type Quantizers = ColumnQuantizers<'r>;

    fn columns(&self, input: usize) -> &'r [f32] {
        self.cx.input(input)
    }

    fn matrix(&self, input: usize) -> Strided<'r, f32> {
        Strided { values: self.cx.input(input), stride: self.columns }
    }

    fn bytes(&self, input: usize) -> Strided<'r, u8> {
        Strided { values: self.cx.input(input), stride: self.columns }
    }

    fn quantizers(&self, columns: QuantizerInput) -> ColumnQuantizers<'r> {
        columns.bind(self.cx)
    }
}

/// Shifts operands by this many inputs.
struct Moved(usize);

impl Bind<usize, usize, usize, QuantizerInput> for Moved {
    type Columns = usize;
    type Matrix = usize;
    type Bytes = usize;
    type Quantizers = QuantizerInput;

    fn columns(&self, input: usize) -> usize {
        input + self.0
    }

    fn matrix(&self, input: usize) -> usize {
        input + self.0
    }

    fn bytes(&self, input: usize) -> usize {
        input + self.0
    }

    fn quantizers(&self, QuantizerInput { input, most }: QuantizerInput) -> QuantizerInput {
        QuantizerInput { input: input + self.0, most }
    }
}

/// The same post-op for a node with `by` more inputs before its operands.
pub(crate) fn moved(op: PostOp, by: usize) -> PostOp {
    op.bind(&Moved(by))
}

/// The post-ops with their operands. Rows of the result have `columns` elements.
pub(crate) fn bound<'r>(
    post_ops: &[PostOp],
    cx: &RunCx<'r>,
    columns: usize,
) -> SmallVec<[gemm::PostOp<'r>; 4]> {
    post_ops.iter().map(|op| op.bind(&Run { cx, columns })).collect()
}
