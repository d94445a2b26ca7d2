//! What files of these versions have besides layers and edges.

use crate::diagnostic::{Code, Diagnostic, SourceFile};
use crate::element::ElementType;
use crate::graph::{Layer, Parts, PortMap};
use crate::weights::Weights;
use std::collections::HashMap;
use std::sync::Arc;

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

/// An error about a layer as the file has it.
pub(super) fn error(layer: &Layer, version: u32, message: String) -> Diagnostic {
    let shown = Layer { version: version_name(version), ..layer.clone() };
    Diagnostic::error(Code::Attribute, layer.at, message).of(&shown)
}

/// What stands for the opset of a layer that has no rule.
pub(super) fn version_name(version: u32) -> String {
    format!("IR version {version}")
}
