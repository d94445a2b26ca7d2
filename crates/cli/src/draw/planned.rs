//! A plan as a picture: a box for each step, with the layers that it stands for.

use super::kind::Kind;
use super::picture::{Edge, Input, Node, Picture, Role, node, title, without_value};
use crate::memory;
use ir::{Graph, Layer};
use runtime::{Plan, PlanSource, PlanStep, PlanValue};

/// The steps of a plan between the inputs and the outputs of the model.
pub(super) fn picture(graph: &Graph, plan: &Plan) -> Picture {
    let mut picture = Picture { name: title(graph), ..Picture::default() };
    let inputs = graph.parameters().iter().filter_map(|&p| graph.layers().get(p));
    for (layer, fact) in inputs.zip(plan.inputs()) {
        let input = plain(graph, layer, format!("i{}", layer.id));
        picture.nodes.push(Node { outputs: vec![without_value(fact)], ..input });
    }
    let (first, steps) = (picture.nodes.len(), plan.steps());
    for (index, step) in steps.iter().enumerate() {
        let Some(layer) = graph.layers().get(step.layer) else { continue };
        picture.nodes.push(step_node(graph, layer, step, index));
    }
    for (index, step) in steps.iter().enumerate() {
        connect(&mut picture, first + index, first, &step.inputs);
    }
    let outputs = graph.results().iter().filter_map(|&p| graph.layers().get(p));
    for (layer, value) in outputs.zip(plan.output_sources()) {
        let to = picture.nodes.len();
        picture.nodes.push(plain(graph, layer, format!("o{}", layer.id)));
        connect(&mut picture, to, first, &[value]);
    }
    picture
}

fn plain(graph: &Graph, layer: &Layer, key: String) -> Node {
    node(graph, layer, None, key, Role::Data, None)
}

fn step_node(graph: &Graph, layer: &Layer, step: &PlanStep, index: usize) -> Node {
    let layers = || step.layers.iter().filter_map(|&l| graph.layers().get(l));
    let kinds = || layers().map(|l| Kind::of(&l.op_type, &l.version));
    let own = plain(graph, layer, format!("s{index}"));
    let main =
        [Kind::Compute, Kind::Normalize].into_iter().find(|main| kinds().any(|k| k == *main));
    let kind = main.unwrap_or(own.kind);
    let stands_for: Vec<String> = layers().map(|l| format!("{} {}", l.op_type, l.name)).collect();
    let memory: Vec<String> =
        step.outputs.iter().map(|(_, place)| memory::place(place).to_owned()).collect();
    let attributes = [
        ("kernel", step.kernel.to_owned()),
        ("stands for", stands_for.join(", ")),
        ("memory", memory.join(", ")),
        ("in place", step.in_place.to_string()),
    ];
    Node {
        op_type: step.op_types.clone(),
        kind,
        attributes: attributes.map(|(name, value)| (name.to_owned(), value)).to_vec(),
        outputs: step.outputs.iter().map(|(fact, _)| without_value(fact)).collect(),
        ..own
    }
}

/// Draws what a node reads. Steps follow the inputs of the model; `first` is the first of them.
fn connect(picture: &mut Picture, to: usize, first: usize, values: &[PlanValue]) {
    for (to_port, value) in values.iter().enumerate() {
        let fact = without_value(&value.fact);
        let (from, from_port) = match value.from {
            PlanSource::Input(input) => (Some(input), 0),
            PlanSource::Step(step, output) => (Some(first + step), output),
            PlanSource::Constant => (None, 0),
        };
        let port = match from {
            Some(_) => format!("input {to_port}"),
            None => format!("input {to_port}, a constant"),
        };
        picture.nodes[to].inputs.push(Input { port, fact: fact.clone(), from, from_port });
        if let Some(from) = from {
            picture.edges.push(Edge { from, from_port, to, to_port, fact });
        }
    }
}
