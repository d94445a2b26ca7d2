//! Transposes and reinterpretations of axes.

use crate::graph::net::FusedOp;
use crate::kernel::Copy;
use crate::kernel::movement::movement;
use crate::ops::SameBytes;
use crate::prelude::*;
use kernels::copy::CopyPlan;

/// Axis `i` of the output is axis `order[i]` of the input.
pub(crate) struct Permute {
    pub(crate) order: Sizes,
}

impl FusedOp for Permute {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let plan = CopyPlan::transpose(cx.sizes(0), &self.order);
        movement(cx.element_type(0), 1, vec![Copy { input: 0, output: 0, plan }])
    }
}

/// The same bytes under another shape.
pub(crate) struct Reinterpret;

impl FusedOp for Reinterpret {
    fn lower(&self, _: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        Ok(Box::new(SameBytes))
    }
}
