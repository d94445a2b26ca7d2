//! Writes a [`Graph`] so that reading it back gives the same graph, and OpenVINO can load it.

use crate::graph::{Body, Edge, Element, Graph, Layer, Port, PortMap, Role};
use crate::text::join_names;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

/// Writes `path` and the `.bin` next to it, each completely or not at all.
///
/// # Errors
/// When a file cannot be written; an existing file is then unchanged.
pub fn write(graph: &Graph, path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    let out = Out::of(graph);
    write_whole(&path.with_extension("bin"), &[graph.weights().bytes(), &out.added])?;
    write_whole(path, &[out.text.as_bytes()])
}

/// The text of the `.xml`.
pub fn write_xml(graph: &Graph) -> String {
    Out::of(graph).text
}

/// Writes a temporary file next to `path` and renames it.
fn write_whole(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    let dir = path.parent().filter(|d| !d.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Opened here, since other errors of `tempfile` name the temporary file, which means nothing to
    // users.
    let new = |path: &Path| File::options().write(true).create_new(true).open(path);
    let whole = || {
        let mut file = tempfile::Builder::new().prefix(".irrun-").make_in(dir, new)?;
        parts.iter().try_for_each(|bytes| file.as_file_mut().write_all(bytes))?;
        file.persist(path).map_err(|e| e.error)?;
        Ok(())
    };
    whole().map_err(|e: io::Error| {
        io::Error::new(e.kind(), format!("{} cannot be written: {e}", path.display()))
    })
}

struct Out {
    text: String,
    depth: usize,
    /// The size of the `.bin` that the graph was read with.
    weights: usize,
    /// The bytes after those: constants with bytes of their own.
    added: Vec<u8>,
}

/// Alignment of added constants.
const ALIGNMENT: usize = 64;

impl Out {
    fn of(graph: &Graph) -> Out {
        let mut out = Out {
            text: String::from("<?xml version=\"1.0\"?>\n"),
            depth: 0,
            weights: graph.weights().bytes().len(),
            added: Vec::new(),
        };
        let version = graph.version().number().to_string();
        out.open("net", &[("name", graph.name()), ("version", &version)]);
        out.graph(graph);
        out.close("net");
        out
    }

    /// Appends bytes to the weights and returns their offset.
    fn add(&mut self, bytes: &[u8]) -> usize {
        let end = self.weights + self.added.len();
        let start = end.next_multiple_of(ALIGNMENT);
        self.added.resize(start - self.weights, 0);
        self.added.extend_from_slice(bytes);
        start
    }

    fn graph(&mut self, graph: &Graph) {
        self.open("layers", &[]);
        for layer in graph.layers() {
            self.layer(layer);
        }
        self.close("layers");
        self.open("edges", &[]);
        for edge in graph.edges() {
            self.edge(edge);
        }
        self.close("edges");
        for note in graph.notes() {
            self.element(note);
        }
    }

    fn layer(&mut self, layer: &Layer) {
        let id = layer.id.to_string();
        let mut attributes = vec![
            ("id", id.as_str()),
            ("name", &layer.name),
            ("type", &layer.op_type),
            ("version", &layer.version),
        ];
        attributes.extend(layer.tags.iter().map(|(k, v)| (k.as_str(), v.as_str())));
        self.open("layer", &attributes);
        for body in &layer.bodies {
            self.port_map(body);
        }
        if !layer.data.is_empty() {
            let offset = layer.bytes.as_deref().map(|bytes| self.add(bytes).to_string());
            let value = |(key, value)| match (key, &offset) {
                ("offset", Some(offset)) => (key, offset.as_str()),
                _ => (key, value),
            };
            let data = layer.data.iter().map(|(k, v)| (k.as_str(), v.as_str()));
            let data: Vec<_> = data.map(value).collect();
            self.leaf("data", &data);
        }
        if let Some(rt_info) = &layer.rt_info {
            self.element(rt_info);
        }
        self.ports("input", &layer.inputs);
        self.ports("output", &layer.outputs);
        for body in &layer.bodies {
            let tag = match body.role {
                Role::Body => "body",
                Role::Then => "then_body",
                Role::Else => "else_body",
            };
            self.open(tag, &[]);
            self.graph(&body.graph);
            self.close(tag);
        }
        self.close("layer");
    }

    fn port_map(&mut self, body: &Body) {
        let tag = match body.role {
            Role::Body => "port_map",
            Role::Then => "then_port_map",
            Role::Else => "else_port_map",
        };
        self.open(tag, &[]);
        for (op_type, entries) in [("input", &body.inputs), ("output", &body.outputs)] {
            for entry in entries {
                self.port_map_entry(op_type, entry);
            }
        }
        self.close(tag);
        if body.role == Role::Body {
            self.open("back_edges", &[]);
            for (from, to) in &body.back_edges {
                let (from, to) = (from.to_string(), to.to_string());
                self.leaf("edge", &[("from-layer", &from), ("to-layer", &to)]);
            }
            self.close("back_edges");
        }
    }

    fn port_map_entry(&mut self, op_type: &str, entry: &PortMap) {
        let mut numbers = vec![
            ("external_port_id", entry.external_port.to_string()),
            ("internal_layer_id", entry.internal_layer.to_string()),
        ];
        if let Some(s) = entry.slice {
            numbers.push(("axis", s.axis.to_string()));
            numbers.push(("start", s.start.to_string()));
            numbers.push(("end", s.end.to_string()));
            numbers.push(("stride", s.stride.to_string()));
            numbers.push(("part_size", s.part_size.to_string()));
        }
        let mut attributes: Vec<_> = numbers.iter().map(|(k, v)| (*k, v.as_str())).collect();
        attributes.extend(entry.purpose.iter().map(|p| ("purpose", p.as_str())));
        self.leaf(op_type, &attributes);
    }

    fn ports(&mut self, tag: &str, ports: &[Port]) {
        if ports.is_empty() {
            return;
        }
        self.open(tag, &[]);
        for port in ports {
            let (id, names) = (port.id.to_string(), join_names(&port.names));
            let mut attributes = vec![("id", id.as_str())];
            attributes.extend(port.precision.map(|p| ("precision", p.precision())));
            if !port.names.is_empty() {
                attributes.push(("names", &names));
            }
            if port.dims.is_empty() && port.rt_info.is_none() {
                self.leaf("port", &attributes);
                continue;
            }
            self.open("port", &attributes);
            for dim in &port.dims {
                self.line(&format!("<dim>{dim}</dim>"));
            }
            if let Some(rt_info) = &port.rt_info {
                self.element(rt_info);
            }
            self.close("port");
        }
        self.close(tag);
    }

    fn edge(&mut self, edge: &Edge) {
        let fields = [edge.from_layer, edge.from_port, edge.to_layer, edge.to_port];
        let [a, b, c, d] = fields.map(|n| n.to_string());
        let keys = [("from-layer", &*a), ("from-port", &b), ("to-layer", &c), ("to-port", &d)];
        self.leaf("edge", &keys);
    }

    fn element(&mut self, element: &Element) {
        let attributes: Vec<_> =
            element.attributes.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        if element.children.is_empty() && element.text.is_empty() {
            self.leaf(&element.name, &attributes);
            return;
        }
        self.open(&element.name, &attributes);
        if !element.text.is_empty() {
            self.line(&escape(&element.text));
        }
        for child in &element.children {
            self.element(child);
        }
        self.close(&element.name);
    }

    fn open(&mut self, tag: &str, attributes: &[(&str, &str)]) {
        let text = format!("<{tag}{}>", attribute_text(attributes));
        self.line(&text);
        self.depth += 1;
    }

    fn leaf(&mut self, tag: &str, attributes: &[(&str, &str)]) {
        let text = format!("<{tag}{} />", attribute_text(attributes));
        self.line(&text);
    }

    fn close(&mut self, tag: &str) {
        self.depth -= 1;
        self.line(&format!("</{tag}>"));
    }

    fn line(&mut self, text: &str) {
        for _ in 0..self.depth {
            self.text.push('\t');
        }
        self.text.push_str(text);
        self.text.push('\n');
    }
}

fn attribute_text(attributes: &[(&str, &str)]) -> String {
    attributes.iter().fold(String::new(), |mut text, (key, value)| {
        // Writing to a String cannot fail.
        let _ = write!(text, " {key}=\"{}\"", escape(value));
        text
    })
}

/// Escapes markup, and blanks that an XML reader would turn into spaces.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' => out.push_str("&#10;"),
            '\r' => out.push_str("&#13;"),
            '\t' => out.push_str("&#9;"),
            _ => out.push(c),
        }
    }
    out
}
