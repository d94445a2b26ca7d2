//! The new graph: layers of current opsets, their edges, and the values that replace outputs of the
//! file's layers.

use super::layer::{Old, joined};
use super::model::{Blob, Model, error, version_name};
use crate::diagnostic::Diagnostic;
use crate::element::ElementType::{self, F16, F32, I64, U1};
use crate::graph::{Body, Edge, Layer, Port};
use std::collections::{HashMap, HashSet};

/// An output of a new layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Value {
    /// Index of the layer.
    layer: usize,
    port: usize,
    /// The type in the new graph, which can differ from the one in the file.
    pub(super) element_type: ElementType,
}

impl Value {
    /// The same value with the type that its operation gives.
    pub(super) fn of_type(self, element_type: ElementType) -> Value {
        Value { element_type, ..self }
    }
}

/// A port of the file: ids of layer and port.
type Ids = (u64, u64);

pub(super) struct Rewrite<'a> {
    pub(super) model: &'a Model,
    old: &'a [Layer],
    /// The source of each input port of the file.
    sources: HashMap<Ids, Ids>,
    /// The value that replaces an output port of the file.
    values: HashMap<Ids, Value>,
    /// The new layers, with their inputs.
    made: Vec<(Layer, Vec<Value>)>,
    next_id: u64,
    /// The type of layers that have none.
    pub(super) default: ElementType,
    pub(super) diagnostics: Vec<Diagnostic>,
    pub(super) apply: Apply,
}

/// Applies the rule of a layer; `None` for a type without a rule.
pub(super) type Apply = fn(&mut Cx<'_, '_>) -> Option<Made>;

