//! EmbeddingBag and EmbeddingSegments: all forms of bags become runs of indices.

use super::segment_max::starts;
use crate::kernel::dispatch::kernel_for;
use crate::prelude::*;
use infer::ops::embedding_bag::{EmbeddingBag, Kind};
use kernels::num::Stored;
use kernels::reduce::Scale;
use kernels::reduce::segment::Bags;
use std::marker::PhantomData;

impl Lower for EmbeddingBag {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let bag = Bag {
            kind: self.kind(),
            mean: self.mean(),
            bags: cx.output_sizes(0)?.first().copied().unwrap_or(0),
            default: self.default_index().filter(|input| *input < cx.input_count()),
            weights: Some(self.weights()).filter(|input| *input < cx.input_count()),
        };
        kernel_for!(cx, 0, number T => BagKernel::<T> { bag, of: PhantomData })
    }
}

struct Bag {
    kind: Kind,
    mean: bool,
    /// Number of bags.
    bags: usize,
    /// The input with the index of the row for empty bags.
    default: Option<usize>,
    /// The input with weights.
    weights: Option<usize>,
}

impl Bag {
    /// The start of each bag in the indices, and the end of the last.
    fn starts(&self, cx: &RunCx<'_>) -> Result<Vec<usize>, KernelError> {
        match self.kind {
            Kind::OffsetsSum | Kind::Offsets => {
                let count = cx.tensor(1).count();
                let mut starts = within(cx, 2, count + 1)?;
                starts.push(count);
                if !starts.is_sorted() {
                    return Err(KernelError::at(2, "must be sorted"));
                }
                Ok(starts)
            }
            Kind::PackedSum | Kind::Packed => {
                let each = cx.sizes(1).last().copied().unwrap_or(0);
                Ok((0..=self.bags).map(|bag| bag * each).collect())
            }
            Kind::SegmentsSum => starts(2, &cx.ints(2), self.bags),
        }
    }
}

struct BagKernel<T> {
    bag: Bag,
    of: PhantomData<T>,
}

impl<T: Stored> Kernel for BagKernel<T>
where
    T::Wide: Scale,
{
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let out = cx.output::<T>(0);
        if out.is_empty() {
            return Ok(());
        }
        let (rows, inner) = match cx.sizes(0) {
            [rows, inner @ ..] => (*rows, inner.iter().product()),
            [] => (0, 1),
        };
        let default = match self.bag.default {
            Some(input) if cx.ints(input) != [-1] => within(cx, input, rows)?.first().copied(),
            _ => None,
        };
        let bags = Bags {
            table: cx.input(0),
            inner,
            entries: &within(cx, 1, rows)?,
            weights: self.bag.weights.map(|input| cx.input(input)),
            starts: &self.bag.starts(cx)?,
            default,
            mean: self.bag.mean,
        };
        bags.run(cx.threads(), out);
        Ok(())
    }

    fn name(&self) -> &'static str {
        "embedding bag"
    }
}

/// The values of an input, each within `0..limit`.
fn within(cx: &RunCx<'_>, input: usize, limit: usize) -> Result<Vec<usize>, KernelError> {
    let check = |i: i64| {
        let index = usize::try_from(i).ok().filter(|i| *i < limit);
        index.ok_or_else(|| KernelError::at(input, format!("{i} is not below {limit}")))
    };
    cx.ints(input).into_iter().map(check).collect()
}
