//! ScatterElementsUpdate, in place if nothing else needs the data.

use super::scatter::{Method, Scatter, out_of_range};
use crate::prelude::*;
use infer::ops::scatter_elements_update::ScatterElementsUpdate;
use infer::rules::axes;
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
        Scatter { places, method }.kernel(cx.element_type(0))
    }
}
