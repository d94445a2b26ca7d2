//! The content of an IR file: layers, ports, edges, bodies, and notes.

use crate::diagnostic::{ByteOffset, Diagnostic, SourceFile};
use crate::element::ElementType;
use crate::weights::Weights;
use smallvec::SmallVec;
use std::sync::Arc;

/// The versions of the format that are read and written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Version {
    /// Written by Model Optimizer, 2020 to 2021.
    V10,
    /// Written since 2022.
    #[default]
    V11,
}

impl Version {
    /// The number in `<net version="…">`.
    pub fn number(self) -> u32 {
        match self {
            Version::V10 => 10,
            Version::V11 => 11,
        }
    }
}

/// A graph as its file describes it. Layers are named by their index in [`Graph::layers`].
///
/// Two graphs are equal if their content is, wherever text and weights come from. Clones share
/// everything.
#[derive(Clone, Debug)]
pub struct Graph {
    pub(crate) parts: Arc<Parts>,
    pub(crate) links: Arc<Links>,
    pub(crate) weights: Arc<Weights>,
    pub(crate) source: Arc<SourceFile>,
    pub(crate) warnings: Arc<Vec<Diagnostic>>,
}

/// The content of a `<net>` or body element, before its edges are resolved.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Parts {
    /// The `name` of the net; empty for bodies.
    pub name: String,
    /// The version of the format.
    pub version: Version,
    /// The version of the file if it is one from 2 to 9; its layers have then been rewritten.
    pub legacy_version: Option<u32>,
    /// Whether it is the body of a layer; then no caller sees its inputs and outputs.
    pub is_body: bool,
    /// Layers in the order of the file.
    pub layers: Vec<Layer>,
    /// Edges in the order of the file.
    pub edges: Vec<Edge>,
    /// `rt_info`, `meta_data` and other elements next to the layers, kept as written.
    pub notes: Vec<Element>,
}

/// The edges of a graph as indices, and the resulting order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Links {
    pub(crate) inputs: Vec<SmallVec<[OutputRef; 3]>>,
    pub(crate) order: Vec<usize>,
    pub(crate) parameters: Vec<usize>,
    pub(crate) results: Vec<usize>,
}

/// One `<layer>`.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Layer {
    /// The id that edges use.
    pub id: u64,
    /// The friendly name.
    pub name: String,
    /// The operation type, as written.
    pub op_type: String,
    /// The opset, as written: `opset7`, `extension`, `mxnet` …
    pub version: String,
    /// Further attributes of the tag itself, such as `output_names`.
    pub tags: Vec<(String, String)>,
    /// The attributes of `<data>`.
    pub data: Vec<(String, String)>,
    /// Input ports; input `i` of the operation is the `i`-th port, whatever its id.
    pub inputs: Vec<Port>,
    /// Output ports.
    pub outputs: Vec<Port>,
    /// `<rt_info>` of the layer, kept as written.
    pub rt_info: Option<Box<Element>>,
    /// Bodies of TensorIterator, Loop and If.
    pub bodies: Vec<Body>,
    /// The bytes of a constant made by the reader, in place of a range of the `.bin`.
    pub bytes: Option<Arc<[u8]>>,
    /// The place of the layer.
    pub at: ByteOffset,
}

impl Layer {
    /// Whether the layer has this operation type, in any letter case, as in the format.
    pub fn is(&self, op_type: &str) -> bool {
        self.op_type.eq_ignore_ascii_case(op_type)
    }

    /// The value of a `<data>` attribute.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.data.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// `Roll "decoder/roll_3" (opset7, layer 41)`, as messages name a layer.
    pub fn title(&self) -> String {
        self.title_as(&self.op_type)
    }

    /// The same with another type, such as `MatMul+Add` for one kernel of two layers.
    pub fn title_as(&self, op_type: &str) -> String {
        format!("{op_type} \"{}\" ({}, layer {})", self.name, self.version, self.id)
    }
}

impl Diagnostic {
    /// Sets the layer that the finding concerns.
    pub fn of(self, layer: &Layer) -> Diagnostic {
        Diagnostic {
            layer: Some(layer.id),
            name_and_type: Some((layer.name.clone(), layer.op_type.clone())),
            subject: Some(layer.title()),
            ..self
        }
    }

    /// Adds the layer with the body that the finding is in.
    pub fn inside(mut self, layer: &Layer) -> Diagnostic {
        let subject = self.subject.take().unwrap_or_else(|| "a layer".to_owned());
        self.subject = Some(format!("{subject} in the body of {}", layer.title()));
        self
    }
}

/// One `<port>` of a layer.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Port {
    /// The label that edges use.
    pub id: u64,
    /// The declared element type. Known operations infer their own; see `irrun check`.
    pub precision: Option<ElementType>,
    /// The declared dims, -1 if not static; empty for scalars and unknown ranks.
    pub dims: SmallVec<[i64; 6]>,
    /// Tensor names.
    pub names: Vec<String>,
    /// `<rt_info>` of the port, kept as written.
    pub rt_info: Option<Box<Element>>,
    /// The place of the port.
    pub at: ByteOffset,
}

