//! Reads `model.xml` into a [`Graph`]. The order of the elements does not matter.

use super::audit::{find_missing_end, unused_weights};
use super::decode::decode;
use super::preprocess;
use super::xml::{Tag, Xml, XmlError};
use crate::diagnostic::{ByteOffset, Code, Diagnostic, ReadError, Severity, SourceFile};
use crate::element::ElementType;
use crate::graph::{Body, Edge, Element, Graph, Layer, Parts, Port, PortMap, Role, Slice, Version};
use crate::legacy;
use crate::text::{leading_integer, split_names};
use crate::weights::Weights;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// The least size of a layer in XML, in bytes, roughly.
const SHORTEST_LAYER: usize = 256;

/// Elements next to the layers that say how a model was made, and have no effect.
const NOTES: [&str; 5] =
    ["rt_info", "meta_data", "quantization_parameters", "statistics", "cli_parameters"];

/// Reads `model.xml` and maps the `.bin` next to it.
///
/// # Errors
/// All errors in the file. A missing `.bin` becomes an error only when a constant needs it.
pub fn read(path: impl AsRef<Path>) -> Result<Graph, ReadError> {
    let path = path.as_ref();
    let weights = Arc::new(Weights::open(&path.with_extension("bin")));
    let unreadable = |message: String| {
        let diagnostic = Diagnostic::error(Code::Unreadable, ByteOffset(0), message);
        ReadError::new(Arc::new(SourceFile::new(path, String::new())), vec![diagnostic])
    };
    let bytes = std::fs::read(path)
        .map_err(|e| unreadable(format!("{} cannot be read: {e}", path.display())))?;
    read_file(path, bytes, weights)
}

/// Reads the text of a `model.xml`; `path` is used in messages only.
///
/// # Errors
/// As [`read`].
pub fn read_bytes(bytes: &[u8], path: &Path, weights: Arc<Weights>) -> Result<Graph, ReadError> {
    read_file(path, bytes.to_vec(), weights)
}

fn read_file(path: &Path, mut bytes: Vec<u8>, weights: Arc<Weights>) -> Result<Graph, ReadError> {
    let source = match decode(&mut bytes) {
        Ok(text) => Arc::new(SourceFile::new(path, text)),
        Err(XmlError(diagnostic)) => {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            return Err(ReadError::new(Arc::new(SourceFile::new(path, text)), vec![*diagnostic]));
        }
    };
    let mut reader = Reader {
        diagnostics: Vec::new(),
        unknown: BTreeMap::new(),
        pre_process: None,
        legacy: None,
        weights,
        source: Arc::clone(&source),
    };
    let parts = reader.document(source.text());
    let mut diagnostics = reader.diagnostics;
    let graph = match parts {
        Ok(parts) => Graph::assemble(parts, reader.weights, Arc::clone(&source)),
        Err(XmlError(diagnostic)) => Err(vec![*diagnostic]),
    };
    match graph {
        Ok(mut graph) if diagnostics.iter().all(|p| p.severity == Severity::Warning) => {
            diagnostics.extend_from_slice(&graph.warnings);
            diagnostics.extend(reader.unknown.into_iter().map(unknown_element));
            diagnostics.extend(unused_weights(&graph));
            find_missing_end(&graph);
            Diagnostic::sort(&mut diagnostics);
            graph.warnings = Arc::new(diagnostics);
            Ok(graph)
        }
        Ok(_) => Err(ReadError::new(source, diagnostics)),
        Err(more) => {
            diagnostics.extend(more);
            Diagnostic::sort(&mut diagnostics);
            Err(ReadError::new(source, diagnostics))
        }
    }
}

