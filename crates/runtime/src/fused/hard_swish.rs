//! HSwish with another factor than 1/6.

use crate::graph::net::FusedOp;
use crate::ops::unary::ElementWise;
use crate::prelude::*;
use kernels::unary::Unary;

/// `x · min(max(x + 3, 0), 6) · factor`, of f32.
#[derive(Clone, Copy)]
pub(crate) struct HardSwish {
    pub(crate) factor: f32,
}

impl HardSwish {
    /// The function of one element.
    pub(crate) fn function(self) -> Unary {
        Unary::HSwish { factor: f64::from(self.factor) }
    }
}

impl FusedOp for HardSwish {
    fn lower(&self, _: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        Ok(Box::new(ElementWise { function: self.function() }))
    }
}
