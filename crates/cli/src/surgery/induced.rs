//! A part of a graph as a graph of its own: what comes in becomes a Parameter, what goes out a
//! Result.

use super::assemble;
use super::declare::{port, shape_text};
use infer::{Fact, Facts};
use ir::{Diagnostics, Edge, Graph, Layer, OutputRef, Parts, Port};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Which layers depend on constants alone, so that they can go wherever they are read.
pub(crate) fn constant(graph: &Graph) -> Vec<bool> {
    let mut constant = vec![false; graph.layers().len()];
    for &position in graph.order() {
        let Some(layer) = graph.layers().get(position) else { continue };
        let sources = graph.inputs_of(position);
        let computed = !sources.is_empty() && sources.iter().all(|s| constant[s.layer]);
        let has_effect = ["Result", "Assign", "ReadValue", "RandomUniform", "Multinomial"]
            .iter()
            .any(|op_type| layer.is(op_type));
        constant[position] = layer.is("Const") || computed && !has_effect;
    }
    constant
}

/// The layers in `kept`, the constants they read, a Parameter for every other tensor they read, and
/// a Result for every tensor that `targets` make or that none of them reads.
///
/// # Errors
/// What is wrong with the structure.
pub(crate) fn induced(
    graph: &Graph,
    facts: &Facts,
    kept: &HashSet<usize>,
    targets: &HashSet<usize>,
) -> Result<Graph, Diagnostics> {
    let constant = constant(graph);
    let mut inside: HashSet<usize> = kept.clone();
    let mut open: Vec<usize> = kept.iter().copied().collect();
    while let Some(position) = open.pop() {
        let sources = graph.inputs_of(position).iter().map(|source| source.layer);
        let new: Vec<usize> = sources.filter(|s| constant[*s] && inside.insert(*s)).collect();
        open.extend(new);
    }
    let mut cut = Cut::new(graph, facts, &inside);
    for position in 0..graph.layers().len() {
        if inside.contains(&position) {
            cut.layer(position);
        }
    }
    cut.results(kept, targets);
    assemble(graph, cut.out)
}

struct Cut<'a> {
    graph: &'a Graph,
    facts: &'a Facts,
    inside: &'a HashSet<usize>,
    out: Parts,
    parameters: HashMap<OutputRef, u64>,
    names: HashSet<String>,
    next_id: u64,
}

impl<'a> Cut<'a> {
    fn new(graph: &'a Graph, facts: &'a Facts, inside: &'a HashSet<usize>) -> Cut<'a> {
        let last = graph.layers().iter().map(|layer| layer.id).max().unwrap_or(0);
        let out = Parts { layers: Vec::new(), edges: Vec::new(), ..graph.parts().clone() };
        let names = inside.iter().filter_map(|p| graph.layers().get(*p)).map(|l| l.name.clone());
        let (names, next_id) = (names.collect(), last.saturating_add(1));
        Cut { graph, facts, inside, out, parameters: HashMap::new(), names, next_id }
    }

    fn id(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id = id.saturating_add(1);
        id
    }

    fn name(&mut self, wanted: String) -> String {
        let free = std::iter::once(wanted.clone())
            .chain((1..).map(|i| format!("{wanted}.{i}")))
            .find(|name| !self.names.contains(name));
        let name = free.unwrap_or(wanted);
        self.names.insert(name.clone());
        name
    }

    /// Takes a layer along, with its edges.
    fn layer(&mut self, position: usize) {
        let Some(layer) = self.graph.layers().get(position) else { return };
        let sources: Vec<OutputRef> = self.graph.inputs_of(position).to_vec();
        for (input, source) in layer.inputs.iter().zip(sources) {
            let from = if self.inside.contains(&source.layer) {
                self.end(source)
            } else {
                Some((self.parameter(source), 0))
            };
            if let Some((from_layer, from_port)) = from {
                let (to_layer, to_port) = (layer.id, input.id);
                let edge = Edge { from_layer, from_port, to_layer, to_port, ..Edge::default() };
                self.out.edges.push(edge);
            }
        }
        self.out.layers.push(layer.clone());
    }

    fn end(&self, source: OutputRef) -> Option<(u64, u64)> {
        let layer = self.graph.layers().get(source.layer)?;
        Some((layer.id, layer.outputs.get(source.port)?.id))
    }

    fn fact(&self, source: OutputRef) -> Fact {
        self.facts.output(source).cloned().unwrap_or_else(Fact::unknown)
    }

    /// The Parameter that stands for a tensor.
    fn parameter(&mut self, source: OutputRef) -> u64 {
        if let Some(id) = self.parameters.get(&source) {
            return *id;
        }
        let id = self.id();
        self.parameters.insert(source, id);
        let fact = self.fact(source);
        let made_by = self.graph.layers().get(source.layer);
        let wanted = made_by.map(|l| l.name.clone()).unwrap_or_default();
        let name = self.name(wanted);
        let own = made_by.and_then(|l| l.outputs.get(source.port));
        let names = own.map(|p| p.names.clone()).filter(|names| !names.is_empty());
        let layer = Layer {
            id,
            op_type: "Parameter".to_owned(),
            version: "opset1".to_owned(),
            data: vec![
                ("shape".to_owned(), shape_text(&fact.shape)),
                ("element_type".to_owned(), fact.element_type.name().to_owned()),
            ],
            outputs: vec![port(0, &fact, names.unwrap_or_else(|| vec![name.clone()]))],
            name,
            ..Layer::default()
        };
        self.out.layers.push(layer);
        id
    }

    /// Adds a Result for each tensor that targets make or that nothing reads any more.
    fn results(&mut self, kept: &HashSet<usize>, targets: &HashSet<usize>) {
        let read_by = |by: &dyn Fn(usize) -> bool| {
            let readers = (0..self.graph.layers().len()).filter(|p| by(*p));
            readers.flat_map(|p| self.graph.inputs_of(p).iter().copied()).collect::<HashSet<_>>()
        };
        let read = read_by(&|p| self.inside.contains(&p));
        let once_read = read_by(&|_| true);
        let already: HashSet<OutputRef> = read_by(&|p| {
            self.inside.contains(&p) && self.graph.layers().get(p).is_some_and(|l| l.is("Result"))
        });
        let kept: BTreeSet<usize> = kept.iter().copied().collect();
        for position in kept {
            let Some(layer) = self.graph.layers().get(position) else { continue };
            if ["Result", "Assign"].iter().any(|op_type| layer.is(op_type)) {
                continue;
            }
            for index in 0..layer.outputs.len() {
                let tensor = OutputRef { layer: position, port: index };
                let wanted = targets.contains(&position) || !read.contains(&tensor);
                let is_used = once_read.contains(&tensor) || index == 0;
                if wanted && is_used && !already.contains(&tensor) {
                    self.result(layer, tensor);
                }
            }
        }
    }

    fn result(&mut self, from: &Layer, tensor: OutputRef) {
        let Some((from_layer, from_port)) = self.end(tensor) else { return };
        let id = self.id();
        let name = self.name(format!("{}/result_{}", from.name, tensor.port));
        let input = Port { names: Vec::new(), ..port(0, &self.fact(tensor), Vec::new()) };
        self.out.layers.push(Layer {
            id,
            name,
            op_type: "Result".to_owned(),
            version: "opset1".to_owned(),
            inputs: vec![input],
            ..Layer::default()
        });
        let edge = Edge { from_layer, from_port, to_layer: id, to_port: 0, ..Edge::default() };
        self.out.edges.push(edge);
    }
}
