//! Pooling between tensors whose channels are the last axis.

use crate::net::Made;
use crate::prelude::*;
use kernels::conv::ChannelsPool;

/// MaxPool or AvgPool of f32 with the channels last, or MaxPool of levels.
#[derive(Clone)]
pub(crate) struct PoolLast {
    pub(crate) pool: ChannelsPool,
    /// Whether the elements are levels, as bytes.
    pub(crate) of_levels: bool,
}

impl Made for PoolLast {
    fn lower(&self, _: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        Ok(Box::new(self.clone()))
    }
}

impl Kernel for PoolLast {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        match self.of_levels {
            true => self.pool.run_on_levels(cx.threads(), cx.input(0), cx.output(0)),
            false => self.pool.run(cx.threads(), cx.input(0), cx.output(0)),
        }
        Ok(())
    }

    fn name(&self) -> &'static str {
        "pool"
    }
}
