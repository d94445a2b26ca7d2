//! ScatterUpdate, in place if nothing else needs the data.

use super::scatter::{Method, Scatter, out_of_range};
use crate::prelude::*;
use infer::ops::scatter_update::ScatterUpdate;
use infer::rules::axes;
use kernels::scatter_indices::Places;
use kernels::slices::AlongAxis;

impl Lower for ScatterUpdate {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let data = cx.sizes(0);
        let axis = axes::normalize(cx.int(3)?, data.len())?;
        let along = AlongAxis::new(data, axis);
        let places = move |cx: &RunCx<'_>| {
            let indices = cx.wide_ints(1);
            // The specification does not allow negative indices here.
            if let Some(index) = indices.iter().find(|i| **i < 0) {
                return Err(KernelError::at(1, format!("index {index} is negative")));
            }
            Places::slices(cx.threads(), &indices, along).map_err(out_of_range)
        };
        Scatter { places, method: Method::Replace }.kernel(cx.element_type(0))
    }
}
