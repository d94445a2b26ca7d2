//! Transpose-1: one strided copy, or a view if only axes of size 1 move.

use crate::kernel::Copy;
use crate::kernel::movement::movement;
use crate::prelude::*;
use infer::ops::transpose::{Transpose, order};
use kernels::copy::CopyPlan;

impl Lower for Transpose {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let sizes = cx.sizes(0);
        let order = order(&cx.ints(1)?, sizes.len())?;
        let plan = CopyPlan::transpose(sizes, &order);
        movement(cx.element_type(0), 1, vec![Copy { input: 0, output: 0, plan }])
    }
}
