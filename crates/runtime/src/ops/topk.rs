//! TopK: every order is that of a stable sort.

use crate::prelude::*;
use crate::tensor::dispatch::with_type;
use infer::ops::topk::{Sort, TopK};
use kernels::num::Stored;
use kernels::order::Order;
use kernels::topk::TopK as Plan;
use std::marker::PhantomData;

impl Lower for TopK {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let sizes = cx.sizes(0);
        let axis = self.axis(sizes.len())?;
        let k = cx.output_sizes(0)?[axis];
        if k > sizes[axis] {
            let message = format!("{k} is more than the axis has, {}", sizes[axis]);
            return Err(RuleError::at(1, message).into());
        }
        let plan = Plan {
            outer: sizes[..axis].iter().product(),
            size: sizes[axis],
            inner: sizes[axis + 1..].iter().product(),
            k,
            largest: self.largest(),
            by_position: self.sort() == Sort::Index,
        };
        with_type!(cx.element_type(0), number T => {
            with_type!(cx.output_type(1), index I => {
                Box::new(TopKKernel::<T, I> { plan, of: PhantomData }) as Box<dyn Kernel>
            })
        })
        .flatten()
        .ok_or_else(|| LowerError::element_type(0, cx.element_type(0)))
    }
}

struct TopKKernel<T, I> {
    plan: Plan,
    of: PhantomData<(T, I)>,
}

impl<T: Stored, I: Stored> Kernel for TopKKernel<T, I>
where
    T::Wide: Order,
{
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let (values, positions) = (cx.output(0), cx.output(1));
        self.plan.run::<T, I>(cx.threads(), cx.input(0), values, positions);
        Ok(())
    }

    fn name(&self) -> &'static str {
        "top k"
    }
}
