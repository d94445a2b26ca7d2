//! StridedSlice-1: one strided copy, or a view if the slice is contiguous.

use crate::kernel::Copy;
use crate::kernel::movement::movement;
use crate::prelude::*;
use infer::ops::strided_slice::{Step, StridedSlice};
use kernels::copy::{CopyPlan, dense_strides};

impl Lower for StridedSlice {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let list = |input: usize| -> Result<Vec<Option<i64>>, LowerError> {
            Ok(cx.ints(input)?.into_iter().map(Some).collect())
        };
        let strides = if cx.input_count() == 4 { Some(list(3)?) } else { None };
        let sizes = cx.sizes(0);
        let steps = self.steps(&list(1)?, &list(2)?, strides.as_deref(), sizes.len())?;
        let dense = dense_strides(sizes);
        let (mut out, mut strides) = (Sizes::new(), Vec::new());
        let (mut from, mut axis) = (0, 0);
        for step in steps {
            if step == Step::New {
                out.push(1);
                strides.push(0);
                continue;
            }
            let size = sizes[axis] as i64;
            match step {
                Step::Shrink(index) => {
                    let index = index.unwrap_or(0);
                    let index = if index < 0 { index + size } else { index };
                    if !(0..size).contains(&index) {
                        let message =
                            format!("index {index} is out of range for an axis of {size}");
                        return Err(RuleError::at(1, message).into());
                    }
                    from += index as isize * dense[axis];
                }
                Step::Slice(Some(range)) => {
                    let (first, count) = range.resolve(size);
                    from += if count > 0 { first as isize * dense[axis] } else { 0 };
                    out.push(count as usize);
                    strides.push(dense[axis] * if count > 1 { range.step as isize } else { 1 });
                }
                _ => {
                    out.push(sizes[axis]);
                    strides.push(dense[axis]);
                }
            }
            axis += 1;
        }
        let plan = CopyPlan::gather(&out, &strides, from);
        movement(cx.element_type(0), 1, vec![Copy { input: 0, output: 0, plan }])
    }
}