impl<'a> Rewrite<'a> {
    pub(super) fn new(
        model: &'a Model,
        old: &'a [Layer],
        edges: &[Edge],
        default: Option<ElementType>,
        apply: Apply,
    ) -> Rewrite<'a> {
        let ends = |e: &Edge| ((e.to_layer, e.to_port), (e.from_layer, e.from_port));
        Rewrite {
            model,
            old,
            sources: edges.iter().map(ends).collect(),
            values: HashMap::new(),
            made: Vec::with_capacity(old.len().saturating_mul(2)),
            next_id: old.iter().map(|layer| layer.id).max().unwrap_or(0),
            default: default.filter(|t| t.is_static()).unwrap_or(F32),
            diagnostics: Vec::new(),
            apply,
        }
    }

    /// Rewrites every layer, producers first.
    pub(super) fn layers_in_order(&mut self) {
        let by_id: HashMap<u64, usize> =
            self.old.iter().enumerate().map(|(i, layer)| (layer.id, i)).collect();
        let producers = |layer: &Layer| -> Vec<usize> {
            let from = |port: &Port| self.sources.get(&(layer.id, port.id));
            layer
                .inputs
                .iter()
                .filter_map(from)
                .filter_map(|ids| by_id.get(&ids.0).copied())
                .collect()
        };
        for position in in_order(self.old.iter().map(producers).collect()) {
            if let Some(layer) = self.old.get(position) {
                self.layer(layer);
            }
        }
    }

    fn layer(&mut self, layer: &'a Layer) {
        let old = Old { layer, extra: self.model.extras.get(&layer.at.0) };
        let before = self.made.len();
        let apply = self.apply;
        let mut cx = Cx { out: self, old };
        let made = apply(&mut cx).unwrap_or_else(|| cx.as_it_is());
        let values = match made {
            Ok(values) => values,
            Err(message) => {
                self.diagnostics.push(error(layer, self.model.version, message));
                self.made.truncate(before);
                return;
            }
        };
        self.take_over(layer, before, values);
    }

    /// Gives the new layers of a layer its id, name and ports.
    fn take_over(&mut self, layer: &Layer, before: usize, mut values: Vec<Value>) {
        for value in &mut values {
            // An input that is passed through keeps its own name.
            if value.layer < before {
                *value = self.converted(*value, value.element_type, &layer.name);
            }
        }
        let mut named = HashSet::new();
        for (i, (port, value)) in layer.outputs.iter().zip(&values).enumerate() {
            self.values.insert((layer.id, port.id), *value);
            let Some((made, _)) = self.made.get_mut(value.layer) else { continue };
            if named.insert(value.layer) {
                let first = named.len() == 1;
                made.id = if first { layer.id } else { made.id };
                let of_port = || format!("{}.{i}", layer.name);
                made.name = if first { layer.name.clone() } else { of_port() };
            }
            if let Some(out) = made.outputs.get_mut(value.port) {
                let name = match layer.outputs.len() {
                    1 => layer.name.clone(),
                    _ => format!("{}.{i}", layer.name),
                };
                let precision = Some(value.element_type);
                *out = Port { id: out.id, precision, names: vec![name], ..port.clone() };
            }
        }
        // A layer without outputs, such as an Assign.
        if layer.outputs.is_empty()
            && let Some((made, _)) = self.made.last_mut()
            && self.next_id == made.id
        {
            (made.id, made.name) = (layer.id, layer.name.clone());
        }
    }

    /// Adds a Result for every output without a reader.
    pub(super) fn results(&mut self) {
        let taken: HashSet<Ids> = self.sources.values().copied().collect();
        for layer in self.old {
            if ["Const", "Input", "Result"].iter().any(|op_type| layer.is(op_type)) {
                continue;
            }
            for port in &layer.outputs {
                let value = self.values.get(&(layer.id, port.id)).copied();
                if let Some(value) = value.filter(|_| !taken.contains(&(layer.id, port.id))) {
                    self.result(value);
                }
            }
        }
    }

    /// Adds a Result and returns its id.
    pub(super) fn result(&mut self, value: Value) -> u64 {
        let (name, at) = match self.made.get(value.layer) {
            Some((layer, _)) => (&layer.name, layer.at),
            None => (&String::new(), Default::default()),
        };
        let name = format!("{name}/sink_port_{}", value.port);
        let layer = Layer {
            name,
            op_type: "Result".into(),
            version: "opset1".into(),
            at,
            ..Layer::default()
        };
        self.add(layer, &[value], 0)
    }

    /// The value of an input or output port of a layer of the file.
    pub(super) fn value(&self, layer: u64, port: u64) -> Option<Value> {
        let from = self.sources.get(&(layer, port)).copied().unwrap_or((layer, port));
        self.values.get(&from).copied()
    }

    /// Sets the value of an input port without an edge.
    pub(super) fn feed(&mut self, layer: u64, port: u64, value: Value) {
        self.values.insert((layer, port), value);
    }

    /// Adds a layer with a new id, and returns the id.
    pub(super) fn add(&mut self, mut layer: Layer, inputs: &[Value], outputs: usize) -> u64 {
        self.next_id = self.next_id.saturating_add(1);
        let port = |id: usize| {
            let id = u64::try_from(id).unwrap_or(u64::MAX);
            Port { id, precision: Some(ElementType::Dynamic), at: layer.at, ..Port::default() }
        };
        layer.id = self.next_id;
        layer.inputs = (0..inputs.len()).map(port).collect();
        layer.outputs = (0..outputs).map(|i| port(inputs.len().saturating_add(i))).collect();
        self.made.push((layer, inputs.to_vec()));
        self.next_id
    }

    /// An output of the last new layer.
    pub(super) fn last(&self, port: usize, element_type: ElementType) -> Value {
        Value { layer: self.made.len().saturating_sub(1), port, element_type }
    }

    /// Adds a body to the last new layer.
    pub(super) fn give_body(&mut self, body: Body) {
        if let Some((layer, _)) = self.made.last_mut() {
            layer.bodies.push(body);
        }
    }

    fn converted(&mut self, value: Value, to: ElementType, name: &str) -> Value {
        let data = vec![("destination_type".to_owned(), to.name().to_owned())];
        let at = self.made.get(value.layer).map(|(layer, _)| layer.at).unwrap_or_default();
        let (op_type, version) = ("Convert".to_owned(), "opset1".to_owned());
        let name = format!("{name}/convert");
        self.add(Layer { name, op_type, version, data, at, ..Layer::default() }, &[value], 1);
        self.last(0, to)
    }

    /// Layers, edges and findings.
    pub(super) fn finish(self) -> (Vec<Layer>, Vec<Edge>, Vec<Diagnostic>) {
        let mut edges = Vec::new();
        for (layer, inputs) in &self.made {
            for (to, value) in layer.inputs.iter().zip(inputs) {
                let Some((from, _)) = self.made.get(value.layer) else { continue };
                let Some(port) = from.outputs.get(value.port) else { continue };
                edges.push(Edge {
                    from_layer: from.id,
                    from_port: port.id,
                    to_layer: layer.id,
                    to_port: to.id,
                    at: layer.at,
                });
            }
        }
        let layers = self.made.into_iter().map(|(layer, _)| layer).collect();
        (layers, edges, self.diagnostics)
    }
}

