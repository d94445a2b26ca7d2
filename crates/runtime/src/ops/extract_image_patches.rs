//! ExtractImagePatches-3: one strided copy per tap of the windows, over zeros.

use crate::kernel::movement::over_zeros;
use crate::ops::pool::kernel_window;
use crate::prelude::*;
use infer::ops::extract_image_patches::ExtractImagePatches;
use kernels::copy::{Axis, CopyPlan};

impl Lower for ExtractImagePatches {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let (input, output) = (cx.sizes(0), cx.output_sizes(0)?);
        let (windows, taps) = (self.windows(), self.sizes());
        let window = |i: usize| kernel_window(&windows[i], input[2 + i], output[2 + i], taps[i]);
        let (rows, columns) = (window(0), window(1));
        let (image, patches) = (rows.input * columns.input, rows.output * columns.output);
        if output.contains(&0) {
            return over_zeros(cx.element_type(0), Vec::new());
        }
        let channels = input[1];
        let plan = |tap: usize| {
            let (y, x) = (tap / columns.taps, tap % columns.taps);
            let (ys, xs) = (rows.outputs_within(y), columns.outputs_within(x));
            let (first_y, first_x) = (rows.position(ys.start, y)?, columns.position(xs.start, x)?);
            let axes = [
                (input[0], channels * image, output[1] * patches),
                (channels, image, patches),
                (ys.len(), rows.stride * columns.input, columns.output),
                (xs.len(), columns.stride, 1),
            ]
            .map(|(size, from, to)| Axis {
                size,
                from: from as isize,
                to: to as isize,
            });
            let from = first_y * columns.input + first_x;
            let to = tap * channels * patches + ys.start * columns.output + xs.start;
            Some(CopyPlan::new(axes, from as isize, to as isize))
        };
        let plans = (0..rows.taps * columns.taps).filter_map(plan).collect();
        over_zeros(cx.element_type(0), plans)
    }
}
