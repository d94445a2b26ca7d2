//! Moving operations as strided copies from inputs to outputs.

use crate::error::KernelError;
use crate::kernel::lower::LowerError;
use crate::kernel::{Copy, Kernel, Movement, Reuse, RunCx, View};
use crate::tensor::dispatch::with_type;
use ir::ElementType;
use kernels::copy::{CopyPlan, run_all};
use kernels::num::Pod;
use smallvec::SmallVec;
use std::marker::PhantomData;

/// A kernel that runs copies which together write every element of every output. If each output is
/// a contiguous part of an input, it is a view and nothing is copied.
///
/// # Errors
/// For element types that are not whole bytes.
pub(crate) fn movement(
    element_type: ElementType,
    outputs: usize,
    copies: Vec<Copy>,
) -> Result<Box<dyn Kernel>, LowerError> {
    let size = element_type.byte_size();
    let size = size.ok_or_else(|| LowerError::element_type(0, element_type))?;
    if let Some(views) = views(size, outputs, &copies) {
        return Ok(Box::new(Views { views }));
    }
    with_type!(element_type, size T => {
        Box::new(Copies::<T> { copies, outputs, of: PhantomData }) as Box<dyn Kernel>
    })
    .ok_or_else(|| LowerError::element_type(0, element_type))
}

/// A kernel that runs copies from input 0 to output 0, over zeros.
///
/// # Errors
/// For element types that are not whole bytes.
pub(crate) fn over_zeros(
    element_type: ElementType,
    plans: Vec<CopyPlan>,
) -> Result<Box<dyn Kernel>, LowerError> {
    with_type!(element_type, size T => {
        Box::new(OverZeros::<T> { plans, of: PhantomData }) as Box<dyn Kernel>
    })
    .ok_or_else(|| LowerError::element_type(0, element_type))
}

fn views(size: usize, outputs: usize, copies: &[Copy]) -> Option<SmallVec<[View; 1]>> {
    let view = |output: usize| {
        let mut own = copies.iter().filter(|c| c.output == output);
        let (copy, None) = (own.next()?, own.next()) else { return None };
        let from = copy.plan.as_run()?;
        Some(View { input: copy.input, offset: from * size })
    };
    (0..outputs).map(view).collect()
}

struct Views {
    views: SmallVec<[View; 1]>,
}

impl Kernel for Views {
    fn run(&self, _cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        Ok(())
    }

    fn reuse(&self) -> Reuse {
        Reuse::Views(self.views.clone())
    }

    fn name(&self) -> &'static str {
        "view"
    }
}

struct Copies<T> {
    copies: Vec<Copy>,
    outputs: usize,
    of: PhantomData<T>,
}

impl<T: Pod> Kernel for Copies<T> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let threads = cx.threads();
        for output in 0..self.outputs {
            let to = cx.output::<T>(output);
            let own = self.copies.iter().filter(|c| c.output == output);
            let own: SmallVec<[_; 4]> = own.map(|c| (&c.plan, cx.input(c.input))).collect();
            run_all(threads, &own, to);
        }
        Ok(())
    }

    fn movement(&self) -> Option<Movement<'_>> {
        Some(Movement::Copies(&self.copies))
    }

    fn name(&self) -> &'static str {
        "copy"
    }
}

struct OverZeros<T> {
    plans: Vec<CopyPlan>,
    of: PhantomData<T>,
}

impl<T: Pod> Kernel for OverZeros<T> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let to = cx.output::<T>(0);
        to.fill(T::default());
        for plan in &self.plans {
            plan.run(cx.threads(), cx.input(0), to);
        }
        Ok(())
    }

    fn name(&self) -> &'static str {
        "copy over zeros"
    }
}
