//! GridSample: positions are computed once for all channels, in f32.

use crate::prelude::*;
use crate::tensor::convert::convert_tensor;
use crate::tensor::dispatch::with_type;
use infer::ops::grid_sample::{GridSample, Mode, Padding};
use kernels::grid_sample::{Images, Outside, Sampling, cubic, linear};
use kernels::interpolate::Pixel;
use kernels::num::Pod;
use std::borrow::Cow;
use std::marker::PhantomData;

impl Lower for GridSample {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let ([batch, channels, height, width], [_, rows, columns, 2]) = (cx.sizes(0), cx.sizes(1))
        else {
            return Err(RuleError::at(1, "does not fit the data").into());
        };
        let (height, width) = (*height, *width);
        let count = rows * columns;
        if height * width == 0 && batch * channels * count != 0 {
            return Err(RuleError::at(0, "has images without elements").into());
        }
        let images = Images { batch: *batch, channels: *channels, height, width, count };
        let align_corners = self.align_corners();
        let outside = match self.padding() {
            Padding::Zeros => Outside::Zeros,
            Padding::Border => Outside::Border,
            Padding::Reflection if align_corners => Outside::MirrorCentres,
            Padding::Reflection => Outside::Mirror,
        };
        let sampling = Sampling { align_corners, outside };
        let kernel = match self.mode() {
            Mode::Nearest => with_type!(cx.element_type(0), size T => {
                Box::new(Nearest::<T> { images, sampling, of: PhantomData }) as Box<dyn Kernel>
            }),
            mode => with_type!(cx.element_type(0), number T => {
                let is_cubic = mode == Mode::Bicubic;
                Box::new(Weighted::<T> { images, sampling, is_cubic, of: PhantomData })
                    as Box<dyn Kernel>
            }),
        };
        kernel.ok_or_else(|| LowerError::element_type(0, cx.element_type(0)))
    }
}

/// The grid in f32, borrowed if it is f32.
fn grid<'r>(cx: &RunCx<'r>) -> Result<Cow<'r, [f32]>, KernelError> {
    let tensor = cx.tensor(1);
    if let Some(grid) = tensor.as_slice() {
        return Ok(Cow::Borrowed(grid));
    }
    let grid = convert_tensor(tensor, ElementType::F32);
    let grid = grid.map_err(|e| KernelError::at(1, e.to_string()))?;
    Ok(Cow::Owned(grid.as_slice().unwrap_or_default().to_vec()))
}

struct Nearest<T> {
    images: Images,
    sampling: Sampling,
    of: PhantomData<T>,
}

impl<T: Pod> Kernel for Nearest<T> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let grid = grid(cx)?;
        let inputs = (cx.input::<T>(0), &grid[..]);
        let output = cx.output(0);
        self.images.nearest(cx.threads(), self.sampling, inputs, output);
        Ok(())
    }

    fn name(&self) -> &'static str {
        "grid sample"
    }
}

struct Weighted<T> {
    images: Images,
    sampling: Sampling,
    is_cubic: bool,
    of: PhantomData<T>,
}

impl<T: Pixel> Kernel for Weighted<T> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let grid = grid(cx)?;
        let inputs = (cx.input::<T>(0), &grid[..]);
        let output = cx.output(0);
        if self.is_cubic {
            self.images.weighted(cx.threads(), self.sampling, cubic, inputs, output)
        } else {
            self.images.weighted(cx.threads(), self.sampling, linear, inputs, output)
        }
        Ok(())
    }

    fn name(&self) -> &'static str {
        "grid sample"
    }
}
