//! Gather: by element size. An index out of range gives zeros, as the specification says.

use crate::dispatch::kernel_for;
use crate::prelude::*;
use infer::ops::gather::Gather;
use infer::rules::axes;
use kernels::gather::GatherPlan;
use kernels::num::{Loose, Plain};
use std::marker::PhantomData;

impl Lower for Gather {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let (data, indices) = (cx.sizes(0), cx.sizes(1));
        let axis = axes::normalize(cx.int(2)?, data.len())?;
        let batch = self.batch_dims(indices.len())?;
        let product = |sizes: &[usize]| sizes.iter().product();
        let plan = GatherPlan {
            batch: product(&data[..batch]),
            outer: product(&data[batch..axis]),
            size: data[axis],
            count: product(&indices[batch..]),
            inner: product(&data[axis + 1..]),
        };
        if cx.element_type(0).byte_size() == Some(size_of::<Loose>()) {
            return Ok(Box::new(GatherKernel::<Loose> { plan, of: PhantomData }));
        }
        kernel_for!(cx, 0, size T => GatherKernel::<T> { plan, of: PhantomData })
    }
}

struct GatherKernel<T> {
    plan: GatherPlan,
    of: PhantomData<T>,
}

impl<T: Plain> Kernel for GatherKernel<T> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let size = self.plan.size as i64;
        let wrap = |i: i64| usize::try_from(if i < 0 { i + size } else { i }).unwrap_or(usize::MAX);
        let indices: Vec<usize> = cx.wide_ints(1).iter().copied().map(wrap).collect();
        self.plan.run::<T>(cx.threads(), cx.input(0), &indices, cx.output(0));
        Ok(())
    }

    fn loose(&self) -> u64 {
        u64::from(align_of::<T>() == 1)
    }

    fn name(&self) -> &'static str {
        "gather"
    }
}
