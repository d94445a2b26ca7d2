//! Unique: sorts, then gathers the first occurrences.

use crate::kernel::dispatch::kernel_for;
use crate::prelude::*;
use infer::ops::unique::Unique;
use infer::rules::axes;
use kernels::gather::GatherPlan;
use kernels::num::{Bool, Stored};
use kernels::order::Order;
use kernels::slices::AlongAxis;
use std::marker::PhantomData;

impl Lower for Unique {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let sizes = cx.sizes(0);
        let axis = match cx.input_count() {
            1 => None,
            _ => Some(axes::normalize(cx.int(1)?, sizes.len())?),
        };
        let along = match axis {
            None => AlongAxis { outer: 1, size: sizes.iter().product(), inner: 1 },
            Some(axis) => AlongAxis::new(sizes, axis),
        };
        let element_type = cx.element_type(0);
        let outputs = (1..cx.output_count()).map(|output| cx.output_type(output)).collect();
        let found = Found { along, axis, sorted: self.sorted(), outputs };
        if element_type == ElementType::Boolean {
            return Ok(Box::new(UniqueKernel::<Bool> { found, of: PhantomData }));
        }
        kernel_for!(cx, 0, number T => UniqueKernel::<T> { found, of: PhantomData })
    }
}

struct Found {
    /// The data, along the axis.
    along: AlongAxis,
    /// The axis; `None` if single elements are compared.
    axis: Option<usize>,
    sorted: bool,
    /// Element types of the outputs after the first.
    outputs: Vec<ElementType>,
}

struct UniqueKernel<T> {
    found: Found,
    of: PhantomData<T>,
}

impl<T: Stored> Kernel for UniqueKernel<T>
where
    T::Wide: Order,
{
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let Found { along, axis, sorted, .. } = self.found;
        let data = cx.input::<T>(0);
        let unique = kernels::unique::unique(data, along, sorted);
        let count = unique.first.len();
        let mut sizes: Sizes = cx.sizes(0).into();
        match axis {
            Some(axis) => sizes[axis] = count,
            None => sizes = smallvec::smallvec![count],
        }
        cx.allocate(0, &sizes)?;
        let AlongAxis { outer, size, inner } = along;
        let plan = GatherPlan { batch: 1, outer, size, count, inner };
        let first: Vec<i64> = unique.first.iter().map(|i| *i as i64).collect();
        plan.run(cx.threads(), data, &first, cx.output(0));
        let lists = [&unique.first, &unique.inverse, &unique.counts];
        for ((i, element_type), list) in self.found.outputs.iter().enumerate().zip(lists) {
            cx.allocate(i + 1, &[list.len()])?;
            match element_type {
                ElementType::I32 => write::<i32>(list, cx.output(i + 1)),
                _ => write::<i64>(list, cx.output(i + 1)),
            }
        }
        Ok(())
    }

    fn has_data_dependent_shapes(&self) -> bool {
        true
    }

    fn name(&self) -> &'static str {
        "unique"
    }
}

fn write<I: Stored>(from: &[usize], to: &mut [I]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = I::from_i64(*from as i64);
    }
}
