//! Pad: copies rows, and fills the padding by the mode.

use super::SameBytes;
use crate::kernel::dispatch::kernel_for;
use crate::prelude::*;
use infer::ops::pad::{Mode, Pad};
use kernels::num::Pod;
use kernels::pad::PadPlan;
use std::marker::PhantomData;

impl Lower for Pad {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let (begins, _) = (cx.ints(1)?, cx.ints(2)?);
        let plan = PadPlan::new(cx.sizes(0), cx.output_sizes(0)?, &begins);
        if plan.is_identity() {
            return Ok(Box::new(SameBytes));
        }
        let mode = self.mode();
        let has_value = cx.input_count() == 4 && mode == Mode::Constant;
        kernel_for!(cx, 0, size T => PadKernel::<T> { plan, mode, has_value, of: PhantomData })
    }
}

struct PadKernel<T> {
    plan: PadPlan,
    mode: Mode,
    has_value: bool,
    of: PhantomData<T>,
}

impl<T: Pod> Kernel for PadKernel<T> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let value = if self.has_value { cx.input::<T>(3).first().copied() } else { None };
        let source = |position, size| self.mode.source(position, size);
        let from = (cx.input(0), value.unwrap_or_default());
        self.plan.run(cx.threads(), source, from, cx.output(0));
        Ok(())
    }

    fn name(&self) -> &'static str {
        "pad"
    }
}
