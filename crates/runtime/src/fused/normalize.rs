//! Maps with the channels last that are normalised, and what is done to their elements.

use crate::graph::net::FusedOp;
use crate::kernel::post_ops::{Then, steps};
use crate::prelude::*;
use infer::InputSet;
use kernels::group_norm::Maps;

/// A normalisation of groups of channels over maps of f32 with the channels last: inputs are the
/// data, a factor and a shift for each channel if it is affine, and the operands of the steps.
#[derive(Clone)]
pub(crate) struct NormalizeMaps {
    pub(crate) maps: Maps,
    pub(crate) is_affine: bool,
    pub(crate) then: Vec<Then>,
}

impl FusedOp for NormalizeMaps {
    fn lower(&self, _: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        Ok(Box::new(self.clone()))
    }
}

impl Kernel for NormalizeMaps {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let io = cx.in_out::<f32>(0, 0);
        let affine = self.is_affine.then(|| (cx.input(1), cx.input(2)));
        let steps = steps(&self.then, cx, self.maps.channels);
        self.maps.run(cx.threads(), cx.scratch_pool(), affine, &steps, &io);
        Ok(())
    }

    fn reuse(&self) -> Reuse {
        Reuse::InPlace(InputSet::one(0))
    }

    fn name(&self) -> &'static str {
        "normalize"
    }
}
