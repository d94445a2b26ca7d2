//! What is drawn, whatever the format: layers with what is known of them, and tensors between them.

use super::kind::Kind;
use crate::statistics::Statistics;
use infer::{Fact, Facts, NodeFacts};
use ir::{Body, Graph, Layer};

/// Elements of a constant that are drawn; of more, type and shape are.
const VALUES: i64 = 8;

/// A graph to draw.
#[derive(Debug, Default)]
pub(super) struct Picture {
    /// The name of the model and its file.
    pub name: String,
    /// Layers, those of a body behind the layer that it belongs to.
    pub nodes: Vec<Node>,
    /// Tensors that go from one layer to another.
    pub edges: Vec<Edge>,
    /// Bodies of layers.
    pub bodies: Vec<BodyOf>,
}

/// A layer.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// What no other layer of the picture is called: `41`, in a body `7_0_41`.
    pub key: String,
    /// The id in its graph.
    pub id: u64,
    /// The name.
    pub name: String,
    /// The operation type.
    pub op_type: String,
    /// The opset.
    pub version: String,
    /// By which it is coloured.
    pub kind: Kind,
    /// How it takes part in the picture.
    pub role: Role,
    /// The body it is in, by position in [`Picture::bodies`].
    pub body: Option<usize>,
    /// Attributes as the file has them.
    pub attributes: Vec<(String, String)>,
    /// What each input port is given: its name, and the fact.
    pub inputs: Vec<Input>,
    /// What each output port gives.
    pub outputs: Vec<String>,
    /// What a constant is: type, shape and, if it is small, values.
    pub constant: Option<String>,
    /// What a large constant holds.
    pub statistics: Option<Statistics>,
    /// `model.xml:31`.
    pub place: String,
    /// A number by which it is coloured in place of its kind, from 0 to 1, and its text.
    pub heat: Option<(f64, String)>,
}

/// An input port.
#[derive(Clone, Debug)]
pub(super) struct Input {
    /// `input 1 (pattern)`.
    pub port: String,
    /// Type and shape.
    pub fact: String,
    /// The layer that feeds it.
    pub from: Option<usize>,
    /// The output port of that layer.
    pub from_port: usize,
}

/// How a layer takes part in the picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// It depends on constants alone: it is written into what reads it.
    Constant,
    /// It computes shapes: it is hidden until it is asked for.
    Shape,
    /// It computes data.
    Data,
}

/// A tensor from an output port to an input port.
#[derive(Clone, Debug)]
pub(super) struct Edge {
    /// The layer that makes it.
    pub from: usize,
    /// Its output port.
    pub from_port: usize,
    /// The layer that reads it.
    pub to: usize,
    /// Its input port.
    pub to_port: usize,
    /// Type and shape.
    pub fact: String,
}

/// A body of a layer.
#[derive(Clone, Debug)]
pub(super) struct BodyOf {
    /// The layer.
    pub node: usize,
    /// `Body of loop`.
    pub title: String,
    /// Parameters that the layer's inputs reach, Results that become outputs.
    pub ports: Vec<(usize, Port)>,
    /// Results that feed Parameters of the next iteration.
    pub back_edges: Vec<(usize, usize)>,
}

/// How a Parameter or Result of a body is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Port {
    /// A Parameter that takes an input of the layer.
    Input,
    /// A Result that gives an output of it.
    Output,
}

/// What is to be seen of a graph.
pub(super) struct Selection<'a> {
    /// Layers that are drawn, as they match or not.
    pub shows: &'a dyn Fn(&Graph, usize) -> bool,
    /// Whether to look into the weights.
    pub statistics: bool,
}

impl Picture {
    /// A picture of a graph.
    pub(super) fn of(graph: &Graph, facts: &Facts, selection: &Selection<'_>) -> Picture {
        let mut picture = Picture { name: title(graph), ..Picture::default() };
        picture.graph((graph, Some(facts)), None, "", selection);
        picture
    }

    fn graph(
        &mut self,
        (graph, facts): (&Graph, Option<&Facts>),
        body: Option<usize>,
        prefix: &str,
        selection: &Selection<'_>,
    ) -> Vec<Option<usize>> {
        let roles = roles(graph);
        let mut nodes: Vec<Option<usize>> = vec![None; graph.layers().len()];
        for (position, layer) in graph.layers().iter().enumerate() {
            let known = facts.and_then(|f| f.node(position));
            if (selection.shows)(graph, position) {
                nodes[position] = Some(self.nodes.len());
                let role = roles.get(position).copied().unwrap_or(Role::Data);
                let key = format!("{prefix}{}", layer.id);
                let mut node = node(graph, layer, known, key, role, body);
                if selection.statistics && layer.is("Const") {
                    node.statistics = Statistics::of_constant(graph, layer);
                }
                self.nodes.push(node);
            }
            for (i, inner) in layer.bodies.iter().enumerate() {
                let facts = known.and_then(|node| node.bodies.get(i));
                let Some(owner) = nodes[position] else {
                    self.graph(
                        (&inner.graph, facts),
                        body,
                        &format!("{prefix}{}_{i}_", layer.id),
                        selection,
                    );
                    continue;
                };
                self.body(
                    (owner, layer),
                    (inner, facts),
                    &format!("{prefix}{}_{i}_", layer.id),
                    selection,
                );
            }
        }
        self.connect(graph, facts, &nodes);
        nodes
    }

