//! FakeConvert-13; f16 and bf16 are computed in f32.

use crate::kernel::dispatch::kernel_for;
use crate::kernel::lanes::Lanes;
use crate::prelude::*;
use infer::ops::fake_convert::FakeConvert;
use kernels::broadcast::Broadcast;
use kernels::fake_quantize::{Float8, fake_convert};
use kernels::real::StoredReal;

impl Lower for FakeConvert {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let has_shift = cx.input_count() > 2;
        let shift = cx.sizes(if has_shift { 2 } else { 1 });
        let plan = Broadcast::new(cx.sizes(0), [cx.sizes(1), shift]);
        let to = match self.destination() {
            ElementType::F8E5M2 => Float8::E5M2,
            _ => Float8::E4M3,
        };
        kernel_for!(cx, 0, float T => FakeConverted { plan, to, has_shift, lanes: Lanes::of::<T>() })
    }
}

struct FakeConverted<L> {
    plan: Broadcast<2>,
    to: Float8,
    has_shift: bool,
    lanes: Lanes<L>,
}

impl<L: StoredReal> Kernel for FakeConverted<L> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let (threads, scale) = (cx.threads(), self.lanes.input(cx, 1));
        let shift = self.has_shift.then(|| self.lanes.input(cx, 2));
        let params = (&*scale, shift.as_deref());
        self.lanes.in_out(cx, 0, |io| fake_convert(threads, &self.plan, self.to, params, io));
        Ok(())
    }

    fn reuse(&self) -> Reuse {
        self.lanes.reuse(0)
    }

    fn name(&self) -> &'static str {
        "fake convert"
    }
}
