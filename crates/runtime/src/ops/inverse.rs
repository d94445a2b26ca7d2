//! Inverse-14; f16 and bf16 are computed in f32.

use crate::kernel::dispatch::kernel_for;
use crate::prelude::*;
use infer::ops::inverse::Inverse;
use kernels::inverse::inverse;
use kernels::real::StoredReal;
use std::marker::PhantomData;

impl Lower for Inverse {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let (side, transposed) = (cx.sizes(0)[cx.sizes(0).len() - 1], self.is_adjoint());
        kernel_for!(cx, 0, float T => InverseKernel::<T> { side, transposed, of: PhantomData })
    }
}

struct InverseKernel<T> {
    /// Rows of a matrix.
    side: usize,
    transposed: bool,
    of: PhantomData<T>,
}

impl<T: StoredReal> Kernel for InverseKernel<T> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let (threads, from) = (cx.threads(), cx.input::<T>(0));
        inverse(threads, self.side, self.transposed, from, cx.output(0));
        Ok(())
    }

    fn name(&self) -> &'static str {
        "inverse"
    }
}
