//! Reverse: a strided copy with negative strides.

use crate::kernel::Copy;
use crate::kernel::movement::movement;
use crate::prelude::*;
use infer::ops::reverse::Reverse;
use kernels::copy::{CopyPlan, dense_strides};

impl Lower for Reverse {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let sizes = cx.sizes(0);
        let mut strides = dense_strides(sizes);
        let mut from = 0;
        for (axis, reversed) in self.reversed(&cx.ints(1)?, sizes.len())?.into_iter().enumerate() {
            if reversed && sizes[axis] > 0 {
                from += (sizes[axis] - 1) as isize * strides[axis];
                strides[axis] = -strides[axis];
            }
        }
        let plan = CopyPlan::gather(sizes, &strides, from);
        movement(cx.element_type(0), 1, vec![Copy { input: 0, output: 0, plan }])
    }
}
