//! What a file declares of its ports, written anew from what is inferred.

use infer::{Dim, Fact, PartialShape};
use ir::{ElementType, Graph, Parts, Port};

/// Writes types and dims of all output ports, and of the input ports that they lead to. What is not
/// known stays as it was.
pub(crate) fn declare(parts: &mut Parts, graph: &Graph, facts: &infer::Facts) {
    for (position, layer) in graph.layers().iter().enumerate() {
        let Some(written) = parts.layers.iter_mut().find(|l| l.id == layer.id) else { continue };
        if let Some(node) = facts.node(position) {
            for (port, fact) in written.outputs.iter_mut().zip(&node.outputs) {
                set(port, fact);
            }
        }
        let sources = graph.inputs_of(position).iter().map(|source| facts.output(*source));
        for (port, fact) in written.inputs.iter_mut().zip(sources) {
            if let Some(fact) = fact {
                set(port, fact);
            }
        }
    }
}

/// Declares a port as a fact is.
pub(crate) fn set(port: &mut Port, fact: &Fact) {
    if fact.element_type.is_static() {
        port.precision = Some(fact.element_type);
    }
    if let Some(dims) = fact.shape.dims() {
        port.dims = dims.iter().map(|dim| dim.value().unwrap_or(-1)).collect();
    }
}

/// A shape as the attribute of a Parameter has it.
pub(crate) fn shape_text(shape: &PartialShape) -> String {
    shape.to_string().trim_start_matches('[').trim_end_matches(']').to_owned()
}

/// An output port of a type and a shape.
pub(crate) fn port(id: u64, fact: &Fact, names: Vec<String>) -> Port {
    let precision = Some(fact.element_type).filter(|t| t.is_static());
    let precision = precision.or(Some(ElementType::Dynamic));
    let dims = fact.shape.dims().unwrap_or_default();
    let size = |dim: &Dim| dim.value().unwrap_or(-1);
    Port { id, precision, dims: dims.iter().map(size).collect(), names, ..Port::default() }
}
