//! Reductions: f16 and bf16 in f32, integers in 64 bits.

use super::SameBytes;
use crate::kernel::lanes::Lanes;
use crate::prelude::*;
use crate::tensor::dispatch::with_type;
use infer::ops::reduce::{Kind, Reduce};
use infer::rules::axes;
use kernels::convert::Element;
use kernels::num::{Bool, Stored};
use kernels::reduce::{ReducePlan, Reduction, Scale};

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
            return Ok(lower_as::<Bool>(plan, reduction));
        }
        with_type!(element_type, number T => lower_as::<T>(plan, reduction))
            .ok_or_else(|| LowerError::element_type(0, element_type))
    }
}

/// The kernel for elements of type `T`.
fn lower_as<T: Element<Lane: Stored<Wide: Scale>>>(
    plan: ReducePlan,
    reduction: Reduction,
) -> Box<dyn Kernel> {
    Box::new(ReduceKernel { plan, reduction, lanes: Lanes::of::<T>() })
}

struct ReduceKernel<L> {
    plan: ReducePlan,
    reduction: Reduction,
    lanes: Lanes<L>,
}

impl<L: Stored<Wide: Scale>> Kernel for ReduceKernel<L> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let from = self.lanes.input(cx, 0);
        self.lanes.output(cx, 0, |cx, to| {
            self.plan.run(cx.threads(), self.reduction, &from, to);
        });
        Ok(())
    }

    fn name(&self) -> &'static str {
        "reduce"
    }
}
