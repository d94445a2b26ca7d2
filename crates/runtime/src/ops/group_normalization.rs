//! GroupNormalization-12; f16 and bf16 are computed in f32.

use super::batch_norm::channels;
use crate::kernel::dispatch::kernel_for;
use crate::kernel::lanes::Lanes;
use crate::prelude::*;
use infer::ops::group_normalization::GroupNormalization;
use kernels::layer_norm::{Channels, Groups, normalize_groups};
use kernels::real::StoredReal;

impl Lower for GroupNormalization {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let channels = channels(cx.sizes(0));
        let groups = Groups { count: self.groups(), eps: self.epsilon() };
        kernel_for!(cx, 0, float T => {
            let lanes = Lanes::of::<T>();
            GroupKernel { channels, groups, lanes }
        })
    }
}

struct GroupKernel<L> {
    channels: Channels,
    groups: Groups,
    lanes: Lanes<L>,
}

impl<L: StoredReal> Kernel for GroupKernel<L> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let (threads, gamma, beta) =
            (cx.threads(), self.lanes.input(cx, 1), self.lanes.input(cx, 2));
        self.lanes.in_out(cx, 0, |io| {
            normalize_groups(threads, self.channels, self.groups, (&gamma, &beta), io);
        });
        Ok(())
    }

    fn reuse(&self) -> Reuse {
        self.lanes.reuse(0)
    }

    fn name(&self) -> &'static str {
        "group norm"
    }
}
