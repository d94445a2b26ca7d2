//! Shared by the scatter operations: a copy of the data unless it can be overwritten, and updates
//! at positions computed from the indices.

use crate::kernel::lanes::Lanes;
use crate::prelude::*;
use crate::tensor::dispatch::with_type;
use infer::InputSet;
use infer::rules::scatter as rules;
use kernels::arithmetic::Arithmetic;
use kernels::indices::OutOfRange;
use kernels::num::{Bool, Pod, Stored};
use kernels::par::Threads;
use kernels::scatter::{Reduction, Runs, reduce, replace};
use kernels::scatter_indices::Places;
use std::marker::PhantomData;

/// Elements per thread when the data are copied.
const COPIED: usize = 64 << 10;

/// The data (input 0), copied to output 0 unless in place.
pub(super) fn data<'r, T: Pod>(cx: &mut RunCx<'r>) -> &'r mut [T] {
    if cx.is_in_place(0) {
        return cx.output(0);
    }
    let (from, to) = (cx.input::<T>(0), cx.output::<T>(0));
    copy(cx.threads(), from, to);
    to
}

fn copy<T: Pod>(threads: &Threads, from: &[T], to: &mut [T]) {
    threads.par_chunks_mut(to, 1, COPIED, |first, part| {
        part.copy_from_slice(&from[first..][..part.len()])
    });
}

/// The error of an out-of-range index in input 1.
pub(super) fn out_of_range(OutOfRange { index, size }: OutOfRange) -> KernelError {
    KernelError::at(1, format!("index {index} is out of range for an axis of {size}"))
}

/// How an update is combined with an element.
#[derive(Clone, Copy)]
pub(super) enum Method {
    /// It replaces the element.
    Replace,
    /// It is reduced with the other updates.
    Reduce {
        reduction: Reduction,
        /// Whether the old element takes part.
        with_old: bool,
    },
}

impl Method {
    pub(super) fn new(reduction: rules::Reduction, initial: bool) -> Method {
        let reduction = match reduction {
            rules::Reduction::None => return Method::Replace,
            rules::Reduction::Sum => Reduction::Sum,
            rules::Reduction::Sub => Reduction::Sub,
            rules::Reduction::Prod => Reduction::Prod,
            rules::Reduction::Min => Reduction::Min,
            rules::Reduction::Max => Reduction::Max,
            rules::Reduction::Mean => Reduction::Mean,
        };
        Method::Reduce { reduction, with_old: initial }
    }
}

/// Updates (input 2), and the function that computes their positions at run time.
pub(super) struct Scatter<F> {
    pub(super) places: F,
    pub(super) method: Method,
}

impl<F> Scatter<F>
where
    F: Fn(&RunCx<'_>) -> Result<Places, KernelError> + Send + Sync + 'static,
{
    /// The kernel for an element type.
    ///
    /// # Errors
    /// For types that do not have the reduction.
    pub(super) fn kernel(self, element_type: ElementType) -> Result<Box<dyn Kernel>, LowerError> {
        let refused = || LowerError::element_type(0, element_type);
        let Method::Reduce { reduction, with_old } = self.method else {
            return with_type!(element_type, size T => {
                Box::new(Replace::<T, F> { scatter: self, of: PhantomData }) as Box<dyn Kernel>
            })
            .ok_or_else(refused);
        };
        let how = (reduction, with_old);
        if element_type == ElementType::Boolean {
            return Ok(Box::new(Reduce { scatter: self, how, lanes: Lanes::of::<Bool>() }));
        }
        with_type!(element_type, number T => {
            Box::new(Reduce { scatter: self, how, lanes: Lanes::of::<T>() }) as Box<dyn Kernel>
        })
        .ok_or_else(refused)
    }
}

struct Replace<T, F> {
    scatter: Scatter<F>,
    of: PhantomData<T>,
}

impl<T: Pod, F> Kernel for Replace<T, F>
where
    F: Fn(&RunCx<'_>) -> Result<Places, KernelError> + Send + Sync,
{
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let places = &(self.scatter.places)(cx)?;
        let updates = cx.input(2);
        replace(cx.threads(), data::<T>(cx), Runs { places, updates });
        Ok(())
    }

    fn reuse(&self) -> Reuse {
        Reuse::InPlace(InputSet::one(0))
    }

    fn name(&self) -> &'static str {
        "scatter"
    }
}

struct Reduce<L, F> {
    scatter: Scatter<F>,
    how: (Reduction, bool),
    lanes: Lanes<L>,
}

impl<L: Stored, F> Kernel for Reduce<L, F>
where
    L::Wide: Arithmetic + Stored<Wide = L::Wide>,
    F: Fn(&RunCx<'_>) -> Result<Places, KernelError> + Send + Sync,
{
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let places = &(self.scatter.places)(cx)?;
        let (threads, updates) = (cx.threads(), self.lanes.input(cx, 2));
        let runs = Runs { places, updates: &updates };
        self.lanes.in_out(cx, 0, |io| {
            let data = match io.slices() {
                Err(data) => data,
                Ok((from, to)) => {
                    copy(threads, from, to);
                    to
                }
            };
            reduce(threads, data, runs, self.how);
        });
        Ok(())
    }

    fn reuse(&self) -> Reuse {
        self.lanes.reuse(0)
    }

    fn name(&self) -> &'static str {
        "scatter"
    }
}
