//! GatherND: runs at positions given by tuples, batch by batch.

use super::scatter::out_of_range;
use crate::kernel::dispatch::kernel_for;
use crate::prelude::*;
use infer::ops::gather_nd::GatherNd;
use infer::rules::interval::positions;
use kernels::gather;
use kernels::indices::Tuples;
use kernels::num::Pod;
use std::marker::PhantomData;

impl Lower for GatherNd {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let (data, indices) = (cx.sizes(0), cx.sizes(1));
        let (tuple, places) = indices.split_last().unwrap_or((&0, &[]));
        let ((batch, data), (index_batch, places)) =
            (data.split_at(self.batch_dims()), places.split_at(self.batch_dims()));
        let repeated: Sizes =
            batch.iter().zip(index_batch).map(|(a, b)| if *a == 1 { *b } else { *a }).collect();
        let pair = |own: &[usize]| positions(&repeated, own).unwrap_or_default();
        let batches = pair(batch).into_iter().zip(pair(index_batch)).collect();
        let (axes, slice) = data.split_at(*tuple);
        let (axes, inner) = (Sizes::from(axes), slice.iter().product());
        let tuples = places.iter().product();
        kernel_for!(cx, 0, size T => {
            GatherNdKernel::<T> { batches, axes, tuples, inner, of: PhantomData }
        })
    }
}

struct GatherNdKernel<T> {
    /// For each batch its index in the data and in the indices.
    batches: Vec<(usize, usize)>,
    /// The sizes of the axes that a tuple indexes.
    axes: Sizes,
    /// Tuples per batch.
    tuples: usize,
    inner: usize,
    of: PhantomData<T>,
}

impl<T: Pod> Kernel for GatherNdKernel<T> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let list = cx.index_list(1);
        let (sizes, inner) = (&self.axes[..], self.inner);
        let size = sizes.iter().product::<usize>() * inner;
        let (tuples, slices) = (self.tuples * sizes.len(), self.tuples * inner);
        let (threads, data, out) = (cx.threads(), cx.input::<T>(0), cx.output::<T>(0));
        for (i, (from, batch)) in self.batches.iter().enumerate() {
            let indices = list.indices().part(batch * tuples..(batch + 1) * tuples);
            let (data, out) = (&data[from * size..][..size], &mut out[i * slices..][..slices]);
            let of = Tuples { indices, sizes, inner };
            gather::tuples(threads, data, of, out).map_err(out_of_range)?;
        }
        Ok(())
    }

    fn name(&self) -> &'static str {
        "gather"
    }
}
