//! Rows and maps that are normalised, and what is done to their elements: layer normalisation as
//! graphs write it, and normalisation over maps whose channels lie last.

use crate::fused::post_ops::{Then, steps};
use crate::graph::net::FusedOp;
use crate::prelude::*;
use infer::InputSet;
use kernels::group_norm::Maps;
use kernels::layer_norm::{Normalization, normalize_rows};

/// A normalisation of rows of f32: inputs are the data, its axes if they are an input, and the
/// operands of the steps.
#[derive(Clone)]
pub(crate) struct NormalizeRows {
    pub(crate) columns: usize,
    pub(crate) form: Normalization,
    pub(crate) then: Vec<Then>,
}

impl FusedOp for NormalizeRows {
    fn lower(&self, _: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        Ok(Box::new(self.clone()))
    }
}

impl Kernel for NormalizeRows {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let io = cx.in_out::<f32>(0, 0);
        let steps = steps(&self.then, cx, self.columns);
        normalize_rows(cx.threads(), self.columns, self.form, &steps, &io);
        Ok(())
    }

    fn reuse(&self) -> Reuse {
        Reuse::InPlace(InputSet::one(0))
    }

    fn name(&self) -> &'static str {
        "normalize"
    }
}

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
