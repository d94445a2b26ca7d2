//! FakeQuantize-1; f16 and bf16 are computed in f32.

use crate::kernel::dispatch::kernel_for;
use crate::kernel::lanes::Lanes;
use crate::prelude::*;
use infer::ops::fake_quantize::FakeQuantize;
use kernels::broadcast::Broadcast;
use kernels::fake_quantize::{Limits, fake_quantize};
use kernels::real::StoredReal;

impl Lower for FakeQuantize {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let (data, levels) = (cx.sizes(0), self.levels());
        let limits = [1, 2, 3, 4].map(|input| self.broadcast().aligned(data, cx.sizes(input)));
        let plan = Broadcast::new(data, limits.each_ref().map(Vec::as_slice));
        kernel_for!(cx, 0, float T => Quantize { plan, levels, lanes: Lanes::of::<T>() })
    }
}

struct Quantize<L> {
    plan: Broadcast<4>,
    levels: usize,
    lanes: Lanes<L>,
}

impl<L: StoredReal> Kernel for Quantize<L> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let threads = cx.threads();
        let [a, b, c, d] = [1, 2, 3, 4].map(|input| self.lanes.input(cx, input));
        let limits = Limits { input: [&a, &b], output: [&c, &d] };
        self.lanes.in_out(cx, 0, |io| fake_quantize(threads, &self.plan, self.levels, limits, io));
        Ok(())
    }

    fn reuse(&self) -> Reuse {
        self.lanes.reuse(0)
    }

    fn name(&self) -> &'static str {
        "fake quantize"
    }
}
