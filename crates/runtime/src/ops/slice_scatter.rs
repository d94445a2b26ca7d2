//! SliceScatter: one strided copy into the data, in place if nothing else needs them.

use super::{scatter, slice};
use crate::kernel::dispatch::kernel_for;
use crate::prelude::*;
use infer::ops::slice_scatter::SliceScatter;
use infer::{InputSet, PartialShape};
use kernels::copy::CopyPlan;
use kernels::num::Pod;
use std::marker::PhantomData;

impl Lower for SliceScatter {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let axes = if cx.input_count() == 6 { Some(cx.ints(5)?) } else { None };
        let (starts, stops, steps) = (cx.ints(2)?, cx.ints(3)?, cx.ints(4)?);
        let (sizes, lists) = (cx.sizes(0), [&starts[..], &stops, &steps]);
        let ranges = self.ranges(lists, axes.as_deref(), sizes.len())?;
        let (slice, strides, to) = slice::strided(sizes, ranges);
        // If the slice was not known before, its shape has not been compared with the updates yet.
        self.check(&PartialShape::fixed(cx.sizes(1)), &PartialShape::fixed(&slice))?;
        let plan = CopyPlan::scatter(&slice, &strides, to);
        kernel_for!(cx, 0, size T => SliceScatterKernel::<T> { plan, of: PhantomData })
    }
}

struct SliceScatterKernel<T> {
    plan: CopyPlan,
    of: PhantomData<T>,
}

impl<T: Pod> Kernel for SliceScatterKernel<T> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        self.plan.run(cx.threads(), cx.input::<T>(1), scatter::data(cx));
        Ok(())
    }

    fn reuse(&self) -> Reuse {
        Reuse::InPlace(InputSet::one(0))
    }

    fn name(&self) -> &'static str {
        "scatter"
    }
}
