//! SpaceToDepth-1 and DepthToSpace-1: a transpose.

use crate::kernel::Copy;
use crate::kernel::movement::movement;
use crate::prelude::*;
use infer::ops::space_to_depth::SpaceToDepth;
use kernels::copy::CopyPlan;

impl Lower for SpaceToDepth {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let (split, order) = self.transposition(cx.sizes(0), cx.output_sizes(0)?);
        let plan = CopyPlan::transpose(&split, &order);
        movement(cx.element_type(0), 1, vec![Copy { input: 0, output: 0, plan }])
    }
}
