//! A Concat of f32 along the last axis, with element-wise operations before and behind it.

use crate::graph::net::FusedOp;
use crate::kernel::post_ops::{PostOp, Quantize, bound, output};
use crate::prelude::*;
use kernels::gemm::{ConcatOperand, concat_rows, map_rows_to, quantize_concat};
use kernels::quantize::Output;

/// A Concat whose operands and result have post-ops, computed row by row. Inputs: the operands of
/// the Concat, then those of the post-ops. A row of the result fits a block
/// ([`kernels::gemm::BLOCK`]).
#[derive(Clone)]
pub(crate) struct ConcatChain {
    pub(crate) branches: Vec<Branch>,
    /// Of rows of the result.
    pub(crate) post_ops: Vec<PostOp>,
    /// The quantizer of the result, if it is stored as u8.
    pub(crate) writes: Option<Quantize>,
}

/// An operand of the Concat.
#[derive(Clone)]
pub(crate) struct Branch {
    /// Elements of a row.
    pub(crate) columns: usize,
    /// Of these rows.
    pub(crate) post_ops: Vec<PostOp>,
}

impl FusedOp for ConcatChain {
    fn lower(&self, _: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        Ok(Box::new(self.clone()))
    }
}

impl ConcatChain {
    /// Whether no post-op is left beside the quantizer.
    fn only_quantizes(&self) -> bool {
        self.post_ops.is_empty() && self.branches.iter().all(|branch| branch.post_ops.is_empty())
    }

    /// Elements of a row of the result.
    pub(crate) fn columns(&self) -> usize {
        self.branches.iter().map(|branch| branch.columns).sum()
    }
}

impl Kernel for ConcatChain {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let output = output(self.writes, cx);
        let cx = &*cx;
        let bound_of = |branch: &Branch| bound(&branch.post_ops, cx, branch.columns);
        let post_ops: Vec<_> = self.branches.iter().map(bound_of).collect();
        let operand = |(input, branch): (usize, &Branch)| ConcatOperand {
            rows: cx.input(input),
            columns: branch.columns,
            post_ops: &post_ops[input],
        };
        let operands: Vec<_> = self.branches.iter().enumerate().map(operand).collect();
        let columns = self.columns();
        let output = match output {
            Output::Quantized(to, quantizers) if self.only_quantizes() => {
                quantize_concat(cx.threads(), &operands, (quantizers, to));
                return Ok(());
            }
            output => output,
        };
        let fill = |start: usize, to: &mut [f32]| concat_rows(&operands, start / columns, to);
        let post_ops = bound(&self.post_ops, cx, columns);
        map_rows_to(cx.threads(), (columns, &post_ops), &fill, output);
        Ok(())
    }

    fn name(&self) -> &'static str {
        "concat"
    }
}
