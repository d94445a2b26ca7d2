//! Post-ops of a node: what is done to each element of a product or convolution before it leaves
//! the cache. Their operands are inputs of the node, behind those of the product itself.

use crate::kernel::RunCx;
use kernels::gemm::{self, Bind, PostOpOf, Strided};
use kernels::quantize::{ColumnQuantizers, Quantizer, Quantizers};
use smallvec::SmallVec;

/// A post-op, in the order of the operations that it stands for. Operands are numbers of inputs.
pub(crate) type PostOp = PostOpOf<usize, usize, usize, QuantizerInput>;

/// The second operand of a post-op.
pub(crate) type Operand = gemm::Operand<usize, usize>;

/// The quantizers of all columns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct QuantizerInput {
    /// The input that holds their parameters.
    pub(crate) input: usize,
    /// The largest quantized value.
    pub(crate) most: f32,
}

impl QuantizerInput {
    fn bind<'r>(self, cx: &RunCx<'r>) -> ColumnQuantizers<'r> {
        ColumnQuantizers::new(cx.input(self.input), self.most)
    }
}

/// How results are quantized that are written as bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Quantize {
    /// All columns by one quantizer.
    Uniform(Quantizer),
    /// Each column by its own.
    Columns(QuantizerInput),
}

impl Quantize {
    /// The same with the parameters.
    pub(crate) fn quantizers<'r>(self, cx: &RunCx<'r>) -> Quantizers<'r> {
        match self {
            Quantize::Uniform(to) => Quantizers::Uniform(to),
            Quantize::Columns(columns) => Quantizers::Columns(columns.bind(cx)),
        }
    }
}

/// Binds post-ops to the inputs of a run, for a result whose rows have `columns` elements.
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

/// Moves post-ops to a node that has so many more inputs before their operands.
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

/// The same post-op for a node that has `by` more inputs before its operands.
pub(crate) fn moved(op: PostOp, by: usize) -> PostOp {
    op.bind(&Moved(by))
}

/// The post-ops with their operands, for a result whose rows have `columns` elements.
pub(crate) fn bound<'r>(
    post_ops: &[PostOp],
    cx: &RunCx<'r>,
    columns: usize,
) -> SmallVec<[gemm::PostOp<'r>; 4]> {
    post_ops.iter().map(|op| op.bind(&Run { cx, columns })).collect()
}
