//! Attention that reads its operands and writes its result through the movements around it.

use crate::graph::net::FusedOp;
use crate::ops::scaled_dot_product_attention::{Float, Heads};
use crate::prelude::*;

/// Attention in f32. The inputs are those of ScaledDotProductAttention, or the sources of their
/// movements.
#[derive(Clone)]
pub(crate) struct Attention {
    pub(crate) heads: Heads,
}

impl FusedOp for Attention {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let heads = self.heads.clone().with_precision(cx.precision());
        Ok(Box::new(Float { heads, halves: None }))
    }
}
