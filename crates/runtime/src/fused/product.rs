//! Matrix products and what is done to their elements.

use super::then::Then;
use crate::net::Made;
use crate::ops::matmul::{Float32, Shape};
use crate::prelude::*;
use std::sync::Arc;

/// A MatMul in f32: inputs are its operands, then those of the steps.
#[derive(Clone)]
pub(crate) struct Product {
    /// Whether each operand is read transposed.
    pub(crate) turned: (bool, bool),
    pub(crate) then: Vec<Then>,
    /// How A lies in its input, if not row by row.
    pub(crate) through: Option<Through>,
}

/// An operand that is read where it was before it was moved.
#[derive(Clone)]
pub(crate) struct Through {
    /// Its sizes.
    pub(crate) sizes: Sizes,
    /// For each row in turn its runs, as multiples of `run`.
    pub(crate) runs: Arc<[u32]>,
    /// Elements of a run.
    pub(crate) run: usize,
}

impl Made for Product {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let (turn_a, turn_b) = self.turned;
        let a = self.through.as_ref().map_or(cx.sizes(0), |t| &t.sizes);
        let shape = Shape::new(a, cx.sizes(1), turn_a, turn_b).rounded(cx.precision());
        let mut kernel = Float32::new(shape, cx, self.then.clone());
        kernel.through = self.through.clone();
        Ok(Box::new(kernel))
    }
}
