//! Reductions: f16 and bf16 in f32, integers in 64 bits.

use super::SameBytes;
use crate::dispatch::kernel_for;
use crate::prelude::*;
use infer::ops::reduce::{Kind, Reduce};
use infer::rules::axes;
use kernels::arithmetic::Arithmetic;
use kernels::num::{Bool, Stored};
use kernels::reduce::{ReducePlan, Reduction, Scale};
use std::marker::PhantomData;

impl Lower for Reduce {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let axes = axes::normalize_all(&cx.ints(1)?, cx.sizes(0).len(), 1)?;
        let plan = ReducePlan::new(cx.sizes(0), &axes);
        let reduction = match self.kind() {
            Kind::Sum => Reduction::Sum,
            Kind::Mean => Reduction::Mean,
            Kind::Prod => Reduction::Prod,
            Kind::Max => Reduction::Max,
            Kind::Min => Reduction::Min,
            Kind::L1 => Reduction::L1,
            Kind::L2 => Reduction::L2,
            Kind::LogicalAnd => Reduction::And,
            Kind::LogicalOr => Reduction::Or,
        };
        let norm = matches!(reduction, Reduction::L1 | Reduction::L2);
        if plan.reduced() == 1 && !norm {
            return Ok(Box::new(SameBytes));
        }
        let element_type = cx.element_type(0);
        if element_type == ElementType::Boolean {
            return Ok(Box::new(ReduceKernel::<Bool> { plan, reduction, of: PhantomData }));
        }
        kernel_for!(cx, 0, number T => ReduceKernel::<T> { plan, reduction, of: PhantomData })
    }
}

struct ReduceKernel<T> {
    plan: ReducePlan,
    reduction: Reduction,
    of: PhantomData<T>,
}

impl<T: Stored> Kernel for ReduceKernel<T>
where
    T::Wide: Arithmetic + Scale,
{
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        self.plan.run::<T>(cx.threads(), self.reduction, cx.input(0), cx.output(0));
        Ok(())
    }

    fn name(&self) -> &'static str {
        "reduce"
    }
}
