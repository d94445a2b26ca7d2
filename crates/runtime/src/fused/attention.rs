//! ScaledDotProductAttention whose operands are read, and whose result is written, where it is
//! needed.

use crate::net::Made;
use crate::ops::scaled_dot_product_attention::{Float, Heads};
use crate::prelude::*;

/// Attention in f32: the inputs of the operation, or what they were before they were moved.
#[derive(Clone)]
pub(crate) struct Attention {
    pub(crate) heads: Heads,
}

impl Made for Attention {
    fn lower(&self, _: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        Ok(Box::new(Float { heads: self.heads.clone(), halves: None }))
    }
}
