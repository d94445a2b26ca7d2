//! Comparisons and logic on two tensors.

use crate::kernel::dispatch::kernel_for;
use crate::prelude::*;
use infer::ops::comparison::{Comparison, Kind};
use kernels::binary::{self as k, Lane, Operands};
use kernels::broadcast::Broadcast;
use kernels::convert::Element;
use kernels::num::Bool;
use std::marker::PhantomData;

impl Lower for Comparison {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let op = match self.kind() {
            Kind::Equal => k::Comparison::Equal,
            Kind::NotEqual => k::Comparison::NotEqual,
            Kind::Less => k::Comparison::Less,
            Kind::LessEqual => k::Comparison::LessEqual,
            Kind::Greater => k::Comparison::Greater,
            Kind::GreaterEqual => k::Comparison::GreaterEqual,
            Kind::LogicalAnd => k::Comparison::And,
            Kind::LogicalOr => k::Comparison::Or,
            Kind::LogicalXor => k::Comparison::Xor,
        };
        let b = self.broadcast().aligned(cx.sizes(0), cx.sizes(1));
        let plan = Broadcast::new(cx.output_sizes(0)?, [cx.sizes(0), &b]);
        let element_type = cx.element_type(0);
        if element_type == ElementType::Boolean {
            return Ok(Box::new(ComparisonKernel::<Bool> { op, plan, of: PhantomData }));
        }
        kernel_for!(cx, 0, number T => ComparisonKernel::<T> { op, plan, of: PhantomData })
    }
}

struct ComparisonKernel<T> {
    op: k::Comparison,
    plan: Broadcast<2>,
    of: PhantomData<T>,
}

impl<T: Element<Lane: Lane>> Kernel for ComparisonKernel<T> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let operands = Operands::separate(cx.input::<T>(0), cx.input::<T>(1), cx.output::<Bool>(0));
        self.op.run(cx.threads(), &self.plan, operands);
        Ok(())
    }

    fn name(&self) -> &'static str {
        "comparison"
    }
}
