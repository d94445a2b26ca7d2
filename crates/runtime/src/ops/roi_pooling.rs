//! ROIPooling-1; f16 and bf16 are computed in f32. A batch index of -1 ends the boxes.

use super::roi_align::{batches, maps};
use crate::kernel::dispatch::kernel_for;
use crate::prelude::*;
use infer::ops::roi_pooling::RoiPooling;
use kernels::real::{Real, StoredReal};
use kernels::roi::BoxPool;
use std::marker::PhantomData;

impl Lower for RoiPooling {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let pool = BoxPool { bins: self.bins(), scale: self.scale() };
        kernel_for!(cx, 0, float T => RoiPoolingKernel::<T> { pool, of: PhantomData })
    }
}

/// The batch index of each box in input 1, its first element.
pub(crate) fn box_batches<T: StoredReal>(cx: &RunCx<'_>) -> Result<Vec<usize>, KernelError> {
    let boxes = cx.input::<T>(1).chunks_exact(5);
    batches(cx, 1, boxes.map(|roi| roi[0].widen().to_f64() as i64))
}

struct RoiPoolingKernel<T> {
    pool: BoxPool,
    of: PhantomData<T>,
}

impl<T: StoredReal> Kernel for RoiPoolingKernel<T> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let batches = box_batches::<T>(cx)?;
        let (maps, to) = (maps::<T>(cx), cx.output(0));
        self.pool.run(cx.threads(), maps, (cx.input(1), &batches), to);
        Ok(())
    }

    fn name(&self) -> &'static str {
        "roi pooling"
    }
}
