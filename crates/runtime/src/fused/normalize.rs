//! Normalization of NHWC tensors, with post-ops.

use crate::graph::net::FusedOp;
use crate::kernel::post_ops::{PostOp, bound};
use crate::prelude::*;
use infer::InputSet;
use kernels::group_norm::Maps;

/// Normalization over groups of channels and all spatial positions of NHWC f32. Inputs: data, scale
/// and bias per channel if it is affine, and the operands of the post-ops.
#[derive(Clone)]
pub(crate) struct NormalizeMaps {
    pub(crate) maps: Maps,
    pub(crate) is_affine: bool,
    pub(crate) post_ops: Vec<PostOp>,
}

impl FusedOp for NormalizeMaps {
    fn lower(&self, _: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        Ok(Box::new(self.clone()))
    }
}

impl Kernel for NormalizeMaps {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let mut io = cx.in_out::<f32>(0, 0);
        let affine = self.is_affine.then(|| (cx.input(1), cx.input(2)));
        let post_ops = bound(&self.post_ops, cx, self.maps.channels);
        self.maps.run(cx.threads(), cx.scratch_pool(), affine, &post_ops, &mut io);
        Ok(())
    }

    fn reuse(&self) -> Reuse {
        Reuse::InPlace(InputSet::one(0))
    }

    fn name(&self) -> &'static str {
        "normalize"
    }
}