    fn body(
        &mut self,
        (owner, layer): (usize, &Layer),
        (body, facts): (&Body, Option<&Facts>),
        prefix: &str,
        selection: &Selection<'_>,
    ) {
        let place = self.bodies.len();
        let title = format!("{:?} of {}", body.role, layer.name);
        self.bodies.push(BodyOf { node: owner, title, ports: Vec::new(), back_edges: Vec::new() });
        let nodes = self.graph((&body.graph, facts), Some(place), prefix, selection);
        let drawn = |id: u64| nodes.get(body.graph.find(id)?).copied().flatten();
        let ports = |entries: &[ir::PortMap], port| {
            let port = |entry: &ir::PortMap| Some((drawn(entry.internal_layer)?, port));
            entries.iter().filter_map(port).collect::<Vec<_>>()
        };
        let all = [ports(&body.inputs, Port::Input), ports(&body.outputs, Port::Output)].concat();
        let back = |(result, parameter): &(u64, u64)| Some((drawn(*result)?, drawn(*parameter)?));
        self.bodies[place].ports = all;
        self.bodies[place].back_edges = body.back_edges.iter().filter_map(back).collect();
    }

    fn connect(&mut self, graph: &Graph, facts: Option<&Facts>, nodes: &[Option<usize>]) {
        for (position, to) in nodes.iter().enumerate() {
            let Some(to) = *to else { continue };
            for (to_port, source) in graph.inputs_of(position).iter().enumerate() {
                let fact = facts.and_then(|f| f.output(*source));
                let op = facts.and_then(|f| f.node(position)).map(|node| &*node.op);
                let port = match op {
                    Some(op) => infer::port_name(op, to_port),
                    None => format!("input {to_port}"),
                };
                let from = nodes.get(source.layer).copied().flatten();
                let fact = fact.map(without_value).unwrap_or_default();
                self.nodes[to].inputs.push(Input {
                    port,
                    fact: fact.clone(),
                    from,
                    from_port: source.port,
                });
                if let Some(from) = from {
                    let edge = Edge { from, from_port: source.port, to, to_port, fact };
                    self.edges.push(edge);
                }
            }
        }
    }
}

/// A layer as it is drawn, with what is known of its outputs.
pub(super) fn node(
    graph: &Graph,
    layer: &Layer,
    facts: Option<&NodeFacts>,
    key: String,
    role: Role,
    body: Option<usize>,
) -> Node {
    let outputs = facts.map(|f| f.outputs.iter().map(without_value).collect()).unwrap_or_default();
    let constant = facts.filter(|_| layer.is("Const")).and_then(|f| f.outputs.first());
    Node {
        key,
        id: layer.id,
        name: layer.name.clone(),
        op_type: layer.op_type.clone(),
        version: layer.version.clone(),
        kind: Kind::of(&layer.op_type, &layer.version),
        role,
        body,
        attributes: layer.data.clone(),
        inputs: Vec::new(),
        outputs,
        constant: constant.map(with_small_value),
        statistics: None,
        place: graph.source().place(layer.at),
        heat: None,
    }
}

/// Type and shape.
pub(super) fn without_value(fact: &Fact) -> String {
    Fact { value: None, ..fact.clone() }.to_string()
}

/// Type, shape and, of a few elements, their values.
fn with_small_value(fact: &Fact) -> String {
    let count = fact.shape.volume().value();
    let value = fact.value.clone().filter(|_| count.is_some_and(|n| n <= VALUES));
    Fact { value, ..fact.clone() }.to_string()
}

/// What each layer depends on: constants alone, shapes, or data. A layer that nothing needs, or
/// that is no more than a number of the interface, is data.
fn roles(graph: &Graph) -> Vec<Role> {
    let mut roles = vec![Role::Data; graph.layers().len()];
    for &position in graph.order() {
        let Some(layer) = graph.layers().get(position) else { continue };
        let inputs = || graph.inputs_of(position).iter().map(|source| roles[source.layer]);
        let pure = !["Parameter", "Result", "ReadValue", "Assign"].iter().any(|t| layer.is(t))
            && layer.bodies.is_empty();
        roles[position] = if layer.is("Const") {
            Role::Constant
        } else if !pure || inputs().next().is_none() {
            Role::Data
        } else if layer.is("ShapeOf") {
            Role::Shape
        } else if inputs().all(|role| role == Role::Constant) && !draws_numbers(layer) {
            Role::Constant
        } else if inputs().all(|role| role != Role::Data) && is_small(layer) {
            Role::Shape
        } else {
            Role::Data
        };
    }
    roles
}

/// Random numbers depend on more than their inputs.
fn draws_numbers(layer: &Layer) -> bool {
    layer.is("RandomUniform") || layer.is("Multinomial")
}

/// Shapes are scalars and vectors; what is filled or scaled by shapes is data.
fn is_small(layer: &Layer) -> bool {
    layer.outputs.iter().all(|port| port.dims.len() <= 1)
}

/// What a picture is called: the name of the model, which converters mostly call `Model0`, and its
/// file. Not its directory: the same model is the same picture everywhere.
pub(super) fn title(graph: &Graph) -> String {
    match graph.source().path().file_name() {
        Some(file) => format!("{}, {}", graph.name(), file.to_string_lossy()),
        None => graph.name().to_owned(),
    }
}
