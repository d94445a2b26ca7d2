//! Select-1: by element size.

use crate::kernel::dispatch::kernel_for;
use crate::prelude::*;
use infer::ops::select::Select;
use kernels::broadcast::Broadcast;
use kernels::num::Pod;
use kernels::select::select;
use std::marker::PhantomData;

impl Lower for Select {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let out = cx.output_sizes(0)?;
        let condition = self.broadcast().aligned(cx.sizes(1), cx.sizes(0));
        let other = self.broadcast().aligned(cx.sizes(1), cx.sizes(2));
        let plan = Broadcast::new(out, [&condition, cx.sizes(1), &other]);
        kernel_for!(cx, 1, size T => SelectKernel::<T> { plan, of: PhantomData })
    }
}

struct SelectKernel<T> {
    plan: Broadcast<3>,
    of: PhantomData<T>,
}

impl<T: Pod> Kernel for SelectKernel<T> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let [then, other] = [cx.input::<T>(1), cx.input::<T>(2)];
        select(cx.threads(), &self.plan, cx.input(0), then, other, cx.output(0));
        Ok(())
    }

    fn name(&self) -> &'static str {
        "select"
    }
}
