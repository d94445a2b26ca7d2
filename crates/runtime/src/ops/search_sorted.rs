//! SearchSorted and Bucketize: binary search. Values and boundaries of different types are compared
//! in a type that holds both.

use crate::prelude::*;
use crate::tensor::Element as _;
use crate::tensor::convert::convert_tensor;
use crate::tensor::dispatch::with_type;
use infer::ops::search_sorted::{Bucketize, SearchSorted};
use kernels::num::Stored;
use kernels::order::Order;
use std::marker::PhantomData;

impl Lower for SearchSorted {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let rows = match cx.sizes(0) {
            [outer @ .., _] => outer.iter().product(),
            [] => 1,
        };
        let search = Search { sorted: 0, values: 1, rows, right: self.right() };
        kernel(search, cx.element_type(0), cx.output_type(0))
    }
}

impl Lower for Bucketize {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let common = match (cx.element_type(0), cx.element_type(1)) {
            (a, b) if a == b => a,
            (a, b) if [a, b].iter().any(|t| t.is_real() || *t == ElementType::U64) => {
                ElementType::F64
            }
            _ => ElementType::I64,
        };
        let search = Search { sorted: 1, values: 0, rows: 1, right: !self.with_right_bound() };
        kernel(search, common, cx.output_type(0))
    }
}

/// Which input is searched, and for which values.
struct Search {
    sorted: usize,
    values: usize,
    rows: usize,
    right: bool,
}

fn kernel(
    search: Search,
    common: ElementType,
    output: ElementType,
) -> Result<Box<dyn Kernel>, LowerError> {
    with_type!(common, number T => with_type!(output, index I => {
        type W = <T as Stored>::Wide;
        let (common, of) = (W::TYPE, PhantomData::<(W, I)>);
        Box::new(SearchKernel { search, common, of }) as Box<dyn Kernel>
    }))
    .flatten()
    .ok_or_else(|| LowerError::element_type(0, common))
}

struct SearchKernel<T, I> {
    search: Search,
    /// The wide type in which values are compared.
    common: ElementType,
    of: PhantomData<(T, I)>,
}

impl<T: Stored, I: Stored> Kernel for SearchKernel<T, I>
where
    T::Wide: Order,
{
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let Search { sorted, values, rows, right } = self.search;
        let common = |input: usize| {
            let tensor = convert_tensor(cx.tensor(input), self.common);
            tensor.map_err(|e| KernelError::at(input, e.to_string()))
        };
        let (sorted, values) = (common(sorted)?, common(values)?);
        let misplaced = || KernelError::new("an input is not aligned for its type");
        let sorted = (rows, sorted.cast::<T>().ok_or_else(misplaced)?);
        let values = values.cast::<T>().ok_or_else(misplaced)?;
        kernels::search_sorted::search::<T, I>(cx.threads(), sorted, values, right, cx.output(0));
        Ok(())
    }

    fn name(&self) -> &'static str {
        "search sorted"
    }
}
