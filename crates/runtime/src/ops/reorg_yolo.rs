//! ReorgYolo-1: one strided copy per offset in a block.

use crate::kernel::Copy;
use crate::kernel::movement::movement;
use crate::prelude::*;
use infer::ops::reorg_yolo::ReorgYolo;
use kernels::copy::{Axis, CopyPlan};

impl Lower for ReorgYolo {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let &[batch, channels, height, width] = cx.sizes(0) else {
            return Err(RuleError::at(0, "must have rank 4").into());
        };
        let stride = self.stride() as usize;
        let planes = (channels / (stride * stride)).max(1);
        let signed = |n: usize| n as isize;
        let (from_line, from_plane) = (width * stride, height * width * stride * stride);
        // In the order of the axes of the input. If the block area does not divide the channels,
        // the remaining channels continue past the block.
        let copy = |offset: usize| {
            let count = planes.min(channels - offset * planes);
            let axes = [
                (batch, planes * from_plane, channels * height * width),
                (count, from_plane, height * width),
                (height, from_line * stride, width),
                (width, stride, 1),
            ];
            let axes =
                axes.map(|(size, from, to)| Axis { size, from: signed(from), to: signed(to) });
            let from = offset / stride * from_line + offset % stride;
            let to = offset * planes * height * width;
            Copy { input: 0, output: 0, plan: CopyPlan::new(axes, signed(from), signed(to)) }
        };
        let offsets = if cx.count(0) == 0 { 0 } else { channels.div_ceil(planes) };
        let copies = (0..offsets).map(copy).collect();
        movement(cx.element_type(0), 1, copies)
    }
}
