//! Col2Im-15: f16 and bf16 are summed in f32; integers wrap.

use crate::kernel::dispatch::kernel_for;
use crate::kernel::lanes::Lanes;
use crate::ops::pool::kernel_window;
use crate::prelude::*;
use infer::ops::col2im::Col2Im;
use kernels::arithmetic::Arithmetic;
use kernels::gemm::Window;
use kernels::num::Stored;

impl Lower for Col2Im {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let (image, kernel) = (cx.ints(1)?, cx.ints(2)?);
        let mut axes = [Window::NONE; 2];
        for (i, (axis, window)) in axes.iter_mut().zip(self.windows()).enumerate() {
            let size = image[i] as usize;
            let count = window.output(infer::Dim::of(size), infer::Dim::fixed(kernel[i]), FLOOR)?;
            *axis = kernel_window(window, size, count.size().unwrap_or(0), kernel[i]);
        }
        kernel_for!(cx, 0, number T => Col2ImKernel { axes, lanes: Lanes::of::<T>() })
    }
}

const FLOOR: infer::rules::window::Rounding = infer::rules::window::Rounding::Floor;

struct Col2ImKernel<L> {
    axes: [Window; 2],
    lanes: Lanes<L>,
}

impl<L: Stored<Wide: Arithmetic>> Kernel for Col2ImKernel<L> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let from = self.lanes.input(cx, 0);
        self.lanes.output(cx, 0, |cx, to| {
            kernels::col2im::col2im(cx.threads(), &self.axes, &from, to);
        });
        Ok(())
    }

    fn name(&self) -> &'static str {
        "col2im"
    }
}
