//! Pooling between tensors whose channels are the last axis.

use crate::net::Made;
use crate::prelude::*;
use kernels::conv::ChannelsPool;

/// MaxPool or AvgPool of f32 with the channels last.
#[derive(Clone)]
pub(crate) struct PoolLast {
    pub(crate) pool: ChannelsPool,
}

impl Made for PoolLast {
    fn lower(&self, _: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        Ok(Box::new(self.clone()))
    }
}

impl Kernel for PoolLast {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        self.pool.run(cx.threads(), cx.input(0), cx.output(0));
        Ok(())
    }

    fn name(&self) -> &'static str {
        "pool"
    }
}
