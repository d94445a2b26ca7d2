//! A chain of movements as one copy.

use crate::graph::net::FusedOp;
use crate::kernel::Copy;
use crate::kernel::dispatch::kernel_for;
use crate::kernel::movement::movement;
use crate::prelude::*;
use kernels::copy::CopyPlan;
use kernels::num::Pod;
use kernels::runs::gather_runs;
use std::marker::PhantomData;
use std::sync::Arc;

/// Run `i` of the output, of `run` elements, is run `runs[i]` of the input.
#[derive(Clone)]
pub(crate) struct IndexedCopy {
    pub(crate) runs: Arc<[u32]>,
    pub(crate) run: usize,
}

impl FusedOp for IndexedCopy {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        kernel_for!(cx, 0, size T => IndexedKernel::<T> { copy: self.clone(), of: PhantomData })
    }
}

struct IndexedKernel<T> {
    copy: IndexedCopy,
    of: PhantomData<fn() -> T>,
}

impl<T: Pod> Kernel for IndexedKernel<T> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let IndexedCopy { runs, run } = &self.copy;
        gather_runs::<T>(cx.threads(), cx.input(0), runs, *run, cx.output(0));
        Ok(())
    }

    fn reuse(&self) -> Reuse {
        match self.copy.runs[..] {
            [one] => {
                let offset = one as usize * self.copy.run * size_of::<T>();
                Reuse::Views(smallvec::smallvec![View { input: 0, offset }])
            }
            _ => Reuse::None,
        }
    }

    fn name(&self) -> &'static str {
        match self.copy.runs.len() {
            1 => "view",
            _ => "move",
        }
    }
}

/// The elements in another order.
pub(crate) struct StridedCopy {
    pub(crate) plan: CopyPlan,
}

impl FusedOp for StridedCopy {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let copy = Copy { input: 0, output: 0, plan: self.plan.clone() };
        movement(cx.element_type(0), 1, vec![copy])
    }
}
