//! Pooling of NHWC tensors.

use crate::graph::net::FusedOp;
use crate::prelude::*;
use kernels::conv::ChannelsPool;

/// MaxPool or AvgPool in NHWC.
#[derive(Clone)]
pub(crate) struct PoolLast {
    pub(crate) pool: ChannelsPool,
    pub(crate) elements: Elements,
}

/// The element type that is pooled.
#[derive(Clone, Copy)]
pub(crate) enum Elements {
    /// f32.
    Values,
    /// Quantized values as u8; MaxPool only.
    Quantized,
    /// bf16; MaxPool only.
    Bf16,
}

impl FusedOp for PoolLast {
    fn lower(&self, _: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        Ok(Box::new(self.clone()))
    }
}

impl Kernel for PoolLast {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let threads = cx.threads();
        match self.elements {
            Elements::Values => self.pool.run(threads, cx.input(0), cx.output(0)),
            Elements::Quantized => self.pool.run_quantized(threads, cx.input(0), cx.output(0)),
            Elements::Bf16 => self.pool.run_bf16(threads, cx.input(0), cx.output(0)),
        }
        Ok(())
    }

    fn name(&self) -> &'static str {
        "pool"
    }
}