/// Indices, producers before consumers. Those in a cycle, which is invalid, come last.
fn in_order(producers: Vec<Vec<usize>>) -> Vec<usize> {
    let mut consumers = vec![Vec::new(); producers.len()];
    let mut open: Vec<usize> = producers.iter().map(Vec::len).collect();
    for (consumer, from) in producers.iter().enumerate() {
        for &producer in from {
            if let Some(list) = consumers.get_mut(producer) {
                list.push(consumer);
            }
        }
    }
    let mut order: Vec<usize> = (0..open.len()).filter(|&i| open.get(i) == Some(&0)).collect();
    let mut next = 0;
    while let Some(&producer) = order.get(next) {
        next += 1;
        for &consumer in consumers.get(producer).map_or(&[][..], Vec::as_slice) {
            let Some(count) = open.get_mut(consumer) else { continue };
            *count = count.saturating_sub(1);
            if *count == 0 {
                order.push(consumer);
            }
        }
    }
    let placed: HashSet<usize> = order.iter().copied().collect();
    order.extend((0..producers.len()).filter(|i| !placed.contains(i)));
    order
}

/// The result of a rule.
pub(super) type Made = Result<Vec<Value>, String>;

/// What a rule sees: the layer of the file, and the new graph.
pub(super) struct Cx<'r, 'a> {
    pub(super) out: &'r mut Rewrite<'a>,
    pub(super) old: Old<'a>,
}

