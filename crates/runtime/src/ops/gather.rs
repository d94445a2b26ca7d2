//! Gather, by element size. An out-of-range index gives zeros, as the specification says. One entry
//! with a known index is a slice.

use crate::kernel::Copy;
use crate::kernel::dispatch::kernel_for;
use crate::kernel::movement::movement;
use crate::prelude::*;
use infer::InputSet;
use infer::ops::gather::Gather;
use infer::rules::axes;
use kernels::copy::CopyPlan;
use kernels::gather::GatherPlan;
use kernels::indices::normal;
use kernels::num::{Pod, UnalignedF32};
use std::borrow::Cow;
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
        if let Some(plan) = one_entry(cx, plan) {
            return movement(cx.element_type(0), 1, vec![Copy { input: 0, output: 0, plan }]);
        }
        kernel(cx, plan, false)
    }
}

/// The kernel for the element type. With `hands_over` (a Gather of all entries of the first axis),
/// the input itself becomes the output if the indices are in order.
///
/// # Errors
/// For element types that are not whole bytes.
pub(crate) fn kernel(
    cx: &LowerCx<'_>,
    plan: GatherPlan,
    hands_over: bool,
) -> Result<Box<dyn Kernel>, LowerError> {
    // Tables of weights may lie anywhere in their file.
    match cx.element_type(0).byte_size() {
        Some(2) => Ok(Box::new(GatherKernel { plan, hands_over, of: PhantomData::<[u8; 2]> })),
        Some(4) => Ok(Box::new(GatherKernel { plan, hands_over, of: PhantomData::<UnalignedF32> })),
        _ => kernel_for!(cx, 0, size T => GatherKernel { plan, hands_over, of: PhantomData::<T> }),
    }
}

/// The copy of a single entry, if its index is known and in range.
fn one_entry(cx: &LowerCx<'_>, plan: GatherPlan) -> Option<CopyPlan> {
    let GatherPlan { batch: 1, outer, size, count: 1, inner } = plan else { return None };
    let &[index] = &cx.ints(1).ok()?[..] else { return None };
    let index = normal(index, size).ok()?;
    let sizes = [outer, inner];
    Some(CopyPlan::gather(&sizes, &[(size * inner) as isize, 1], (index * inner) as isize))
}

struct GatherKernel<T> {
    plan: GatherPlan,
    /// Whether the input may become the output.
    hands_over: bool,
    of: PhantomData<T>,
}

impl<T: Pod> Kernel for GatherKernel<T> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let given = cx.tensor(1);
        let mut widened;
        let indices: Cow<'_, [i64]> = match (given.as_slice::<i64>(), given.as_slice::<i32>()) {
            (Some(indices), _) => indices.into(),
            (_, Some(indices)) => {
                widened = cx.scratch::<i64>(indices.len());
                widened.iter_mut().zip(indices).for_each(|(to, i)| *to = (*i).into());
                widened[..].into()
            }
            _ => cx.ints(1).into(),
        };
        if self.hands_over {
            let size = self.plan.size;
            let wrap = |i: &i64| normal(*i, size).unwrap_or(size);
            if indices.iter().map(wrap).eq(0..size) {
                cx.provide(0, cx.tensor(0).clone());
                return Ok(());
            }
            cx.allocate(0, cx.sizes(0))?;
        }
        self.plan.run::<T>(cx.threads(), cx.input(0), &indices, cx.output(0));
        Ok(())
    }

    fn reuse(&self) -> Reuse {
        if self.hands_over { Reuse::Provides } else { Reuse::None }
    }

    fn accepts_unaligned(&self) -> InputSet {
        if align_of::<T>() == 1 { InputSet::one(0) } else { InputSet::NONE }
    }

    fn name(&self) -> &'static str {
        "gather"
    }
}
