//! ScatterNDUpdate, in place if nothing else needs the data.

use super::scatter::{Method, Scatter, out_of_range};
use crate::prelude::*;
use infer::ops::scatter_nd_update::ScatterNdUpdate;
use kernels::indices::{Indices, Tuples};
use kernels::scatter_indices::Places;
use kernels::slices::AlongAxis;

impl Lower for ScatterNdUpdate {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let (data, indices) = (cx.sizes(0), cx.sizes(1));
        let (tuple, places) = indices.split_last().unwrap_or((&0, &[]));
        let count = places.iter().product();
        let (axes, slice) = data.split_at(*tuple);
        let (axes, inner) = (Sizes::from(axes), slice.iter().product());
        let places = move |cx: &RunCx<'_>| {
            let (threads, list) = (cx.threads(), cx.index_list(1));
            let places = match (&axes[..], list.indices()) {
                (&[size], Indices::I32(indices)) => {
                    Places::slices(threads, indices, AlongAxis { outer: 1, size, inner })
                }
                (&[size], Indices::I64(indices)) => {
                    Places::slices(threads, indices, AlongAxis { outer: 1, size, inner })
                }
                (sizes, indices) => Tuples { indices, sizes, inner }
                    .positions(threads, count)
                    .map(|positions| Places::at(&positions, inner)),
            };
            places.map_err(out_of_range)
        };
        let method = Method::new(self.reduction(), true);
        Scatter { places, method }.kernel(cx.element_type(0))
    }
}
