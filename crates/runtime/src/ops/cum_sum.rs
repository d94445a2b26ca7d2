//! CumSum-3: f16 and bf16 are summed in f32, integers in 64 bits.

use crate::kernel::dispatch::kernel_for;
use crate::kernel::lanes::Lanes;
use crate::prelude::*;
use infer::ops::cum_sum::CumSum as Rule;
use infer::rules::axes;
use kernels::arithmetic::Arithmetic;
use kernels::num::Stored;
use kernels::reduce::cum_sum::CumSum;
use kernels::slices::AlongAxis;

impl Lower for Rule {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let data = cx.sizes(0);
        let axis = if cx.input_count() > 1 { cx.int(1)? } else { 0 };
        let data = if data.is_empty() { &[1] } else { data };
        let axis = axes::normalize(axis, data.len())?;
        let along = AlongAxis::new(data, axis);
        let plan = CumSum { along, exclusive: self.is_exclusive(), reverse: self.is_reverse() };
        kernel_for!(cx, 0, number T => CumSumKernel { plan, lanes: Lanes::of::<T>() })
    }
}

struct CumSumKernel<L> {
    plan: CumSum,
    lanes: Lanes<L>,
}

impl<L: Stored<Wide: Arithmetic>> Kernel for CumSumKernel<L> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let from = self.lanes.input(cx, 0);
        self.lanes.output(cx, 0, |cx, to| self.plan.run(cx.threads(), &from, to));
        Ok(())
    }

    fn name(&self) -> &'static str {
        "cumsum"
    }
}
