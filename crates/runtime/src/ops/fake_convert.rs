//! FakeConvert-13: f16 and bf16 in f32.

use crate::dispatch::kernel_for;
use crate::prelude::*;
use infer::ops::fake_convert::FakeConvert;
use kernels::broadcast::Broadcast;
use kernels::quantize::{Float8, fake_convert};
use kernels::real::StoredReal;
use std::marker::PhantomData;

impl Lower for FakeConvert {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let has_shift = cx.input_count() > 2;
        let shift = cx.sizes(if has_shift { 2 } else { 1 });
        let plan = Broadcast::new(cx.sizes(0), [cx.sizes(1), shift]);
        let to = match self.destination() {
            ElementType::F8E5M2 => Float8::E5M2,
            _ => Float8::E4M3,
        };
        kernel_for!(cx, 0, float T => Rounded::<T> { plan, to, has_shift, of: PhantomData })
    }
}

struct Rounded<T> {
    plan: Broadcast<2>,
    to: Float8,
    has_shift: bool,
    of: PhantomData<T>,
}

impl<T: StoredReal> Kernel for Rounded<T> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let params = (cx.input::<T>(1), self.has_shift.then(|| cx.input(2)));
        let io = cx.in_out(0, 0);
        fake_convert(cx.threads(), &self.plan, self.to, params, &io);
        Ok(())
    }

    fn reuse(&self) -> Reuse {
        Reuse::InPlace(1)
    }

    fn name(&self) -> &'static str {
        "fake convert"
    }
}
