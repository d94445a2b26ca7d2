//! Softmax and LogSoftmax; f16 and bf16 are computed in f32.

use crate::kernel::dispatch::kernel_for;
use crate::kernel::lanes::Lanes;
use crate::prelude::*;
use infer::ops::softmax::Softmax;
use kernels::real::StoredReal;
use kernels::slices::Slices;
use kernels::softmax::{log_softmax, softmax};

impl Lower for Softmax {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let sizes = cx.sizes(0);
        let slices = Slices::new(sizes, &[self.axis(sizes.len())?]);
        let log = self.is_log();
        kernel_for!(cx, 0, float T => SoftmaxKernel { slices, log, lanes: Lanes::of::<T>() })
    }
}

struct SoftmaxKernel<L> {
    slices: Slices,
    log: bool,
    lanes: Lanes<L>,
}

impl<L: StoredReal> Kernel for SoftmaxKernel<L> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let threads = cx.threads();
        self.lanes.in_out(cx, 0, |io| {
            if self.log {
                log_softmax(threads, &self.slices, io)
            } else {
                softmax(threads, &self.slices, io)
            }
        });
        Ok(())
    }

    fn reuse(&self) -> Reuse {
        self.lanes.reuse(0)
    }

    fn name(&self) -> &'static str {
        "softmax"
    }
}