impl<'a> Cx<'_, 'a> {
    /// The attributes among these that the file has.
    pub(super) fn attributes(&self, keys: &[&'static str]) -> Vec<(&'static str, &'a str)> {
        let given = |key: &&'static str| Some((*key, self.old.text(&[key])?));
        keys.iter().filter_map(given).filter(|(_, text)| !text.is_empty()).collect()
    }

    /// The number of inputs in the file.
    pub(super) fn inputs(&self) -> usize {
        self.old.layer.inputs.len()
    }

    /// The value of an input.
    pub(super) fn any(&self, input: usize) -> Result<Value, String> {
        let port =
            self.old.layer.inputs.get(input).ok_or_else(|| format!("it has no input {input}"))?;
        let value = self.out.value(self.old.layer.id, port.id);
        value
            .ok_or_else(|| format!("no edge leads into input {input}, or from a layer that failed"))
    }

    /// The type in which the layer computes: its precision, if that is a real type.
    pub(super) fn real_type(&self) -> ElementType {
        let port = self.old.layer.outputs.first().and_then(|port| port.precision);
        let real = |t: &ElementType| matches!(t, F16 | F32);
        let own = port.filter(real).or(self.old.precision().filter(real));
        own.unwrap_or(if real(&self.out.default) { self.out.default } else { F32 })
    }

    /// The declared type of an output.
    pub(super) fn declared(&self, output: usize) -> ElementType {
        let port = self.old.layer.outputs.get(output).and_then(|port| port.precision);
        let known = port.filter(|t| t.is_static());
        known.or(self.old.precision()).unwrap_or(self.out.default)
    }

    /// An input as real numbers.
    pub(super) fn real(&mut self, input: usize) -> Result<Value, String> {
        let value = self.any(input)?;
        if value.element_type.is_real() { Ok(value) } else { Ok(self.to(value, self.real_type())) }
    }

    /// An input of axes, indices or a shape.
    pub(super) fn index(&mut self, input: usize) -> Result<Value, String> {
        let value = self.any(input)?;
        Ok(self.to(value, I64))
    }

    /// A value converted to another type.
    pub(super) fn to(&mut self, value: Value, to: ElementType) -> Value {
        if value.element_type == to {
            return value;
        }
        self.out.converted(value, to, &self.old.layer.name)
    }

    /// Adds a layer with one output, which has the type of its first input.
    pub(super) fn op(
        &mut self,
        op_type: &str,
        version: &str,
        data: &[(&str, &str)],
        inputs: &[Value],
    ) -> Value {
        self.ops(op_type, version, data, inputs, 1);
        let first = inputs.first().map_or(self.real_type(), |value| value.element_type);
        self.out.last(0, first)
    }

    /// Adds a layer with several outputs; [`Self::port`] gives them.
    pub(super) fn ops(
        &mut self,
        op_type: &str,
        version: &str,
        data: &[(&str, &str)],
        inputs: &[Value],
        outputs: usize,
    ) {
        let own = |text: &str| text.to_owned();
        let old = self.old.layer;
        let layer = Layer {
            name: format!("{}/{op_type}_{}", old.name, self.out.made.len()),
            op_type: own(op_type),
            version: own(version),
            data: data.iter().map(|(key, value)| (own(key), own(value))).collect(),
            at: old.at,
            ..Layer::default()
        };
        self.out.add(layer, inputs, outputs);
    }

    /// An output of the last new layer.
    pub(super) fn port(&self, port: usize, element_type: ElementType) -> Value {
        self.out.last(port, element_type)
    }

    /// A constant list of integers.
    pub(super) fn ints(&mut self, values: &[i64]) -> Value {
        let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.made_constant(I64, &values.len().to_string(), bytes)
    }

    /// A constant integer scalar.
    pub(super) fn int(&mut self, value: i64) -> Value {
        self.made_constant(I64, "", value.to_le_bytes().to_vec())
    }

    /// A constant of real numbers, in the type of the layer.
    pub(super) fn reals(&mut self, values: &[f32], shape: &[i64]) -> Value {
        let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        let value = self.made_constant(F32, &joined(shape), bytes);
        self.to(value, self.real_type())
    }

    fn made_constant(&mut self, element_type: ElementType, shape: &str, bytes: Vec<u8>) -> Value {
        let size = bytes.len().to_string();
        self.constant(element_type, shape, "0", &size);
        if let Some((layer, _)) = self.out.made.last_mut() {
            layer.bytes = Some(bytes.into());
        }
        self.out.last(0, element_type)
    }

    fn constant(&mut self, element_type: ElementType, shape: &str, offset: &str, size: &str) {
        let data = [
            ("element_type", element_type.name()),
            ("shape", shape),
            ("offset", offset),
            ("size", size),
        ];
        self.ops("Const", "opset1", &data, &[], 1);
    }

    /// A range of the `.bin` as a constant of this shape; one dim may be -1.
    pub(super) fn stored(&mut self, blob: &Blob, shape: &[i64]) -> Result<Value, String> {
        let element_type = self.blob_type(blob)?;
        let count = count(blob, element_type)?;
        let known = super::layer::product(
            &shape.iter().map(|d| *d.max(&-1)).filter(|d| *d != -1).collect::<Vec<_>>(),
        )?;
        let rest = if known > 0 { count / known } else { 0 };
        let shape: Vec<i64> = shape.iter().map(|d| if *d == -1 { rest } else { *d }).collect();
        if super::layer::product(&shape)? != count {
            return Err(format!("{} hold {count} elements, which is not {shape:?}", blob.name));
        }
        self.constant(
            element_type,
            &joined(&shape),
            &blob.offset.to_string(),
            &blob.size.to_string(),
        );
        Ok(self.out.last(0, element_type))
    }

    /// A blob of single bits. Its precision does not count: files give none, or that of bytes.
    pub(super) fn bits(&mut self, name: &str, shape: &[i64]) -> Result<Value, String> {
        let blob = self.old.blob(name).ok_or_else(|| format!("it has no {name}"))?;
        let count = u64::try_from(super::layer::product(shape)?).unwrap_or(u64::MAX);
        if U1.packed_len(count) != Some(blob.size) {
            return Err(format!("{name} hold {} bytes, which is not {shape:?} bits", blob.size));
        }
        self.constant(U1, &joined(shape), &blob.offset.to_string(), &blob.size.to_string());
        Ok(self.out.last(0, U1))
    }

    /// The element type of a blob: its own, or that of the layer.
    pub(super) fn blob_type(&self, blob: &Blob) -> Result<ElementType, String> {
        let Some(text) = &blob.precision else {
            return Ok(self.old.precision().unwrap_or(self.real_type()));
        };
        let known = ElementType::from_precision(text).filter(|t| t.bits().is_some());
        known.ok_or_else(|| format!("precision=\"{text}\" of {} is not known", blob.name))
    }

    /// The number of elements of a blob.
    pub(super) fn elements(&self, blob: &Blob) -> Result<i64, String> {
        count(blob, self.blob_type(blob)?)
    }

    /// Weights in the type of the layer: a blob, or an input as in versions 6 and 7.
    pub(super) fn weights(
        &mut self,
        name: &str,
        input: usize,
        shape: &[i64],
    ) -> Result<Option<Value>, String> {
        let value = match self.old.blob(name) {
            Some(blob) => self.stored(blob, shape)?,
            None if input < self.inputs() => {
                let (value, shape) = (self.real(input)?, self.ints(shape));
                self.op("Reshape", "opset1", &[("special_zero", "false")], &[value, shape])
            }
            None => return Ok(None),
        };
        Ok(Some(self.to(value, self.real_type())))
    }

    /// Keeps a layer whose type has no rule.
    fn as_it_is(&mut self) -> Made {
        let inputs = (0..self.inputs()).map(|i| self.any(i)).collect::<Result<Vec<_>, _>>()?;
        let old = self.old.layer;
        let layer = Layer { version: version_name(self.out.model.version), ..old.clone() };
        self.out.add(layer, &inputs, old.outputs.len());
        Ok((0..old.outputs.len()).map(|i| self.port(i, self.declared(i))).collect())
    }
}

fn count(blob: &Blob, element_type: ElementType) -> Result<i64, String> {
    let bits = u64::from(element_type.bits().unwrap_or(8));
    let count = blob.size.checked_mul(8).map(|all| all / bits.max(1));
    count.and_then(|n| i64::try_from(n).ok()).ok_or_else(|| format!("{} are too large", blob.name))
}