/// A warning about an unknown element, once for all its occurrences: converters write such elements
/// on every layer.
fn unknown_element(
    ((parent, name), (first, count)): ((&'static str, String), (ByteOffset, usize)),
) -> Diagnostic {
    let times = if count > 1 { format!(", {count} times") } else { String::new() };
    let message = format!("<{name}> in <{parent}> is not known here and is passed over{times}");
    Diagnostic::warning(Code::UnknownElement, first, message)
}

/// The error for an unsupported version.
fn unknown_version(text: &str, at: ByteOffset) -> XmlError {
    let advice = match text.parse::<u32>() {
        Ok(0 | 1) => "; convert the original model again",
        Ok(_) => "; save the model with an OpenVINO release that writes version 11",
        Err(_) => "",
    };
    let message =
        format!("IR version \"{text}\" is not read; irrun reads versions 2 to 11{advice}");
    XmlError(Box::new(Diagnostic::error(Code::Version, at, message)))
}

pub(super) struct Reader {
    pub(super) diagnostics: Vec<Diagnostic>,
    /// Unknown elements by parent and name: the place of the first, and their number.
    unknown: BTreeMap<(&'static str, String), (ByteOffset, usize)>,
    pre_process: Option<(Element, ByteOffset)>,
    /// What only versions 2 to 9 have; `None` for other versions.
    pub(super) legacy: Option<legacy::Model>,
    weights: Arc<Weights>,
    source: Arc<SourceFile>,
}

impl Reader {
    fn document(&mut self, text: &str) -> Result<Parts, XmlError> {
        let mut xml = Xml::new(text);
        let Some(root) = xml.root()? else {
            return Err(XmlError::new(
                Code::NotIr,
                ByteOffset(0),
                "the file holds no element; it is not an IR",
            ));
        };
        if !root.name().eq_ignore_ascii_case("net") {
            let message = format!("the root element is <{}>, not <net>; not an IR", root.name());
            return Err(XmlError::new(Code::NotIr, root.at, message));
        }
        let (name, version) = self.net_tag(&root)?;
        let mut parts = Parts { name, version, ..Parts::default() };
        // Reserved pages that are not used cost nothing.
        parts.layers.reserve(text.len() / SHORTEST_LAYER);
        parts.edges.reserve(text.len() / SHORTEST_LAYER);
        self.graph_content("net", &mut xml, &mut parts)?;
        xml.end()?;
        self.lower(&mut parts);
        self.preprocess(&mut parts);
        Ok(parts)
    }

    /// Replaces `<pre-process>` by layers; a model has at most one.
    fn preprocess(&mut self, parts: &mut Parts) {
        let Some((note, at)) = self.pre_process.take() else { return };
        if let Err(message) = preprocess::apply(&note, parts) {
            let message = format!("<pre-process>: {message}");
            self.diagnostics.push(Diagnostic::error(Code::PreProcess, at, message));
        }
    }

    /// Notes an unknown element.
    fn unknown(&mut self, parent: &'static str, tag: &Tag<'_>) {
        let key = (parent, tag.name().to_owned());
        self.unknown.entry(key).or_insert((tag.at, 0)).1 += 1;
    }

    /// Skips an unknown element.
    pub(super) fn skip(
        &mut self,
        parent: &'static str,
        xml: &mut Xml<'_>,
        tag: &Tag<'_>,
    ) -> Result<(), XmlError> {
        self.unknown(parent, tag);
        xml.skip()
    }

    fn net_tag(&mut self, tag: &Tag<'_>) -> Result<(String, Version), XmlError> {
        let mut name = String::new();
        let (mut version, mut precision) = (None, None);
        tag.each_attribute(|key, value| match key {
            "name" => name = value.into_owned(),
            "version" => version = Some((value.into_owned(), tag.offset(key))),
            "precision" => precision = ElementType::from_precision(&value),
            _ => {}
        })?;
        let Some((text, at)) = version else {
            let message = "<net> has no version; irrun reads IR versions 2 to 11";
            return Err(XmlError::new(Code::Version, tag.at, message));
        };
        match text.trim() {
            "10" => Ok((name, Version::V10)),
            "11" => Ok((name, Version::V11)),
            text => match text.parse() {
                Ok(version) if legacy::VERSIONS.contains(&version) => {
                    let (weights, source) = (Arc::clone(&self.weights), Arc::clone(&self.source));
                    let extras = legacy::Extras::new();
                    self.legacy =
                        Some(legacy::Model { version, precision, extras, weights, source });
                    Ok((name, Version::V10))
                }
                _ => Err(unknown_version(text, at)),
            },
        }
    }

    /// The children of `parent`: `<net>`, `<body>`, `<then_body>` or `<else_body>`.
    pub(super) fn graph_content(
        &mut self,
        parent: &'static str,
        xml: &mut Xml<'_>,
        parts: &mut Parts,
    ) -> Result<(), XmlError> {
        let version = parts.version;
        xml.children(|xml, tag| {
            match tag.name() {
                "layers" => xml.children(|xml, tag| {
                    if tag.name() != "layer" {
                        return self.skip("layers", xml, tag);
                    }
                    parts.layers.push(self.layer(xml, tag, version)?);
                    Ok(())
                })?,
                "edges" => xml.children(|xml, tag| {
                    if tag.name() != "edge" {
                        return self.skip("edges", xml, tag);
                    }
                    parts.edges.extend(self.edge(tag)?);
                    xml.skip()
                })?,
                "pre-process" if parent == "net" && self.pre_process.is_none() => {
                    self.pre_process = Some((xml.element(tag)?, tag.at));
                }
                name => {
                    if !NOTES.contains(&name) {
                        self.unknown(parent, tag);
                    }
                    parts.notes.push(xml.element(tag)?);
                }
            }
            Ok(())
        })
    }

    fn layer(
        &mut self,
        xml: &mut Xml<'_>,
        tag: &Tag<'_>,
        version: Version,
    ) -> Result<Layer, XmlError> {
        if self.legacy.is_some() {
            return self.legacy_layer(xml, tag);
        }
        let mut layer = self.layer_tag(tag)?;
        let mut maps = Maps::default();
        xml.children(|xml, tag| {
            match tag.name() {
                "data" => {
                    layer.data = tag.attributes()?;
                    xml.children(|xml, tag| self.skip("data", xml, tag))?;
                }
                "input" => layer.inputs = self.ports(xml, false)?,
                "output" => layer.outputs = self.ports(xml, true)?,
                "rt_info" => layer.rt_info = Some(xml.element(tag)?.into()),
                "body" => maps.bodies.push((Role::Body, self.body(xml, version)?)),
                "then_body" => maps.bodies.push((Role::Then, self.body(xml, version)?)),
                "else_body" => maps.bodies.push((Role::Else, self.body(xml, version)?)),
                "port_map" => self.port_map(xml, &mut maps.body)?,
                "then_port_map" => self.port_map(xml, &mut maps.then)?,
                "else_port_map" => self.port_map(xml, &mut maps.r#else)?,
                "back_edges" => self.back_edges(xml, &mut maps.back_edges)?,
                _ => self.skip("layer", xml, tag)?,
            }
            Ok(())
        })?;
        layer.bodies = self.connect_bodies(&layer, maps);
        Ok(layer)
    }

    pub(super) fn layer_tag(&mut self, tag: &Tag<'_>) -> Result<Layer, XmlError> {
        let mut layer = Layer { at: tag.at, ..Layer::default() };
        let (mut id, mut name, mut op_type, mut version) = (None, None, None, None);
        tag.each_attribute(|key, value| match key {
            "id" => id = Some(self.unsigned("layer", key, &value, tag.offset(key))),
            "name" => name = Some(value.into_owned()),
            "type" => op_type = Some(value.into_owned()),
            "version" => version = Some(value.into_owned()),
            _ => layer.tags.push((key.to_owned(), value.into_owned())),
        })?;
        let has_version = version.is_some() || self.legacy.is_some();
        let there = [id.is_some(), name.is_some(), op_type.is_some(), has_version];
        let keys = ["id", "name", "type", "version"].into_iter().zip(there);
        let missing: Vec<&str> = keys.filter(|(_, there)| !there).map(|(key, _)| key).collect();
        if !missing.is_empty() {
            let who = name.as_deref().unwrap_or("without a name");
            let message = format!("layer \"{who}\" has no {}", missing.join(" and no "));
            self.diagnostics.push(Diagnostic::error(Code::Missing, tag.at, message));
        }
        layer.name = name.unwrap_or_default();
        layer.op_type = op_type.unwrap_or_default();
        layer.version = version.unwrap_or_default();
        layer.id = id.unwrap_or_default();
        Ok(layer)
    }

    pub(super) fn ports(&mut self, xml: &mut Xml<'_>, output: bool) -> Result<Vec<Port>, XmlError> {
        let mut ports = SmallVec::<[Port; 4]>::new();
        xml.children(|xml, tag| {
            if tag.name() != "port" {
                return self.skip(if output { "output" } else { "input" }, xml, tag);
            }
            let mut port = Port { at: tag.at, ..Port::default() };
            let (mut id, mut unknown) = (None, None);
            tag.each_attribute(|key, value| match key {
                "id" => id = Some(self.unsigned("port", key, &value, tag.offset(key))),
                "precision" => {
                    port.precision = ElementType::from_precision(&value);
                    let wrong = || (value.into_owned(), tag.offset(key));
                    unknown = port.precision.is_none().then(wrong);
                }
                "names" => port.names = split_names(&value),
                _ => {}
            })?;
            match id {
                Some(id) => port.id = id,
                None => self.missing("port", "id", tag.at),
            }
            let may_lack = self.legacy.is_some() && unknown.is_none();
            if output && port.precision.is_none() && !may_lack {
                self.bad_precision(unknown, tag.at);
            }
            xml.children(|xml, tag| {
                match tag.name() {
                    "dim" => port.dims.push(self.dim(&xml.text()?, tag.at)),
                    "rt_info" => port.rt_info = Some(xml.element(tag)?.into()),
                    _ => self.skip("port", xml, tag)?,
                }
                Ok(())
            })?;
            ports.push(port);
            Ok(())
        })?;
        // `into_vec` would reserve room for four.
        let mut exact = Vec::with_capacity(ports.len());
        exact.extend(ports);
        Ok(exact)
    }

    fn bad_precision(&mut self, precision: Option<(String, ByteOffset)>, at: ByteOffset) {
        match precision {
            None => self.missing("output port", "precision", at),
            Some((text, at)) => {
                let message = format!(
                    "output port: \"{text}\" is not a precision; write it like FP32, I64 or BOOL"
                );
                self.diagnostics.push(Diagnostic::error(Code::Malformed, at, message));
            }
        }
    }

    /// A declared dim: the leading integer, at least -1.
    fn dim(&mut self, text: &str, at: ByteOffset) -> i64 {
        match leading_integer(text) {
            Some(dim) if dim >= -1 => dim,
            _ => {
                let message = format!("<dim> holds \"{}\", not a dimension or -1", text.trim());
                self.diagnostics.push(Diagnostic::error(Code::Malformed, at, message));
                -1
            }
        }
    }

    pub(super) fn edge(&mut self, tag: &Tag<'_>) -> Result<Option<Edge>, XmlError> {
        let before = self.diagnostics.len();
        let mut fields: [Option<u64>; 4] = [None; 4];
        const KEYS: [&str; 4] = ["from-layer", "from-port", "to-layer", "to-port"];
        tag.each_attribute(|key, value| {
            for (name, field) in KEYS.iter().zip(&mut fields) {
                if *name == key {
                    *field = Some(self.unsigned("edge", key, &value, tag.offset(key)));
                }
            }
        })?;
        for (name, field) in KEYS.iter().zip(&fields) {
            if field.is_none() {
                self.missing("edge", name, tag.at);
            }
        }
        let [from_layer, from_port, to_layer, to_port] = fields.map(Option::unwrap_or_default);
        let edge = Edge { from_layer, from_port, to_layer, to_port, at: tag.at };
        Ok((self.diagnostics.len() == before).then_some(edge))
    }

    /// A body; its structure is checked like that of the whole model.
    fn body(&mut self, xml: &mut Xml<'_>, version: Version) -> Result<Option<Graph>, XmlError> {
        let mut parts = Parts { version, is_body: true, ..Parts::default() };
        self.graph_content("body", xml, &mut parts)?;
        match Graph::assemble(parts, Arc::clone(&self.weights), Arc::clone(&self.source)) {
            Ok(graph) => {
                self.diagnostics.extend_from_slice(&graph.warnings);
                Ok(Some(graph))
            }
            Err(diagnostics) => {
                self.diagnostics.extend(diagnostics);
                Ok(None)
            }
        }
    }

    fn port_map(&mut self, xml: &mut Xml<'_>, map: &mut Map) -> Result<(), XmlError> {
        xml.children(|xml, tag| {
            let entry = self.port_map_entry(tag)?;
            match tag.name() {
                "input" => map.inputs.push(entry),
                "output" => map.outputs.push(entry),
                _ => {}
            }
            xml.skip()
        })
    }

    pub(super) fn port_map_entry(&mut self, tag: &Tag<'_>) -> Result<PortMap, XmlError> {
        let mut entry = PortMap { at: tag.at, ..PortMap::default() };
        let mut slice = Slice { axis: 0, start: 0, end: -1, stride: 1, part_size: 1 };
        let mut sliced = false;
        let mut seen = [false; 2];
        tag.each_attribute(|key, value| {
            let mut number = || self.signed("port map", key, &value, tag.offset(key));
            match key {
                "external_port_id" => {
                    entry.external_port = number();
                    seen[0] = true;
                }
                "internal_layer_id" => {
                    entry.internal_layer = self.unsigned("port map", key, &value, tag.offset(key));
                    seen[1] = true;
                }
                "axis" => {
                    slice.axis = number();
                    sliced = true;
                }
                "start" => slice.start = number(),
                "end" => slice.end = number(),
                "stride" => slice.stride = number(),
                "part_size" => slice.part_size = number(),
                "purpose" => entry.purpose = Some(value.into_owned()),
                _ => {}
            }
        })?;
        for (key, seen) in ["external_port_id", "internal_layer_id"].iter().zip(seen) {
            if !seen {
                self.missing("port map", key, tag.at);
            }
        }
        entry.slice = sliced.then_some(slice);
        Ok(entry)
    }

    fn back_edges(
        &mut self,
        xml: &mut Xml<'_>,
        edges: &mut Vec<(u64, u64, ByteOffset)>,
    ) -> Result<(), XmlError> {
        xml.children(|xml, tag| {
            let (mut from, mut to) = (None, None);
            tag.each_attribute(|key, value| match key {
                "from-layer" => {
                    from = Some(self.unsigned("back edge", key, &value, tag.offset(key)))
                }
                "to-layer" => to = Some(self.unsigned("back edge", key, &value, tag.offset(key))),
                _ => {}
            })?;
            match (from, to) {
                (Some(from), Some(to)) => edges.push((from, to, tag.at)),
                _ => self.missing("back edge", "from-layer and to-layer", tag.at),
            }
            xml.skip()
        })
    }

    /// Connects each body with its port map, and checks that they match.
    fn connect_bodies(&mut self, layer: &Layer, maps: Maps) -> Vec<Body> {
        let Maps { bodies, body, then, r#else, back_edges } = maps;
        let (mut body, mut then, mut r#else) = (Some(body), Some(then), Some(r#else));
        let mut out = Vec::new();
        for (role, graph) in bodies {
            let map = match role {
                Role::Body => body.take(),
                Role::Then => then.take(),
                Role::Else => r#else.take(),
            };
            let (Some(graph), Some(map)) = (graph, map) else { continue };
            self.check_map(layer, &graph, &map, &back_edges);
            let back_edges = match role {
                Role::Body => back_edges.iter().map(|(from, to, _)| (*from, *to)).collect(),
                _ => Vec::new(),
            };
            out.push(Body { role, graph, inputs: map.inputs, outputs: map.outputs, back_edges });
        }
        out
    }

    fn check_map(
        &mut self,
        layer: &Layer,
        body: &Graph,
        map: &Map,
        back: &[(u64, u64, ByteOffset)],
    ) {
        let is = |id: u64, op_type: &str| {
            body.find(id).and_then(|i| body.layers().get(i)).is_some_and(|l| l.is(op_type))
        };
        let mut bad = |at: ByteOffset, what: String| {
            self.diagnostics.push(Diagnostic::error(Code::PortMap, at, what).of(layer));
        };
        for (entries, op_type, what) in
            [(&map.inputs, "Parameter", "input"), (&map.outputs, "Result", "output")]
        {
            for entry in entries.iter() {
                if !is(entry.internal_layer, op_type) {
                    let id = entry.internal_layer;
                    bad(entry.at, format!("layer {id} of the body is not a {op_type}"));
                }
                if what == "input" && entry.external_port >= 0 {
                    let inputs = i64::try_from(layer.inputs.len()).unwrap_or(i64::MAX);
                    if entry.external_port >= inputs {
                        let port = entry.external_port;
                        bad(entry.at, format!("input {port} is mapped, of {inputs}"));
                    }
                }
                if entry.slice.is_some_and(|s| s.stride == 0 || s.part_size <= 0) {
                    bad(entry.at, "stride must not be 0 and part_size must be positive".into());
                }
            }
        }
        let external = map.outputs.iter().filter(|e| e.external_port >= 0).count();
        if external != layer.outputs.len() {
            let ports = layer.outputs.len();
            bad(layer.at, format!("{external} outputs are mapped, but it has {ports}"));
        }
        for (from, to, at) in back {
            if !is(*from, "Result") || !is(*to, "Parameter") {
                bad(
                    *at,
                    format!("back edge {from} -> {to} must lead from a Result to a Parameter"),
                );
            }
        }
    }

    fn missing(&mut self, what: &str, key: &str, at: ByteOffset) {
        self.diagnostics.push(Diagnostic::error(Code::Missing, at, format!("{what} has no {key}")));
    }

    pub(super) fn unsigned(&mut self, what: &str, key: &str, text: &str, at: ByteOffset) -> u64 {
        text.trim().parse().unwrap_or_else(|_| {
            let message = format!("{what}: {key}=\"{text}\" is not a number");
            self.diagnostics.push(Diagnostic::error(Code::Malformed, at, message));
            0
        })
    }

    fn signed(&mut self, what: &str, key: &str, text: &str, at: ByteOffset) -> i64 {
        text.trim().parse().unwrap_or_else(|_| {
            let message = format!("{what}: {key}=\"{text}\" is not a number");
            self.diagnostics.push(Diagnostic::error(Code::Malformed, at, message));
            0
        })
    }
}

/// The bodies of a layer and their maps, which may come in any order.
#[derive(Default)]
struct Maps {
    bodies: SmallVec<[(Role, Option<Graph>); 2]>,
    body: Map,
    then: Map,
    r#else: Map,
    back_edges: Vec<(u64, u64, ByteOffset)>,
}

#[derive(Default)]
struct Map {
    inputs: Vec<PortMap>,
    outputs: Vec<PortMap>,
}
