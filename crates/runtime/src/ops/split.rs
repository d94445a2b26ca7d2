//! Split-1, VariadicSplit-1: views along the outermost axis, else copies.

use crate::kernel::Copy;
use crate::kernel::movement::movement;
use crate::prelude::*;
use infer::ops::split::Split;
use infer::rules::axes;
use kernels::copy::{CopyPlan, dense_strides};

impl Lower for Split {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let sizes = cx.sizes(0);
        let axis = axes::normalize(cx.int(1)?, sizes.len())?;
        let lengths = if cx.input_count() == 3 { Some(cx.ints(2)?) } else { None };
        let parts = self.parts(sizes[axis], lengths.as_deref())?;
        let strides = dense_strides(sizes);
        let copy = |(output, (start, length)): (usize, (usize, usize))| {
            let mut out = Sizes::from(sizes);
            out[axis] = length;
            let from = start as isize * strides[axis];
            Copy { input: 0, output, plan: CopyPlan::gather(&out, &strides, from) }
        };
        let outputs = parts.len();
        movement(cx.element_type(0), outputs, parts.into_iter().enumerate().map(copy).collect())
    }
}
