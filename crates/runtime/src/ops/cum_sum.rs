//! CumSum-3: f16 and bf16 in f32, integers in 64 bits.

use crate::dispatch::kernel_for;
use crate::prelude::*;
use infer::ops::cum_sum::CumSum as Rule;
use infer::rules::axes;
use kernels::arithmetic::Arithmetic;
use kernels::cum_sum::CumSum;
use kernels::num::Stored;
use std::marker::PhantomData;

impl Lower for Rule {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let data = cx.sizes(0);
        let axis = if cx.input_count() > 1 { cx.int(1)? } else { 0 };
        let axis = axes::normalize(axis, data.len())?;
        let (outer, inner) = (data[..axis].iter().product(), data[axis + 1..].iter().product());
        let sizes = [outer, data[axis], inner];
        let plan = CumSum { sizes, exclusive: self.is_exclusive(), reverse: self.is_reverse() };
        kernel_for!(cx, 0, number T => CumSumKernel::<T> { plan, of: PhantomData })
    }
}

struct CumSumKernel<T> {
    plan: CumSum,
    of: PhantomData<T>,
}

impl<T: Stored> Kernel for CumSumKernel<T>
where
    T::Wide: Arithmetic,
{
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        self.plan.run::<T>(cx.threads(), cx.input(0), cx.output(0));
        Ok(())
    }

    fn name(&self) -> &'static str {
        "cumsum"
    }
}
