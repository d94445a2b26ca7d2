//! Broadcast-1, Broadcast-3, Tile-1: strided copies with stride 0 along repeated axes.

use crate::kernel::Copy;
use crate::kernel::movement::movement;
use crate::prelude::*;
use infer::ops::broadcast::{Broadcast, Tile};
use kernels::copy::{Axis, CopyPlan, dense_strides};

impl Lower for Broadcast {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let (sizes, out) = (cx.sizes(0), cx.output_sizes(0)?);
        let explicit = if cx.input_count() == 3 { cx.ints(2).ok() } else { None };
        let mapping = self.mapping(sizes.len(), out.len(), explicit.as_deref())?;
        let dense = dense_strides(sizes);
        let mut strides = vec![0; out.len()];
        for (axis, target) in mapping.into_iter().enumerate() {
            strides[target] = if sizes[axis] == 1 { 0 } else { dense[axis] };
        }
        let plan = CopyPlan::gather(out, &strides, 0);
        movement(cx.element_type(0), 1, vec![Copy { input: 0, output: 0, plan }])
    }
}

impl Lower for Tile {
    /// Each axis is split in (repeats, size); repeats have stride 0 in the source.
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let (sizes, out) = (cx.sizes(0), cx.output_sizes(0)?);
        let (dense, to) = (dense_strides(sizes), dense_strides(out));
        let missing = out.len() - sizes.len();
        let mut axes = Vec::new();
        for (axis, &total) in out.iter().enumerate() {
            let size = axis.checked_sub(missing).map_or(1, |i| sizes[i]);
            let from = axis.checked_sub(missing).map_or(0, |i| dense[i]);
            let repeats = total.checked_div(size).unwrap_or(0);
            axes.push(Axis { size: repeats, from: 0, to: to[axis] * size as isize });
            axes.push(Axis { size, from, to: to[axis] });
        }
        let plan = CopyPlan::new(axes, 0, 0);
        movement(cx.element_type(0), 1, vec![Copy { input: 0, output: 0, plan }])
    }
}
