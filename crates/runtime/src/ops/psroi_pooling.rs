//! PSROIPooling-1 and DeformablePSROIPooling-1; f16 and bf16 are computed in f32. A batch index of
//! -1 ends the boxes.

use super::roi_align::maps;
use super::roi_pooling::box_batches;
use crate::kernel::dispatch::kernel_for;
use crate::prelude::*;
use infer::ops::psroi_pooling::{Mode, PsroiPooling};
use kernels::real::StoredReal;
use kernels::roi::{Offsets, PositionMode, PositionPool};
use std::marker::PhantomData;

impl Lower for PsroiPooling {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let (x, y) = self.samples();
        let mode = match self.mode() {
            Mode::Average => PositionMode::Average,
            Mode::Bilinear => PositionMode::Bilinear(x, y),
            Mode::Deformable(std) => PositionMode::Deformable(x, y, std),
        };
        let (outputs, group) = (self.outputs(), self.group());
        let pool = PositionPool { outputs, group, scale: self.scale(), mode };
        let classes = if cx.input_count() == 3 { cx.sizes(2)[1] / 2 } else { 0 };
        let parts = self.parts();
        kernel_for!(cx, 0, float T => {
            PsroiKernel::<T> { pool, classes, parts, of: PhantomData }
        })
    }
}

struct PsroiKernel<T> {
    pool: PositionPool,
    /// 0 if there are no offsets.
    classes: usize,
    parts: usize,
    of: PhantomData<T>,
}

impl<T: StoredReal> Kernel for PsroiKernel<T> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let batches = box_batches::<T>(cx)?;
        let (maps, to, boxes) = (maps::<T>(cx), cx.output(0), cx.input(1));
        let (classes, parts) = (self.classes, self.parts);
        let offsets = || Offsets { data: cx.input(2), classes, parts };
        let offsets = (classes > 0).then(offsets);
        self.pool.run(cx.threads(), maps, (boxes, &batches), offsets, to);
        Ok(())
    }

    fn name(&self) -> &'static str {
        "position-sensitive roi pooling"
    }
}
