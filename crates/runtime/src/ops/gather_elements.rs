//! GatherElements: single elements by their position.

use crate::dispatch::kernel_for;
use crate::prelude::*;
use infer::ops::gather_elements::GatherElements;
use kernels::gather::at_positions;
use kernels::indices::along;
use kernels::num::Plain;
use std::marker::PhantomData;

impl Lower for GatherElements {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let axis = self.axis(cx.sizes(0).len())?;
        kernel_for!(cx, 0, size T => GatherElementsKernel::<T> { axis, of: PhantomData })
    }
}

struct GatherElementsKernel<T> {
    axis: usize,
    of: PhantomData<T>,
}

impl<T: Plain> Kernel for GatherElementsKernel<T> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let (data, sizes) = (cx.sizes(0), cx.sizes(1));
        let positions =
            along(cx.threads(), data, self.axis, sizes, cx.indices(1, data[self.axis])?);
        at_positions::<T>(cx.threads(), cx.input(0), (&positions, 1), cx.output(0));
        Ok(())
    }

    fn name(&self) -> &'static str {
        "gather"
    }
}
