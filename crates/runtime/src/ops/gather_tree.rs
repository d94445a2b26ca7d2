//! GatherTree: tokens are moved; parents and lengths are read as integers, whatever their type.

use crate::kernel::dispatch::kernel_for;
use crate::prelude::*;
use infer::ops::gather_tree::GatherTree;
use kernels::gather_tree::Beams;
use kernels::num::Pod;
use std::marker::PhantomData;

impl Lower for GatherTree {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let &[steps, batches, beams] = cx.sizes(0) else {
            return Err(RuleError::at(0, "must have rank 3").into());
        };
        let beams = Beams { steps, batches, beams };
        kernel_for!(cx, 0, size T => GatherTreeKernel::<T> { beams, of: PhantomData })
    }
}

struct GatherTreeKernel<T> {
    beams: Beams,
    of: PhantomData<T>,
}

impl<T: Pod> Kernel for GatherTreeKernel<T> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let (parents, lengths) = (cx.ints(1), cx.ints(2));
        let end = cx.input::<T>(3).first().copied().unwrap_or_default();
        let ids = (cx.input::<T>(0), &parents[..]);
        self.beams.gather(ids, &lengths, end, cx.output(0)).map_err(|parent| {
            let beams = self.beams.beams;
            KernelError::at(1, format!("parent {parent} is not one of {beams} beams"))
        })
    }

    fn name(&self) -> &'static str {
        "gather tree"
    }
}
