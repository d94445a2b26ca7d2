//! f32 weights as f16, with a Convert behind each: half the file, and OpenVINO's own form of it.

use super::assemble;
use crate::statistics::Constant;
use half::f16;
use ir::{Diagnostics, Edge, Element, ElementType, Graph, Layer, Port};
use std::sync::Arc;

/// Fewest elements of a constant for which a Convert is worth it.
const FEWEST: usize = 16;

/// What has been done.
#[derive(Debug, Default)]
pub(crate) struct Compressed {
    /// Constants that are f16 now.
    pub constants: usize,
    /// Constants that have elements beyond what f16 holds.
    pub beyond: Vec<String>,
}

/// The same graph with its large f32 constants as f16, those of bodies too.
///
/// # Errors
/// What is wrong with the structure of a body.
pub(crate) fn compressed(graph: &Graph, done: &mut Compressed) -> Result<Graph, Diagnostics> {
    let mut all = graph.parts().clone();
    let mut next_id = all.layers.iter().map(|l| l.id).max().unwrap_or(0).saturating_add(1);
    let mut added = Vec::new();
    for layer in &mut all.layers {
        for body in &mut layer.bodies {
            body.graph = compressed(&body.graph, done)?;
        }
        let Some(bytes) = halves(graph, layer, done) else { continue };
        let Some(port) = layer.outputs.first_mut() else { continue };
        let (from, wide) = (layer.id, port.clone());
        port.precision = Some(ElementType::F16);
        port.names.clear();
        let converted = convert(next_id, &layer.name, &wide);
        let edges = all.edges.iter_mut().filter(|e| e.from_layer == from && e.from_port == wide.id);
        edges.for_each(|edge| (edge.from_layer, edge.from_port) = (converted.id, 1));
        let edge =
            Edge { from_layer: from, from_port: wide.id, to_layer: next_id, ..Edge::default() };
        all.edges.push(edge);
        layer.name = format!("{}_compressed", layer.name);
        set(layer, "element_type", ElementType::F16.name());
        set(layer, "offset", "0");
        set(layer, "size", &bytes.len().to_string());
        layer.bytes = Some(bytes.into());
        added.push(converted);
        next_id = next_id.saturating_add(1);
    }
    all.layers.extend(added);
    assemble(graph, all)
}

fn set(layer: &mut Layer, key: &str, value: &str) {
    let data = layer.data.iter_mut().filter(|(k, _)| k == key);
    data.for_each(|(_, old)| value.clone_into(old));
}

/// The elements of a constant as f16, if it is one to compress.
fn halves(graph: &Graph, layer: &Layer, done: &mut Compressed) -> Option<Vec<u8>> {
    let constant = Constant::of(graph, layer)?;
    if constant.element_type != ElementType::F32 || constant.elements < FEWEST {
        return None;
    }
    let mut bytes = Vec::with_capacity(constant.elements * 2);
    for chunk in constant.bytes().chunks_exact(4) {
        let value = f32::from_le_bytes(chunk.try_into().ok()?);
        let half = f16::from_f32(value);
        if half.is_infinite() && value.is_finite() {
            done.beyond.push(layer.name.clone());
            return None;
        }
        bytes.extend(half.to_le_bytes());
    }
    done.constants += 1;
    Some(bytes)
}

/// A Convert to f32, marked as OpenVINO marks what decompresses weights.
fn convert(id: u64, name: &str, wide: &Port) -> Layer {
    let attributes = vec![
        ("name".to_owned(), "decompression".to_owned()),
        ("version".to_owned(), "0".to_owned()),
    ];
    let mark = Element { name: "attribute".to_owned(), attributes, ..Element::default() };
    let rt_info =
        Element { name: "rt_info".to_owned(), children: vec![mark], ..Element::default() };
    let narrow = Port { precision: Some(ElementType::F16), names: Vec::new(), ..wide.clone() };
    Layer {
        id,
        name: name.to_owned(),
        op_type: "Convert".to_owned(),
        version: "opset1".to_owned(),
        data: vec![("destination_type".to_owned(), "f32".to_owned())],
        rt_info: Some(Box::new(rt_info)),
        inputs: vec![Port { id: 0, ..narrow }],
        outputs: vec![Port { id: 1, ..wide.clone() }],
        ..Layer::default()
    }
}

/// Bytes of constants, for a report.
pub(crate) fn weight_bytes(graph: &Graph) -> u64 {
    let own = |layer: &Layer| match &layer.bytes {
        Some(bytes) => u64::try_from(Arc::clone(bytes).len()).unwrap_or(u64::MAX),
        None => super::pack::range(layer).map_or(0, |(_, size)| size),
    };
    let inner = |layer: &Layer| layer.bodies.iter().map(|b| weight_bytes(&b.graph)).sum::<u64>();
    graph.layers().iter().map(|layer| own(layer).saturating_add(inner(layer))).sum()
}
