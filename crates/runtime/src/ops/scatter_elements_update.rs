//! ScatterElementsUpdate, in place if nothing else needs the data.

use super::scatter::{Method, Scatter, data, out_of_range};
use crate::prelude::*;
use crate::tensor::dispatch::with_type;
use infer::ops::scatter_elements_update::ScatterElementsUpdate;
use infer::rules::axes;
use kernels::arithmetic::Arithmetic;
use kernels::num::{Pod, Stored};
use kernels::par::Threads;
use kernels::scatter::Reduction;
use kernels::scatter_elements::Elements;
use kernels::scatter_indices::Places;

impl Lower for ScatterElementsUpdate {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let (data, sizes) = (Sizes::from(cx.sizes(0)), Sizes::from(cx.sizes(1)));
        let axis = axes::normalize(cx.int(3)?, data.len())?;
        let places = move |cx: &RunCx<'_>| {
            let (threads, to) = (cx.threads(), (&data[..], axis));
            let places = match cx.tensor(1).as_slice::<i32>() {
                Some(indices) => Places::along(threads, to, &sizes, indices),
                None => Places::along(threads, to, &sizes, &cx.wide_ints(1)),
            };
            places.map_err(out_of_range)
        };
        let method = Method::new(self.reduction(), self.use_init_val());
        let element_type = cx.element_type(0);
        let runs = Scatter { places, method }.kernel(element_type)?;
        one_by_one(element_type, method, axis, runs)
    }
}

/// The kernel that follows indices in random order one by one, for the commonest ways to combine
/// elements, or `runs`.
fn one_by_one(
    element_type: ElementType,
    method: Method,
    axis: usize,
    runs: Box<dyn Kernel>,
) -> Result<Box<dyn Kernel>, LowerError> {
    use ElementType::{F32, I32};
    let kernel: Box<dyn Kernel> = match (method, element_type) {
        (Method::Replace, _) => {
            return with_type!(element_type, size T => {
                let write: Write<T> = |of, threads, to, from| of.replace(threads, to, from);
                Box::new(OneByOne { axis, write, runs }) as Box<dyn Kernel>
            })
            .ok_or_else(|| LowerError::element_type(0, element_type));
        }
        (Method::Reduce { reduction: Reduction::Sum, with_old: true }, F32) => {
            OneByOne::<f32>::sum(axis, runs)
        }
        (Method::Reduce { reduction: Reduction::Sum, with_old: true }, I32) => {
            OneByOne::<i32>::sum(axis, runs)
        }
        _ => runs,
    };
    Ok(kernel)
}

/// Writes updates of elements.
type Write<T> = fn(&Elements<'_>, &Threads, &mut [T], &[T]);

struct OneByOne<T> {
    axis: usize,
    write: Write<T>,
    /// For indices that name runs.
    runs: Box<dyn Kernel>,
}

impl<T: Stored> OneByOne<T>
where
    T::Wide: Arithmetic + Stored<Wide = T::Wide>,
{
    fn sum(axis: usize, runs: Box<dyn Kernel>) -> Box<dyn Kernel> {
        let write: Write<T> = |of, threads, to, from| of.add(threads, to, from);
        Box::new(OneByOne { axis, write, runs })
    }
}

impl<T: Pod> Kernel for OneByOne<T> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let list = cx.index_list(1);
        let (threads, of) = (cx.threads(), (cx.sizes(0), self.axis));
        match Elements::scattered(threads, of, cx.sizes(1), list.indices()).map_err(out_of_range)? {
            Some(elements) => {
                (self.write)(&elements, threads, data(cx), cx.input(2));
                Ok(())
            }
            None => self.runs.run(cx),
        }
    }

    fn reuse(&self) -> Reuse {
        self.runs.reuse()
    }

    fn name(&self) -> &'static str {
        self.runs.name()
    }
}
