//! Resolves edges and checks the structure of a graph; reports all problems.

use crate::diagnostic::{ByteOffset, Code, Diagnostic, Severity, SourceFile};
use crate::graph::{Graph, Layer, Links, OutputRef, Parts, Version};
use crate::weights::Weights;
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::Arc;

impl Graph {
    /// Resolves the edges of `parts`. Problems of layers that nothing needs are only warnings.
    ///
    /// # Errors
    /// Every duplicate id, dangling or doubled edge, unconnected port and cycle.
    pub fn assemble(
        mut parts: Parts,
        weights: Arc<Weights>,
        source: Arc<SourceFile>,
    ) -> Result<Graph, Vec<Diagnostic>> {
        let mut check = Check::new(&parts);
        check.resolve_edges();
        let order = check.walk();
        let (links, diagnostics) = check.finish(order);
        if diagnostics.iter().any(|p| p.severity == Severity::Error) {
            return Err(diagnostics);
        }
        for &position in &links.order {
            let inputs = links.inputs.get(position).map_or(0, SmallVec::len);
            if let Some(layer) = parts.layers.get_mut(position) {
                // The ports without an edge here come after the last port with one.
                layer.inputs.truncate(inputs);
            }
        }
        let (parts, links) = (Arc::new(parts), Arc::new(links));
        Ok(Graph { parts, links, weights, source, warnings: Arc::new(diagnostics) })
    }
}

/// Sinks keep the layers before them alive, although no Result needs those.
fn is_root(layer: &Layer) -> bool {
    layer.is("Result") || layer.is("Assign")
}

/// The state of an input port while edges are being resolved.
#[derive(Clone, Copy)]
enum Feed {
    Nothing,
    Broken,
    From(OutputRef),
}

struct Check<'a> {
    parts: &'a Parts,
    by_id: HashMap<u64, usize>,
    feeds: Vec<SmallVec<[Feed; 3]>>,
    /// Findings, each with the layer that must be live for it to be an error.
    diagnostics: Vec<(Option<usize>, Diagnostic)>,
}

