//! Concat-1: each input is a run in every row of the output.

use crate::kernel::Copy;
use crate::kernel::movement::movement;
use crate::prelude::*;
use infer::ops::concat::Concat;
use kernels::copy::{CopyPlan, dense_strides};

impl Lower for Concat {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let out = cx.output_sizes(0)?;
        let axis = self.axis(out.len())?;
        let strides = dense_strides(out);
        let mut start = 0;
        let mut copies = Vec::new();
        for input in 0..cx.input_count() {
            let sizes = cx.sizes(input);
            let to = start as isize * strides[axis];
            start += sizes[axis];
            if cx.count(input) > 0 {
                copies.push(Copy {
                    input,
                    output: 0,
                    plan: CopyPlan::scatter(sizes, &strides, to),
                });
            }
        }
        movement(cx.element_type(0), 1, copies)
    }
}
