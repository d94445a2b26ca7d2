//! A chain of movements as one copy.

use crate::graph::net::FusedOp;
use crate::kernel::movement::{Copy, movement};
use crate::prelude::*;
use kernels::copy::CopyPlan;
use kernels::runs::gather_runs;
use std::sync::Arc;

/// Run `i` of the output, of `run` elements of f32, is run `runs[i]` of the input.
#[derive(Clone)]
pub(crate) struct IndexedCopy {
    pub(crate) runs: Arc<[u32]>,
    pub(crate) run: usize,
}

impl FusedOp for IndexedCopy {
    fn lower(&self, _: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        Ok(Box::new(self.clone()))
    }
}

impl Kernel for IndexedCopy {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        gather_runs(cx.threads(), cx.input(0), &self.runs, self.run, cx.output(0));
        Ok(())
    }

    fn reuse(&self) -> Reuse {
        match self.runs[..] {
            [one] => {
                let offset = one as usize * self.run * size_of::<f32>();
                Reuse::Views(smallvec::smallvec![View { input: 0, offset }])
            }
            _ => Reuse::None,
        }
    }

    fn name(&self) -> &'static str {
        match self.runs.len() {
            1 => "view",
            _ => "move",
        }
    }
}

/// The elements of f32 in another order.
pub(crate) struct StridedCopy {
    pub(crate) plan: CopyPlan,
}

impl FusedOp for StridedCopy {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let copy = Copy { input: 0, output: 0, plan: self.plan.clone() };
        movement(cx.element_type(0), 1, vec![copy])
    }
}