impl<'a> Check<'a> {
    fn new(parts: &'a Parts) -> Check<'a> {
        let mut by_id = HashMap::with_capacity(parts.layers.len());
        let mut diagnostics = Vec::new();
        for (i, layer) in parts.layers.iter().enumerate() {
            if by_id.insert(layer.id, i).is_some() {
                let message = "another layer has the same id";
                let diagnostic =
                    Diagnostic::error(Code::DuplicateLayer, layer.at, message).of(layer);
                diagnostics.push((None, diagnostic));
            }
            for ports in [&layer.inputs, &layer.outputs] {
                duplicate_ports(layer, ports.iter().map(|p| (p.id, p.at)), |p| {
                    diagnostics.push((Some(i), p));
                });
            }
        }
        let nothing = |layer: &Layer| layer.inputs.iter().map(|_| Feed::Nothing).collect();
        Check { feeds: parts.layers.iter().map(nothing).collect(), parts, by_id, diagnostics }
    }

    fn resolve_edges(&mut self) {
        for edge in &self.parts.edges {
            let find = |id| self.by_id.get(&id).copied();
            let (from, to) = (find(edge.from_layer), find(edge.to_layer));
            for (id, end, found) in
                [(edge.from_layer, "comes from", from), (edge.to_layer, "leads to", to)]
            {
                if found.is_none() {
                    let message = format!("an edge {end} layer {id}, which is not in the graph");
                    let owner = to.or(from);
                    self.diagnostics
                        .push((owner, Diagnostic::error(Code::UnknownLayer, edge.at, message)));
                }
            }
            let Some(to) = to else { continue };
            let Some(slot) = self.input_slot(to, edge.to_port, edge.at) else { continue };
            let feed = match from {
                Some(from) => self.output_feed(from, edge.from_port, to, edge.at),
                None => Feed::Broken,
            };
            self.connect(to, slot, feed, edge.at);
        }
    }

    /// The index of an input port, or a finding if the layer has no such port.
    fn input_slot(&mut self, layer: usize, port: u64, at: ByteOffset) -> Option<usize> {
        let to = self.parts.layers.get(layer)?;
        let slot = to.inputs.iter().position(|p| p.id == port);
        if slot.is_none() {
            let ports = port_list(to.inputs.iter().map(|p| p.id));
            let message = format!("an edge leads to input port {port}; the layer has {ports}");
            let diagnostic = Diagnostic::error(Code::UnknownPort, at, message).of(to);
            self.diagnostics.push((Some(layer), diagnostic));
        }
        slot
    }

    fn output_feed(&mut self, layer: usize, port: u64, consumer: usize, at: ByteOffset) -> Feed {
        let Some(from) = self.parts.layers.get(layer) else { return Feed::Broken };
        match from.outputs.iter().position(|p| p.id == port) {
            Some(port) => Feed::From(OutputRef { layer, port }),
            None => {
                let ports = port_list(from.outputs.iter().map(|p| p.id));
                let message =
                    format!("an edge comes from output port {port}; the layer has {ports}");
                let diagnostic = Diagnostic::error(Code::UnknownPort, at, message).of(from);
                self.diagnostics.push((Some(consumer), diagnostic));
                Feed::Broken
            }
        }
    }

    fn connect(&mut self, layer: usize, slot: usize, feed: Feed, at: ByteOffset) {
        let Some(place) = self.feeds.get_mut(layer).and_then(|f| f.get_mut(slot)) else { return };
        if matches!(place, Feed::Nothing) {
            *place = feed;
            return;
        }
        if let Some(to) = self.parts.layers.get(layer) {
            let message = format!("a second edge leads into input {slot}");
            let diagnostic = Diagnostic::error(Code::DoubledEdge, at, message).of(to);
            self.diagnostics.push((Some(layer), diagnostic));
        }
    }

    /// Depth-first from the roots: live layers, producers first. Cycles are recorded.
    fn walk(&mut self) -> Vec<usize> {
        #[derive(Clone, Copy, PartialEq)]
        enum State {
            New,
            Open,
            Done,
        }
        let layers = &self.parts.layers;
        let mut state = vec![State::New; layers.len()];
        let mut order = Vec::with_capacity(layers.len());
        let parameters = (0..layers.len()).filter(|&i| layers[i].is("Parameter"));
        let roots = (0..layers.len()).filter(|&i| is_root(&layers[i]));
        for root in parameters.chain(roots) {
            let mut stack = vec![(root, 0)];
            while let Some((layer, next)) = stack.pop() {
                if next == 0 {
                    if state[layer] == State::Done {
                        continue;
                    }
                    state[layer] = State::Open;
                }
                let Some(feed) = self.feeds[layer].get(next) else {
                    state[layer] = State::Done;
                    order.push(layer);
                    continue;
                };
                stack.push((layer, next + 1));
                let Feed::From(source) = *feed else { continue };
                match state[source.layer] {
                    State::New => stack.push((source.layer, 0)),
                    State::Done => {}
                    State::Open => {
                        let open = stack.iter().map(|(l, _)| *l);
                        let circle = open.skip_while(|l| *l != source.layer).collect::<Vec<_>>();
                        self.diagnostics.push((None, cycle(layers, &circle)));
                        state[source.layer] = State::Done;
                    }
                }
            }
        }
        order
    }

    fn finish(mut self, order: Vec<usize>) -> (Links, Vec<Diagnostic>) {
        let mut live = vec![false; self.parts.layers.len()];
        for &layer in &order {
            live[layer] = true;
        }
        self.unconnected();
        let mut diagnostics: Vec<Diagnostic> = Vec::new();
        for (layer, mut diagnostic) in self.diagnostics {
            if layer.is_some_and(|l| !live[l]) {
                diagnostic.severity = Severity::Warning;
                diagnostic.message.push_str(" (no Result needs it, so it is ignored)");
            }
            diagnostics.push(diagnostic);
        }
        Diagnostic::sort(&mut diagnostics);
        let of_type = |op_type: &str| {
            let matching = self.parts.layers.iter().enumerate().filter(|(_, l)| l.is(op_type));
            matching.map(|(i, _)| i).collect()
        };
        let resolved = |feeds: SmallVec<[Feed; 3]>| {
            let from = |feed| match feed {
                Feed::From(source) => Some(source),
                _ => None,
            };
            feeds.into_iter().filter_map(from).collect()
        };
        let links = Links {
            parameters: of_type("Parameter"),
            results: of_type("Result"),
            inputs: self.feeds.into_iter().map(resolved).collect(),
            order,
        };
        (links, diagnostics)
    }

    /// Inputs without an edge are errors, except those after the last input with one: optional
    /// inputs that version 10 declares nevertheless, as OpenVINO reads them. An input that
    /// the port map of a body names is not optional.
    fn unconnected(&mut self) {
        for (i, (layer, feeds)) in self.parts.layers.iter().zip(&self.feeds).enumerate() {
            let last = feeds.iter().rposition(|feed| !matches!(feed, Feed::Nothing));
            for (slot, feed) in feeds.iter().enumerate() {
                let is_left_out = last.is_some_and(|last| slot > last) && !feeds_body(layer, slot);
                let is_usual = is_left_out && self.parts.version == Version::V10;
                if !matches!(feed, Feed::Nothing) || is_usual {
                    continue;
                }
                let at = layer.inputs.get(slot).map_or(layer.at, |p| p.at);
                let message = format!("no edge leads into input {slot}");
                let diagnostic = if is_left_out {
                    let message = format!("{message}, which is left out");
                    Diagnostic::warning(Code::Unconnected, at, message)
                } else {
                    Diagnostic::error(Code::Unconnected, at, message)
                };
                self.diagnostics.push((Some(i), diagnostic.of(layer)));
            }
        }
    }
}

/// Whether the port map of a body names an input.
fn feeds_body(layer: &Layer, slot: usize) -> bool {
    let mut entries = layer.bodies.iter().flat_map(|body| &body.inputs);
    entries.any(|entry| usize::try_from(entry.external_port) == Ok(slot))
}

fn duplicate_ports(
    layer: &Layer,
    ports: impl Iterator<Item = (u64, ByteOffset)>,
    mut report: impl FnMut(Diagnostic),
) {
    let mut seen = SmallVec::<[u64; 8]>::new();
    for (id, at) in ports {
        if seen.contains(&id) {
            let message = format!("two ports have the id {id}");
            report(Diagnostic::error(Code::DuplicatePort, at, message).of(layer));
        }
        seen.push(id);
    }
}

fn port_list(ids: impl Iterator<Item = u64>) -> String {
    let ids: Vec<String> = ids.map(|id| id.to_string()).collect();
    match ids.len() {
        0 => "none".to_owned(),
        1 => format!("port {}", ids[0]),
        _ => format!("ports {}", ids.join(", ")),
    }
}

fn cycle(layers: &[Layer], circle: &[usize]) -> Diagnostic {
    // The walk goes from consumers to producers; data flows the other way.
    let mut names: Vec<String> =
        circle.iter().rev().map(|&i| format!("\"{}\"", layers[i].name)).collect();
    names.extend(names.first().cloned());
    let first = circle.first().map(|&i| &layers[i]);
    let message = format!("layers depend on each other in a cycle: {}", names.join(" -> "));
    let at = first.map_or(ByteOffset(0), |layer| layer.at);
    let diagnostic = Diagnostic::error(Code::Cycle, at, message);
    match first {
        Some(layer) => diagnostic.of(layer),
        None => diagnostic,
    }
}
