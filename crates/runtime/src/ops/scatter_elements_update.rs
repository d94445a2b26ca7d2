//! ScatterElementsUpdate: in place where nothing else needs the data.

use super::scatter::{Method, Scatter};
use crate::prelude::*;
use infer::ops::scatter_elements_update::ScatterElementsUpdate;
use infer::rules::axes;
use kernels::indices::along;

impl Lower for ScatterElementsUpdate {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let (data, sizes) = (Sizes::from(cx.sizes(0)), Sizes::from(cx.sizes(1)));
        let axis = axes::normalize(cx.int(3)?, data.len())?;
        let positions = move |cx: &RunCx<'_>| {
            Ok(along(cx.threads(), &data, axis, &sizes, cx.indices(1, data[axis])?))
        };
        let method = Method::new(self.reduction(), self.use_init_val());
        Scatter { positions, inner: 1, method }.kernel(cx.element_type(0))
    }
}
