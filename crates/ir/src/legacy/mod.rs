//! Reads IR versions 2 to 9, which Model Optimizer wrote until 2020, as graphs of version 10.
//!
//! Layers of these versions contain their weights (`<blobs>`), have attributes in place of constant
//! inputs, declare every shape, and need neither Parameter nor Result. [`table`] lists the
//! operation types with a rule for each. A rule replaces a layer by layers of current opsets. The
//! last of these keeps the id, the name, the ports and their declared dims, so that `irrun check`
//! compares the inferred shapes with those of Model Optimizer.
//!
//! Rules follow the inference engine of 2018 to 2020. A type without a rule is kept, with its IR
//! version as its opset, which no operation has.

mod detection;
mod elementwise;
mod iterator;
mod layer;
mod matmul;
mod model;
mod normalize;
mod recurrent;
mod rewrite;
mod shape;
mod table;
mod window;

use crate::diagnostic::Diagnostic;
use crate::graph::Parts;
use rewrite::Rewrite;

pub(crate) use model::{BackEdge, Blob, BodyPort, Extra, Extras, Model};

/// The versions that are read so.
pub(crate) const VERSIONS: std::ops::RangeInclusive<u32> = 2..=9;

/// Puts layers of today's opsets in place of those of `parts`. Returns what is wrong with them.
pub(crate) fn lower(parts: &mut Parts, model: &Model) -> Vec<Diagnostic> {
    let layers = std::mem::take(&mut parts.layers);
    let edges = std::mem::take(&mut parts.edges);
    let mut rewrite = Rewrite::new(model, &layers, &edges, model.precision, table::apply);
    rewrite.layers_in_order();
    rewrite.results();
    let diagnostics;
    (parts.layers, parts.edges, diagnostics) = rewrite.finish();
    diagnostics
}