/// One `<edge>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Edge {
    /// Id of the producing layer.
    pub from_layer: u64,
    /// Label of its output port.
    pub from_port: u64,
    /// Id of the consuming layer.
    pub to_layer: u64,
    /// Label of its input port.
    pub to_port: u64,
    /// The place of the edge.
    pub at: ByteOffset,
}

/// Which body of its layer a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The body of a Loop or TensorIterator.
    Body,
    /// Run when an If's condition is true.
    Then,
    /// Run when it is false.
    Else,
}

/// A graph inside a layer, with the ports that connect it.
#[derive(Clone, Debug, PartialEq)]
pub struct Body {
    /// Which body this is.
    pub role: Role,
    /// The graph. It shares the weights of the graph around it.
    pub graph: Graph,
    /// How inputs of the layer reach Parameters of the body.
    pub inputs: Vec<PortMap>,
    /// How Results of the body become outputs of the layer.
    pub outputs: Vec<PortMap>,
    /// Results that feed Parameters of the next iteration: (Result, Parameter) layer ids.
    pub back_edges: Vec<(u64, u64)>,
}

/// One `<input>` or `<output>` of a `<port_map>`.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct PortMap {
    /// Port of the layer, or -1 for the iteration counter and the loop condition.
    pub external_port: i64,
    /// Id of the Parameter or Result in the body.
    pub internal_layer: u64,
    /// How the tensor is sliced (inputs) or concatenated (outputs) over the iterations.
    pub slice: Option<Slice>,
    /// `current_iteration` or `execution_condition`.
    pub purpose: Option<String>,
    /// The place of the entry.
    pub at: ByteOffset,
}

/// The slicing of a port over iterations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The axis that is sliced.
    pub axis: i64,
    /// First index; negative ones count from the end.
    pub start: i64,
    /// Last index, inclusive; -1 for the end.
    pub end: i64,
    /// Step; negative to go backwards.
    pub stride: i64,
    /// Indices per iteration.
    pub part_size: i64,
}

/// An XML element that is kept but not interpreted.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Element {
    /// The tag.
    pub name: String,
    /// The attributes, in order.
    pub attributes: Vec<(String, String)>,
    /// Child elements.
    pub children: Vec<Element>,
    /// Text content, unless it is blank.
    pub text: String,
}

impl Element {
    /// The value of an attribute.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// An output of a layer, by index rather than id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OutputRef {
    /// Index of the layer in [`Graph::layers`].
    pub layer: usize,
    /// Index of the port among the layer's outputs.
    pub port: usize,
}

impl Graph {
    /// The name of the net.
    pub fn name(&self) -> &str {
        &self.parts.name
    }

    /// The version of the format.
    pub fn version(&self) -> Version {
        self.parts.version
    }

    /// Its parts; a copy can be changed and assembled again.
    pub fn parts(&self) -> &Parts {
        &self.parts
    }

    /// The version of the file if it was one from 2 to 9, rewritten as version 10.
    pub fn legacy_version(&self) -> Option<u32> {
        self.parts.legacy_version
    }

    /// Whether it is the body of a layer.
    pub fn is_body(&self) -> bool {
        self.parts.is_body
    }

    /// The same graph, as the body of a layer.
    pub fn into_body(mut self) -> Graph {
        if !self.parts.is_body {
            Arc::make_mut(&mut self.parts).is_body = true;
        }
        self
    }

    /// Layers in the order of the file.
    pub fn layers(&self) -> &[Layer] {
        &self.parts.layers
    }

    /// Edges in the order of the file.
    pub fn edges(&self) -> &[Edge] {
        &self.parts.edges
    }

    /// `rt_info`, `meta_data` and the like.
    pub fn notes(&self) -> &[Element] {
        &self.parts.notes
    }

    /// The weights that constants refer to.
    pub fn weights(&self) -> &Arc<Weights> {
        &self.weights
    }

    /// The weights of a layer: those of the file, or its own.
    pub fn weights_of(&self, layer: &Layer) -> Arc<Weights> {
        match &layer.bytes {
            None => Arc::clone(&self.weights),
            Some(bytes) => Arc::new(Weights::from_bytes(bytes.to_vec())),
        }
    }

    /// The XML the graph came from.
    pub fn source(&self) -> &Arc<SourceFile> {
        &self.source
    }

    /// Warnings about the file, which do not stop it from running.
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.warnings
    }

    /// Indices of the Parameter layers, which are the inputs of the model, in order.
    pub fn parameters(&self) -> &[usize] {
        &self.links.parameters
    }

    /// Indices of the Result layers, which are the outputs of the model, in order.
    pub fn results(&self) -> &[usize] {
        &self.links.results
    }

    /// The layers that a Result or an Assign needs, producers before consumers. Other layers are
    /// never looked at.
    pub fn order(&self) -> &[usize] {
        &self.links.order
    }

    /// The source of each input port of a layer that is in [`Graph::order`].
    pub fn inputs_of(&self, layer: usize) -> &[OutputRef] {
        self.links.inputs.get(layer).map_or(&[], |v| v)
    }

    /// Index of the layer with this id.
    pub fn find(&self, id: u64) -> Option<usize> {
        self.layers().iter().position(|layer| layer.id == id)
    }
}

impl PartialEq for Graph {
    fn eq(&self, other: &Graph) -> bool {
        self.parts == other.parts
    }
}
