//! FakeQuantize-1: f16 and bf16 in f32.

use crate::dispatch::kernel_for;
use crate::prelude::*;
use infer::ops::fake_quantize::FakeQuantize;
use kernels::broadcast::Broadcast;
use kernels::quantize::{Limits, fake_quantize};
use kernels::real::StoredReal;
use std::marker::PhantomData;

impl Lower for FakeQuantize {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let (data, levels) = (cx.sizes(0), self.levels());
        let limits = [1, 2, 3, 4].map(|input| self.broadcast().aligned(data, cx.sizes(input)));
        let plan = Broadcast::new(data, limits.each_ref().map(Vec::as_slice));
        kernel_for!(cx, 0, float T => Quantize::<T> { plan, levels, of: PhantomData })
    }
}

struct Quantize<T> {
    plan: Broadcast<4>,
    levels: usize,
    of: PhantomData<T>,
}

impl<T: StoredReal> Kernel for Quantize<T> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let limits =
            Limits { input: [cx.input(1), cx.input(2)], output: [cx.input(3), cx.input(4)] };
        let io = cx.in_out::<T>(0, 0);
        fake_quantize(cx.threads(), &self.plan, self.levels, limits, &io);
        Ok(())
    }

    fn reuse(&self) -> Reuse {
        Reuse::InPlace(1)
    }

    fn name(&self) -> &'static str {
        "fake quantize"
    }
}
