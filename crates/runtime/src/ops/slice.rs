//! Slice-8: one strided copy, or a view if the slice is contiguous.

use crate::kernel::Copy;
use crate::kernel::movement::movement;
use crate::prelude::*;
use infer::ops::slice::{Named, Slice, ranges};
use kernels::copy::{CopyPlan, dense_strides};

impl Lower for Slice {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let axes = if cx.input_count() == 5 { Some(cx.ints(4)?) } else { None };
        let (starts, stops, steps) = (cx.ints(1)?, cx.ints(2)?, cx.ints(3)?);
        let sizes = cx.sizes(0);
        let ranges = ranges(&starts, &stops, &steps, axes.as_deref(), sizes.len())?;
        let (out, strides, from) = strided(sizes, ranges);
        let plan = CopyPlan::gather(&out, &strides, from);
        movement(cx.element_type(0), 1, vec![Copy { input: 0, output: 0, plan }])
    }
}

/// Shape, strides and offset of a slice of a tensor.
pub(super) fn strided(sizes: &[usize], ranges: Named) -> (Sizes, Vec<isize>, isize) {
    let mut strides = dense_strides(sizes);
    let mut out = Sizes::from(sizes);
    let mut from = 0;
    for (axis, range) in ranges {
        let (first, count) = range.resolve(sizes[axis] as i64);
        from += if count > 0 { first as isize * strides[axis] } else { 0 };
        out[axis] = count as usize;
        // A single index makes no step, so the step must not overflow the stride.
        strides[axis] *= if count > 1 { range.step as isize } else { 1 };
    }
    (out, strides, from)
}
