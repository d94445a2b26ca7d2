//! OneHot: by element size.

use crate::kernel::dispatch::kernel_for;
use crate::prelude::*;
use infer::ops::one_hot::OneHot;
use kernels::num::Pod;
use kernels::one_hot::one_hot;
use kernels::slices::AlongAxis;
use std::marker::PhantomData;

impl Lower for OneHot {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let axis = self.axis(cx.sizes(0).len())?;
        let along = AlongAxis::new(cx.output_sizes(0)?, axis);
        let op = *self;
        kernel_for!(cx, 2, size T => {
            OneHotKernel::<T> { op, along, of: PhantomData }
        })
    }
}

struct OneHotKernel<T> {
    op: OneHot,
    /// The output, along the new axis.
    along: AlongAxis,
    of: PhantomData<T>,
}

impl<T: Pod> Kernel for OneHotKernel<T> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let list = cx.index_list(0);
        let place = |i: usize| self.op.place(list.indices().at(i), self.along.size);
        let one = |input: usize| cx.input::<T>(input).first().copied().unwrap_or_default();
        let values = (one(2), one(3));
        one_hot(cx.threads(), &place, self.along, values, cx.output(0));
        Ok(())
    }

    fn name(&self) -> &'static str {
        "one-hot"
    }
}
