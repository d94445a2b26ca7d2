//! LRN-1; f16 and bf16 are computed in f32.

use crate::kernel::dispatch::kernel_for;
use crate::kernel::lanes::Lanes;
use crate::prelude::*;
use infer::ops::lrn::Lrn as Rule;
use infer::rules::axes;
use kernels::lrn::Lrn;
use kernels::real::StoredReal;

impl Lower for Rule {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let sizes = cx.sizes(0).to_vec();
        let mut axes = axes::normalize_all(&cx.ints(1)?, sizes.len(), 1)?.to_vec();
        axes.sort_unstable();
        axes.dedup();
        let alpha = self.alpha() / (self.size() as f64).powi(axes.len() as i32);
        let (reach, beta, bias) = (self.size() / 2, self.beta(), self.bias());
        let plan = Lrn { sizes, axes, reach, alpha, beta, bias };
        kernel_for!(cx, 0, float T => LrnKernel { plan, lanes: Lanes::of::<T>() })
    }
}

struct LrnKernel<L> {
    plan: Lrn,
    lanes: Lanes<L>,
}

impl<L: StoredReal> Kernel for LrnKernel<L> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let from = self.lanes.input(cx, 0);
        let scratch = |number| if number <= self.plan.kept() { from.len() } else { 0 };
        let mut sums = cx.scratch::<L::Wide>(scratch(1));
        let mut next = cx.scratch::<L::Wide>(scratch(2));
        self.lanes.output(cx, 0, |cx, to| {
            self.plan.run(cx.threads(), &from, [&mut sums, &mut next], to);
        });
        Ok(())
    }

    fn name(&self) -> &'static str {
        "lrn"
    }
}
