//! GroupNormalization-12: f16 and bf16 in f32.

use super::batch_norm::channels;
use crate::dispatch::kernel_for;
use crate::prelude::*;
use infer::ops::group_normalization::GroupNormalization;
use kernels::normalize::{Channels, normalize_groups};
use kernels::real::StoredReal;
use std::marker::PhantomData;

impl Lower for GroupNormalization {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let (channels, groups) = (channels(cx.sizes(0)), (self.groups(), self.epsilon()));
        kernel_for!(cx, 0, float T => GroupKernel::<T> { channels, groups, of: PhantomData })
    }
}

struct GroupKernel<T> {
    channels: Channels,
    /// Number of groups, and what is added to variances.
    groups: (usize, f64),
    of: PhantomData<T>,
}

impl<T: StoredReal> Kernel for GroupKernel<T> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let io = cx.in_out::<T>(0, 0);
        let channels = (cx.input(1), cx.input(2));
        normalize_groups(cx.threads(), self.channels, self.groups, channels, &io);
        Ok(())
    }

    fn reuse(&self) -> Reuse {
        Reuse::InPlace(1)
    }

    fn name(&self) -> &'static str {
        "group norm"
    }
}
