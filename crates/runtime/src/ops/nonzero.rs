//! NonZero: counts first, then writes.

use crate::kernel::lanes::Lanes;
use crate::prelude::*;
use crate::tensor::dispatch::with_type;
use infer::ops::nonzero::NonZero;
use kernels::convert::Element;
use kernels::num::{Bool, Pod, Stored};
use std::marker::PhantomData;

impl Lower for NonZero {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let element_type = cx.element_type(0);
        with_type!(cx.output_type(0), index I => match element_type {
            ElementType::Boolean => Some(kernel::<Bool, I>()),
            _ => with_type!(element_type, number T => kernel::<T, I>()),
        })
        .flatten()
        .ok_or_else(|| LowerError::element_type(0, element_type))
    }
}

fn kernel<T: Element, I: Stored>() -> Box<dyn Kernel> {
    Box::new(NonZeroKernel { lanes: Lanes::of::<T>(), of: PhantomData::<I> })
}

struct NonZeroKernel<L, I> {
    lanes: Lanes<L>,
    of: PhantomData<I>,
}

impl<L: Pod, I: Stored> Kernel for NonZeroKernel<L, I> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let data = self.lanes.input(cx, 0);
        let sizes = if cx.sizes(0).is_empty() { &[1][..] } else { cx.sizes(0) };
        let counts = kernels::nonzero::count(cx.threads(), &data);
        cx.allocate(0, &[sizes.len(), counts.iter().sum()])?;
        let out = cx.output::<I>(0);
        kernels::nonzero::positions(cx.threads(), sizes, &data, &counts, out);
        Ok(())
    }

    fn has_data_dependent_shapes(&self) -> bool {
        true
    }

    fn name(&self) -> &'static str {
        "non zero"
    }
}
