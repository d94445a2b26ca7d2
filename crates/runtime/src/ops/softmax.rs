//! SoftMax and LogSoftmax: f16 and bf16 in f32.

use crate::dispatch::kernel_for;
use crate::prelude::*;
use infer::ops::softmax::Softmax;
use kernels::real::StoredReal;
use kernels::slices::Slices;
use kernels::softmax::{log_softmax, softmax};
use std::marker::PhantomData;

impl Lower for Softmax {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let sizes = cx.sizes(0);
        let slices = Slices::new(sizes, &[self.axis(sizes.len())?]);
        let log = self.is_log();
        kernel_for!(cx, 0, float T => SoftmaxKernel::<T> { slices, log, of: PhantomData })
    }
}

struct SoftmaxKernel<T> {
    slices: Slices,
    log: bool,
    of: PhantomData<T>,
}

impl<T: StoredReal> Kernel for SoftmaxKernel<T> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let io = cx.in_out::<T>(0, 0);
        match self.log {
            false => softmax(cx.threads(), &self.slices, &io),
            true => log_softmax(cx.threads(), &self.slices, &io),
        }
        Ok(())
    }

    fn reuse(&self) -> Reuse {
        Reuse::InPlace(1)
    }

    fn name(&self) -> &'static str {
        "softmax"
    }
}
