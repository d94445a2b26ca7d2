//! Builds graphs in memory: for tests, and for programs that have no file.

use crate::diagnostic::{Diagnostic, SourceFile};
use crate::element::ElementType;
use crate::graph::{Body, Edge, Graph, Layer, OutputRef, Parts, Port};
use crate::weights::Weights;
use std::sync::Arc;

/// Collects layers and weights into a [`Graph`].
///
/// ```
/// # use irrun_ir::{ElementType::*, GraphBuilder};
/// let mut g = GraphBuilder::new("roll");
/// let x = g.parameter("x", F32, "2,3");
/// let shift = g.constant(I64, &[1], &1i64.to_le_bytes());
/// let axes = g.constant(I64, &[1], &0i64.to_le_bytes());
/// let y = g.layer("Roll", "opset7").inputs(&[x, shift, axes]).output();
/// g.result("y", y);
/// assert_eq!(g.finish().unwrap().results().len(), 1);
/// ```
#[derive(Debug, Default)]
pub struct GraphBuilder {
    parts: Parts,
    weights: Vec<u8>,
}

impl GraphBuilder {
    /// An empty graph.
    pub fn new(name: &str) -> GraphBuilder {
        let parts = Parts { name: name.to_owned(), ..Parts::default() };
        GraphBuilder { parts, weights: Vec::new() }
    }

    /// Starts a layer; [`LayerBuilder::outputs`] or [`LayerBuilder::output`] adds it.
    pub fn layer(&mut self, op_type: &str, version: &str) -> LayerBuilder<'_> {
        let id = count(self.parts.layers.len());
        let layer = Layer {
            id,
            name: format!("{op_type}_{id}"),
            op_type: op_type.to_owned(),
            version: version.to_owned(),
            ..Layer::default()
        };
        LayerBuilder { graph: self, layer, inputs: Vec::new() }
    }

    /// An input of the graph; `shape` is partial-shape text such as `1,3..8,?`.
    pub fn parameter(&mut self, name: &str, element_type: ElementType, shape: &str) -> OutputRef {
        self.layer("Parameter", "opset1")
            .name(name)
            .attribute("shape", shape)
            .attribute("element_type", element_type.name())
            .output()
    }

    /// A constant with the given little-endian, packed bytes.
    pub fn constant(&mut self, element_type: ElementType, dims: &[u64], bytes: &[u8]) -> OutputRef {
        let offset = self.weights.len().to_string();
        self.weights.extend_from_slice(bytes);
        let dims: Vec<String> = dims.iter().map(u64::to_string).collect();
        self.layer("Const", "opset1")
            .attribute("element_type", element_type.name())
            .attribute("shape", &dims.join(","))
            .attribute("offset", &offset)
            .attribute("size", &bytes.len().to_string())
            .output()
    }

    /// A one-dimensional i64 constant.
    pub fn constant_i64(&mut self, values: &[i64]) -> OutputRef {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.constant(ElementType::I64, &[count(values.len())], &bytes)
    }

    /// An f32 constant.
    pub fn constant_f32(&mut self, dims: &[u64], values: &[f32]) -> OutputRef {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.constant(ElementType::F32, dims, &bytes)
    }

    /// An output of the graph.
    pub fn result(&mut self, name: &str, from: OutputRef) {
        self.layer("Result", "opset1").name(name).inputs(&[from]).outputs(0);
    }

    /// Resolves the edges.
    ///
    /// # Errors
    /// As [`Graph::assemble`].
    pub fn finish(self) -> Result<Graph, Vec<Diagnostic>> {
        let weights = Arc::new(Weights::from_bytes(self.weights));
        Graph::assemble(self.parts, weights, Arc::new(SourceFile::default()))
    }
}

/// A layer that is being described.
#[derive(Debug)]
pub struct LayerBuilder<'g> {
    graph: &'g mut GraphBuilder,
    layer: Layer,
    inputs: Vec<OutputRef>,
}

impl LayerBuilder<'_> {
    /// Sets the friendly name.
    pub fn name(mut self, name: &str) -> Self {
        self.layer.name = name.to_owned();
        self
    }

    /// Adds an attribute of `<data>`.
    pub fn attribute(mut self, name: &str, value: &str) -> Self {
        self.layer.data.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Adds several attributes of `<data>`.
    pub fn attributes(mut self, attributes: &[(&str, &str)]) -> Self {
        for (name, value) in attributes {
            self = self.attribute(name, value);
        }
        self
    }

    /// Connects the inputs, in order.
    pub fn inputs(mut self, inputs: &[OutputRef]) -> Self {
        self.inputs = inputs.to_vec();
        self
    }

    /// Adds a body. Its weights must be those of this graph.
    pub fn body(mut self, body: Body) -> Self {
        self.layer.bodies.push(Body { graph: body.graph.into_body(), ..body });
        self
    }

    /// Adds the layer with one output of undeclared type and shape.
    pub fn output(self) -> OutputRef {
        let layer = self.graph.parts.layers.len();
        self.outputs(1);
        OutputRef { layer, port: 0 }
    }

    /// Adds the layer with `outputs` outputs of undeclared type and shape.
    pub fn outputs(self, outputs: usize) -> Vec<OutputRef> {
        let LayerBuilder { graph, mut layer, inputs } = self;
        let position = graph.parts.layers.len();
        for (slot, from) in inputs.iter().enumerate() {
            let Some(producer) = graph.parts.layers.get(from.layer) else { continue };
            let from_port = producer.outputs.get(from.port).map_or(u64::MAX, |p| p.id);
            let edge = Edge {
                from_layer: producer.id,
                from_port,
                to_layer: layer.id,
                to_port: count(slot),
                ..Edge::default()
            };
            layer.inputs.push(Port { id: count(slot), ..Port::default() });
            graph.parts.edges.push(edge);
        }
        for port in 0..outputs {
            let precision = Some(ElementType::Dynamic);
            let id = count(inputs.len() + port);
            layer.outputs.push(Port { id, precision, ..Port::default() });
        }
        graph.parts.layers.push(layer);
        (0..outputs).map(|port| OutputRef { layer: position, port }).collect()
    }
}

/// A count in the type of the format's ids. No collection in memory exceeds 64 bits.
fn count(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}
