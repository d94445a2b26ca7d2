//! A chain of element-wise operations on f32.

use crate::graph::net::FusedOp;
use crate::kernel::post_ops::{PostOp, bound};
use crate::prelude::*;
use infer::InputSet;
use kernels::gemm::map_rows;

/// Post-ops of each row of a tensor, without a producer. Inputs: the data, and the operands of the
/// post-ops.
#[derive(Clone)]
pub(crate) struct ElementWiseChain {
    /// Elements of a row.
    pub(crate) columns: usize,
    pub(crate) post_ops: Vec<PostOp>,
}

impl FusedOp for ElementWiseChain {
    fn lower(&self, _: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        Ok(Box::new(self.clone()))
    }
}

impl Kernel for ElementWiseChain {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let mut io = cx.in_out::<f32>(0, 0);
        let post_ops = bound(&self.post_ops, cx, self.columns);
        map_rows(cx.threads(), self.columns, &post_ops, &mut io);
        Ok(())
    }

    fn reuse(&self) -> Reuse {
        Reuse::InPlace(InputSet::one(0))
    }

    fn name(&self) -> &'static str {
        "element-wise"
    }
}
