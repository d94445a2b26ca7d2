//! ROIAlign-3, ROIAlign-9 and ROIAlignRotated-15; f16 and bf16 are computed in f32. A batch index
//! of -1 ends the boxes, as in OpenVINO: that box and those after it give zeros.

use crate::kernel::dispatch::kernel_for;
use crate::prelude::*;
use infer::ops::roi_align::{Alignment as Rule, RoiAlign};
use kernels::real::StoredReal;
use kernels::roi::{Align, Alignment, MOST_SAMPLES, Maps};
use std::marker::PhantomData;

impl Lower for RoiAlign {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let alignment = match self.alignment() {
            Rule::Asymmetric => Alignment::Asymmetric,
            Rule::HalfPixelForNn => Alignment::HalfPixelForNn,
            Rule::HalfPixel => Alignment::HalfPixel,
            Rule::Rotated { clockwise } => Alignment::Rotated { clockwise },
        };
        let (bins, samples, scale) = (self.bins(), self.samples(), self.scale());
        let align = Align { bins, samples, scale, alignment, max: self.is_max() };
        kernel_for!(cx, 0, float T => AlignKernel::<T> { align, of: PhantomData })
    }
}

/// The feature maps in input 0.
pub(crate) fn maps<'r, T: StoredReal>(cx: &RunCx<'r>) -> Maps<'r, T> {
    let sizes = cx.sizes(0);
    let size = |axis: usize| sizes.get(axis).copied().unwrap_or(1);
    Maps { data: cx.input(0), channels: size(1), height: size(2), width: size(3) }
}

/// The batch indices of the boxes, up to the first that is -1.
///
/// # Errors
/// When an index is out of range; the message names the first.
pub(crate) fn batches(
    cx: &RunCx<'_>,
    input: usize,
    indices: impl Iterator<Item = i64>,
) -> Result<Vec<usize>, KernelError> {
    let count = cx.sizes(0).first().copied().unwrap_or(0);
    let index = |i: i64| {
        usize::try_from(i).ok().filter(|i| *i < count).ok_or_else(|| {
            KernelError::at(input, format!("batch index {i} is out of range for {count} maps"))
        })
    };
    indices.take_while(|i| *i != -1).map(index).collect()
}

struct AlignKernel<T> {
    align: Align,
    of: PhantomData<T>,
}

impl<T: StoredReal> Kernel for AlignKernel<T> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let batches = batches(cx, 2, cx.ints(2).into_iter())?;
        let (maps, to) = (maps::<T>(cx), cx.output(0));
        let done = self.align.run(cx.threads(), maps, (cx.input(1), &batches), to);
        done.map_err(|e| {
            let message = format!("box {} needs more than {MOST_SAMPLES} samples", e.index);
            KernelError::at(1, message)
        })
    }

    fn name(&self) -> &'static str {
        "roi align"
    }
}
