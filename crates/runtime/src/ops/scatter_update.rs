//! ScatterUpdate: in place where nothing else needs the data.

use super::scatter::{Method, Scatter};
use crate::prelude::*;
use infer::ops::scatter_update::ScatterUpdate;
use infer::rules::axes;

impl Lower for ScatterUpdate {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let data = cx.sizes(0);
        let axis = axes::normalize(cx.int(3)?, data.len())?;
        let size = data[axis];
        let outer: usize = data[..axis].iter().product();
        let inner: usize = data[axis + 1..].iter().product();
        let positions = move |cx: &RunCx<'_>| {
            // The specification has no negative indices here.
            if let Some(index) = cx.ints(1).into_iter().find(|i| *i < 0) {
                return Err(KernelError::at(1, format!("index {index} is negative")));
            }
            let indices = cx.indices(1, size)?;
            let slices = (0..outer).flat_map(|i| indices.iter().map(move |j| i * size + j));
            Ok(slices.map(|slice| slice * inner).collect())
        };
        Scatter { positions, inner, method: Method::Replace }.kernel(cx.element_type(0))
    }
}
