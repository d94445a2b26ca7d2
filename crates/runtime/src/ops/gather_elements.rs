//! GatherElements: single elements along an axis.

use super::scatter::out_of_range;
use crate::kernel::dispatch::kernel_for;
use crate::prelude::*;
use infer::ops::gather_elements::GatherElements;
use kernels::gather::along;
use kernels::num::Pod;
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

impl<T: Pod> Kernel for GatherElementsKernel<T> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let from = (cx.input::<T>(0), cx.sizes(0), self.axis);
        let (threads, sizes, to) = (cx.threads(), cx.sizes(1), cx.output(0));
        let done = match cx.tensor(1).as_slice::<i32>() {
            Some(indices) => along(threads, from, (indices, sizes), to),
            None => along(threads, from, (&cx.wide_ints(1), sizes), to),
        };
        done.map_err(out_of_range)
    }

    fn name(&self) -> &'static str {
        "gather"
    }
}
