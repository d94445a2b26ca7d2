//! What files of these versions have besides layers and edges.

use crate::diagnostic::{Code, Diagnostic, SourceFile};
use crate::element::ElementType;
use crate::graph::{Layer, Parts, PortMap};
use crate::weights::Weights;
use std::collections::HashMap;
use std::sync::Arc;

/// A range of the `.bin` that a layer refers to.
#[derive(Clone, Debug)]
pub(crate) struct Blob {
    pub(crate) name: String,
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) precision: Option<String>,
}

/// A port map entry of a TensorIterator. It names a port of any layer of the body, not just an
/// Input.
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

/// What a layer of these versions has in addition.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extra {
    pub(crate) blobs: Vec<Blob>,
    pub(crate) body: Option<Parts>,
    pub(crate) inputs: Vec<BodyPort>,
    pub(crate) outputs: Vec<BodyPort>,
    pub(crate) back_edges: Vec<BackEdge>,
}

/// The extras of all layers, including those of bodies, by byte offset in the file.
pub(crate) type Extras = HashMap<usize, Extra>;

/// What rewriting needs in addition to the graph.
pub(crate) struct Model {
    pub(crate) version: u32,
    /// `<net precision="…">`, the default for layers without a precision.
    pub(crate) precision: Option<ElementType>,
    pub(crate) extras: Extras,
    pub(crate) weights: Arc<Weights>,
    pub(crate) source: Arc<SourceFile>,
}

/// An error about a layer, as it is in the file.
pub(super) fn error(layer: &Layer, version: u32, message: String) -> Diagnostic {
    let shown = Layer { version: version_name(version), ..layer.clone() };
    Diagnostic::error(Code::Attribute, layer.at, message).of(&shown)
}

/// The version string of a layer without a rule.
pub(super) fn version_name(version: u32) -> String {
    format!("IR version {version}")
}
