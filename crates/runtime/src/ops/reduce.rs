//! Reductions; f16 and bf16 are computed in f32, integers in 64 bits.

use super::SameBytes;
use crate::kernel::lanes::Lanes;
use crate::prelude::*;
use crate::tensor::dispatch::with_type;
use infer::ops::reduce::{Kind, Reduce};
use infer::rules::axes;
use kernels::convert::Element;
use kernels::num::{Bool, Stored};
use kernels::reduce::{Logic, ReducePlan, Reduction, Scale};

impl Lower for Reduce {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let axes = axes::normalize_all(&cx.ints(1)?, cx.sizes(0).len().max(1), 1)?;
        let plan = ReducePlan::new(cx.sizes(0), &axes);
        let reduction = match self.kind() {
            Kind::Sum => Reduction::Sum,
            Kind::Mean => Reduction::Mean,
            Kind::Prod => Reduction::Prod,
            Kind::Max => Reduction::Max,
            Kind::Min => Reduction::Min,
            Kind::L1 => Reduction::L1,
            Kind::L2 => Reduction::L2,
            Kind::LogicalAnd => return Ok(Box::new(LogicKernel { plan, logic: Logic::And })),
            Kind::LogicalOr => return Ok(Box::new(LogicKernel { plan, logic: Logic::Or })),
        };
        let norm = matches!(reduction, Reduction::L1 | Reduction::L2);
        if plan.reduced() == 1 && !norm {
            return Ok(Box::new(SameBytes));
        }
        let element_type = cx.element_type(0);
        if let (0, Some(limit)) = (plan.reduced(), limit_of_none(reduction, element_type)) {
            return Ok(Box::new(Limit(limit)));
        }
        with_type!(element_type, number T => lower_as::<T>(plan, reduction))
            .ok_or_else(|| LowerError::element_type(0, element_type))
    }
}

/// The bytes of the maximum or minimum over no integers: the lowest or highest value of the type.
/// `None` for types that are not whole bytes, and for other reductions.
fn limit_of_none(reduction: Reduction, element_type: ElementType) -> Option<Vec<u8>> {
    let (low, high) = element_type.integer_range()?;
    let limit = match reduction {
        Reduction::Max => low,
        Reduction::Min => high,
        _ => return None,
    };
    let bits = usize::try_from(element_type.bits()?).ok()?;
    let bytes = limit.to_le_bytes().get(..bits / 8)?.to_vec();
    (bits.is_multiple_of(8) && element_type != ElementType::Boolean).then_some(bytes)
}

/// Every element has these bytes.
struct Limit(Vec<u8>);

impl Kernel for Limit {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let elements = cx.output_bytes(0).chunks_exact_mut(self.0.len());
        elements.for_each(|element| element.copy_from_slice(&self.0));
        Ok(())
    }

    fn name(&self) -> &'static str {
        "reduce"
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

struct LogicKernel {
    plan: ReducePlan,
    logic: Logic,
}

impl Kernel for LogicKernel {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        self.plan.run_logic(cx.threads(), self.logic, cx.input::<Bool>(0), cx.output(0));
        Ok(())
    }

    fn name(&self) -> &'static str {
        "reduce"
    }
}
