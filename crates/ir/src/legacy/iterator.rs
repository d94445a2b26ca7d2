//! TensorIterator. Its body has neither Parameters nor Results: port maps and back edges name ports
//! of its layers, and an input that they name has no edge.

use super::layer::joined;
use super::model::{BodyPort, Extra};
use super::rewrite::{Cx, Made, Rewrite};
use crate::element::ElementType;
use crate::graph::{Body, Graph, Layer, Parts, PortMap, Role};
use std::collections::HashMap;
use std::sync::Arc;

/// A port of a layer of the body.
type Ids = (u64, u64);

pub(super) fn tensor_iterator(cx: &mut Cx<'_, '_>) -> Made {
    let extra = cx.old.extra.ok_or("it has no body")?;
    let body = extra.body.as_ref().ok_or("it has no body")?;
    let model = cx.out.model;
    let mut inside =
        Rewrite::new(model, &body.layers, &body.edges, Some(cx.real_type()), cx.out.apply);
    let types = input_types(cx, extra)?;
    let mut parameters = parameters(&mut inside, body, extra, &types)?;
    inside.layers_in_order();
    for layer in body.layers.iter().filter(|layer| layer.is("Input")) {
        parameters.extend(layer.outputs.iter().map(|port| ((layer.id, port.id), layer.id)));
    }
    let mut results = HashMap::new();
    let named = extra.outputs.iter().map(|port| (port.map.internal_layer, port.port));
    for ids in named.chain(extra.back_edges.iter().map(|edge| edge.from)) {
        let value = inside.value(ids.0, ids.1);
        let value =
            value.ok_or_else(|| format!("its body has no output {} of layer {}", ids.1, ids.0))?;
        results.entry(ids).or_insert_with(|| (inside.result(value), value.element_type));
    }
    let types_out: Vec<ElementType> = extra
        .outputs
        .iter()
        .filter_map(|port| Some(results.get(&(port.map.internal_layer, port.port))?.1))
        .collect();
    let parts = Parts { is_body: true, ..body.clone() };
    let (layers, edges, diagnostics) = inside.finish();
    cx.out.diagnostics.extend(diagnostics);
    let parts = Parts { layers, edges, ..parts };
    let graph = Graph::assemble(parts, Arc::clone(&model.weights), Arc::clone(&model.source));
    let graph = match graph {
        Ok(graph) => graph,
        Err(diagnostics) => {
            cx.out.diagnostics.extend(diagnostics);
            return Err("its body cannot be read".to_owned());
        }
    };
    let result_of = |ids: &Ids| results.get(ids).map(|found| found.0);
    let edge = |(from, to): (Ids, Ids)| Some((result_of(&from)?, *parameters.get(&to)?));
    let ports = Ports { layer: cx.old.layer };
    let body = Body {
        role: Role::Body,
        graph,
        inputs: ports.inputs(extra, |ids| parameters.get(ids).copied())?,
        outputs: ports.outputs(extra, result_of)?,
        back_edges: extra.back_edges.iter().filter_map(|e| edge((e.from, e.to))).collect(),
    };
    let inputs = (0..cx.inputs()).map(|i| cx.any(i)).collect::<Result<Vec<_>, _>>()?;
    let count = cx.old.layer.outputs.len();
    cx.ops("TensorIterator", "opset1", &[], &inputs, count);
    cx.out.give_body(body);
    let type_of = |port: usize| types_out.get(port).copied().unwrap_or(ElementType::Dynamic);
    Ok((0..count).map(|port| cx.port(port, type_of(port))).collect())
}

/// The type of each input that a port map names.
fn input_types(cx: &Cx<'_, '_>, extra: &Extra) -> Result<HashMap<Ids, ElementType>, String> {
    let mut types = HashMap::new();
    for port in &extra.inputs {
        let id = u64::try_from(port.map.external_port).unwrap_or(u64::MAX);
        let position = cx.old.layer.inputs.iter().position(|p| p.id == id);
        let position = position.ok_or_else(|| format!("its port map names input port {id}"))?;
        types.insert((port.map.internal_layer, port.port), cx.any(position)?.element_type);
    }
    Ok(types)
}

/// Adds a Parameter for each input of the body that a port map or back edge names, unless it is an
/// Input.
fn parameters(
    inside: &mut Rewrite<'_>,
    body: &Parts,
    extra: &Extra,
    types: &HashMap<Ids, ElementType>,
) -> Result<HashMap<Ids, u64>, String> {
    let mut parameters = HashMap::new();
    let named = extra.inputs.iter().map(|port| (port.map.internal_layer, port.port));
    for ids in named.chain(extra.back_edges.iter().map(|edge| edge.to)) {
        let layer = body.layers.iter().find(|layer| layer.id == ids.0);
        let layer = layer.ok_or_else(|| format!("its body has no layer {}", ids.0))?;
        if layer.is("Input") || parameters.contains_key(&ids) {
            continue;
        }
        let port = layer.inputs.iter().find(|port| port.id == ids.1);
        let port =
            port.ok_or_else(|| format!("layer {} of its body has no input port {}", ids.0, ids.1))?;
        let element_type = types.get(&ids).copied().unwrap_or(inside.default);
        let data =
            [("shape", joined(&port.dims)), ("element_type", element_type.name().to_owned())];
        let parameter = Layer {
            name: format!("{}/input_{}", layer.name, ids.1),
            op_type: "Parameter".to_owned(),
            version: "opset1".to_owned(),
            data: data.map(|(key, value)| (key.to_owned(), value)).to_vec(),
            at: port.at,
            ..Layer::default()
        };
        let id = inside.add(parameter, &[], 1);
        let value = inside.last(0, element_type);
        inside.feed(ids.0, ids.1, value);
        parameters.insert(ids, id);
    }
    Ok(parameters)
}

/// The ports of the layer itself. Old port maps name them by id, current ones by index.
struct Ports<'a> {
    layer: &'a Layer,
}

impl Ports<'_> {
    fn inputs(
        &self,
        extra: &Extra,
        find: impl Fn(&Ids) -> Option<u64>,
    ) -> Result<Vec<PortMap>, String> {
        let ids: Vec<u64> = self.layer.inputs.iter().map(|port| port.id).collect();
        extra.inputs.iter().map(|port| mapped(port, &ids, 0, &find)).collect()
    }

    fn outputs(
        &self,
        extra: &Extra,
        find: impl Fn(&Ids) -> Option<u64>,
    ) -> Result<Vec<PortMap>, String> {
        let ids: Vec<u64> = self.layer.outputs.iter().map(|port| port.id).collect();
        extra
            .outputs
            .iter()
            .map(|port| mapped(port, &ids, self.layer.inputs.len(), &find))
            .collect()
    }
}

fn mapped(
    port: &BodyPort,
    ids: &[u64],
    first: usize,
    find: &impl Fn(&Ids) -> Option<u64>,
) -> Result<PortMap, String> {
    let (map, id) = (&port.map, u64::try_from(port.map.external_port).unwrap_or(u64::MAX));
    let position = ids.iter().position(|own| *own == id).and_then(|p| p.checked_add(first));
    let position = position.and_then(|p| i64::try_from(p).ok());
    let external_port = position.ok_or_else(|| format!("its port map names port {id}"))?;
    let internal_layer = find(&(map.internal_layer, port.port))
        .ok_or_else(|| format!("its port map names layer {} of the body", map.internal_layer))?;
    // A negative axis means no slicing.
    let slice = map.slice.filter(|slice| slice.axis >= 0);
    Ok(PortMap { external_port, internal_layer, slice, ..map.clone() })
}
