//! IR versions 2 to 9, which Model Optimizer wrote until 2020, made a graph of version 10.
//!
//! Their layers hold weights themselves (`<blobs>`), have attributes in place of constant inputs,
//! declare every shape, and need neither Parameter nor Result. [`table`] lists the operation types
//! and the rule of each; a rule puts layers of today's opsets in place of a layer. The last of
//! them keeps its id, its name, its ports and their declared dims, so that `irrun check` compares
//! what is inferred with what Model Optimizer wrote.
//!
//! Rules follow the inference engine of 2018 to 2020. A type without a rule stays as it is, with
//! its IR version as its opset, which no operation has.

mod detection;
mod elementwise;
mod iterator;
mod layer;
mod matmul;
mod normalize;
mod recurrent;
mod rewrite;
mod shape;
mod table;
mod window;

use crate::diagnostic::{Code, Diagnostic, SourceFile};
use crate::element::ElementType;
use crate::graph::{Layer, Parts, PortMap};
use crate::weights::Weights;
use rewrite::Rewrite;
use std::collections::HashMap;
use std::sync::Arc;

/// The versions that are read so.
pub(crate) const VERSIONS: std::ops::RangeInclusive<u32> = 2..=9;

/// A range of the `.bin` that a layer names.
#[derive(Clone, Debug)]
pub(crate) struct Blob {
    pub(crate) name: String,
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) precision: Option<String>,
}

/// How a port of a TensorIterator reaches its body: a port of a layer, which need not be an Input.
#[derive(Clone, Debug, Default)]
pub(crate) struct BodyPort {
    pub(crate) map: PortMap,
    pub(crate) port: u64,
}

/// An edge from one iteration to the next: layers of the body and their ports.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BackEdge {
    pub(crate) from: (u64, u64),
    pub(crate) to: (u64, u64),
}

/// What a layer of these versions has besides what all layers have.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extra {
    pub(crate) blobs: Vec<Blob>,
    pub(crate) body: Option<Parts>,
    pub(crate) inputs: Vec<BodyPort>,
    pub(crate) outputs: Vec<BodyPort>,
    pub(crate) back_edges: Vec<BackEdge>,
}

/// The extras of all layers, those of bodies included, by where they stand in the file.
pub(crate) type Extras = HashMap<usize, Extra>;

/// What rewriting needs besides the graph.
pub(crate) struct Model {
    pub(crate) version: u32,
    /// `<net precision="…">`, for layers that have none.
    pub(crate) precision: Option<ElementType>,
    pub(crate) extras: Extras,
    pub(crate) weights: Arc<Weights>,
    pub(crate) source: Arc<SourceFile>,
}

/// Puts layers of today's opsets in place of those of `parts`. Returns what is wrong with them.
pub(crate) fn lower(parts: &mut Parts, model: &Model) -> Vec<Diagnostic> {
    let layers = std::mem::take(&mut parts.layers);
    let edges = std::mem::take(&mut parts.edges);
    let mut rewrite = Rewrite::new(model, &layers, &edges, model.precision);
    rewrite.layers_in_order();
    rewrite.results();
    let diagnostics;
    (parts.layers, parts.edges, diagnostics) = rewrite.finish();
    diagnostics
}

/// An error about a layer as the file has it.
fn error(layer: &Layer, version: u32, message: String) -> Diagnostic {
    let shown = Layer { version: version_name(version), ..layer.clone() };
    Diagnostic::error(Code::Attribute, layer.at, message).of(&shown)
}

/// What stands for the opset of a layer that has no rule.
fn version_name(version: u32) -> String {
    format!("IR version {version}")
}
