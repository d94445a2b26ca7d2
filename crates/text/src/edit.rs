//! Small edits of a graph before compilation.

use ir::{Diagnostics, Edge, ElementType, Graph, Layer, Parts, Port};
use std::sync::Arc;

/// An output to which layers can be connected: ids of layer and port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Output {
    layer: u64,
    port: u64,
}

/// A copy of a graph to which layers are added. Existing layers keep their indices.
pub(crate) struct GraphEdit<'g> {
    graph: &'g Graph,
    parts: Parts,
}

impl<'g> GraphEdit<'g> {
    pub(crate) fn new(graph: &'g Graph) -> GraphEdit<'g> {
        GraphEdit { graph, parts: graph.parts().clone() }
    }

    /// The source of an input of a layer.
    pub(crate) fn source(&self, layer: usize, input: usize) -> Option<Output> {
        let from = self.graph.inputs_of(layer).get(input)?;
        let producer = self.graph.layers().get(from.layer)?;
        Some(Output { layer: producer.id, port: producer.outputs.get(from.port)?.id })
    }

    /// Connects an input of a layer to another source.
    pub(crate) fn connect(&mut self, layer: usize, input: usize, from: Output) {
        let Some(own) = self.parts.layers.get(layer) else { return };
        let to = (Some(own.id), own.inputs.get(input).map(|port| port.id));
        let edges = self.parts.edges.iter_mut();
        for edge in edges.filter(|edge| (Some(edge.to_layer), Some(edge.to_port)) == to) {
            (edge.from_layer, edge.from_port) = (from.layer, from.port);
        }
    }

    /// Adds a constant; a scalar if `dims` is empty.
    pub(crate) fn constant(
        &mut self,
        element: ElementType,
        dims: &[usize],
        bytes: &[u8],
    ) -> Output {
        let shape: Vec<String> = dims.iter().map(usize::to_string).collect();
        let data = [
            ("element_type", element.name()),
            ("shape", &shape.join(",")),
            ("offset", "0"),
            ("size", &bytes.len().to_string()),
        ];
        let output = self.layer("Const", "opset1", &data, &[]);
        if let Some(layer) = self.parts.layers.last_mut() {
            layer.bytes = Some(Arc::from(bytes));
        }
        output
    }

    /// Adds a layer with one output, which layers such as Assign do not use.
    pub(crate) fn layer(
        &mut self,
        op_type: &str,
        version: &str,
        data: &[(&str, &str)],
        inputs: &[Output],
    ) -> Output {
        let id = self.parts.layers.iter().map(|layer| layer.id + 1).max().unwrap_or(0);
        let ports = 0..inputs.len() as u64;
        for (port, from) in ports.clone().zip(inputs) {
            let (from_layer, from_port) = (from.layer, from.port);
            let (to_layer, to_port) = (id, port);
            let edge = Edge { from_layer, from_port, to_layer, to_port, ..Edge::default() };
            self.parts.edges.push(edge);
        }
        let output = inputs.len() as u64;
        let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        let precision = Some(ElementType::Dynamic);
        self.parts.layers.push(Layer {
            id,
            name: format!("added_{op_type}_{id}"),
            op_type: op_type.to_owned(),
            version: version.to_owned(),
            data: data.iter().map(own).collect(),
            inputs: ports.map(|id| Port { id, ..Port::default() }).collect(),
            outputs: vec![Port { id: output, precision, ..Port::default() }],
            ..Layer::default()
        });
        Output { layer: id, port: output }
    }

    pub(crate) fn finish(self) -> Result<Graph, Diagnostics> {
        let source = Arc::clone(self.graph.source());
        let made =
            Graph::assemble(self.parts, Arc::clone(self.graph.weights()), Arc::clone(&source));
        made.map_err(|found| Diagnostics::new(source, found))
    }
}
