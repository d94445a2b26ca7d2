//! NonZero: counts first, then writes.

use crate::prelude::*;
use crate::tensor::dispatch::with_type;
use infer::ops::nonzero::NonZero;
use kernels::nonzero::{Masked, count, positions};
use kernels::num::{Bits, Stored};
use std::marker::PhantomData;

impl Lower for NonZero {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let element_type = cx.element_type(0);
        let is_number = element_type == ElementType::Boolean
            || with_type!(element_type, number T => size_of::<T>()).is_some();
        with_type!(cx.output_type(0), index I => {
            with_type!(element_type, size B => kernel::<B, I>(element_type))
        })
        .flatten()
        .filter(|_| is_number)
        .ok_or_else(|| LowerError::element_type(0, element_type))
    }
}

fn kernel<B: Bits, I: Stored>(element_type: ElementType) -> Box<dyn Kernel> {
    let mask = if element_type.is_real() { B::MAGNITUDE } else { B::all_if(true) };
    Box::new(NonZeroKernel { mask, of: PhantomData::<I> })
}

struct NonZeroKernel<B, I> {
    /// The bits of which one is set if an element is not 0.
    mask: B,
    of: PhantomData<I>,
}

impl<B: Bits, I: Stored> Kernel for NonZeroKernel<B, I> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let all = Masked { data: cx.input(0), mask: self.mask };
        let sizes = if cx.sizes(0).is_empty() { &[1][..] } else { cx.sizes(0) };
        let counts = count(cx.threads(), all);
        cx.allocate(0, &[sizes.len(), counts.iter().sum()])?;
        let out = cx.output::<I>(0);
        positions(cx.threads(), sizes, all, &counts, out);
        Ok(())
    }

    fn has_data_dependent_shapes(&self) -> bool {
        true
    }

    fn name(&self) -> &'static str {
        "non zero"
    }
}
