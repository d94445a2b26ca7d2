//! One finding per cause: which layers are unknown, or differ from their declaration, because of an
//! earlier finding.

use crate::fact::Fact;
use ir::{Code, Diagnostic, Graph, OutputRef, Port, Severity};
use std::collections::{HashMap, HashSet};

/// The causes that reach the layers visited so far.
pub(crate) struct Causes {
    /// For each layer the error (as index of the findings) that leaves it unknown.
    lost: Vec<Option<usize>>,
    /// For each layer the first upstream finding of a wrong declaration.
    differs: Vec<Option<usize>>,
    /// How many downstream layers each finding explains.
    behind: HashMap<usize, usize>,
    /// The outputs that some layer reads; computed on first use, since most files have no findings.
    read: Option<HashSet<(usize, usize)>>,
}

impl Causes {
    /// Nothing is wrong yet.
    pub(crate) fn new(graph: &Graph) -> Causes {
        let none = || vec![None; graph.layers().len()];
        Causes { lost: none(), differs: none(), behind: HashMap::new(), read: None }
    }

    /// The last of `findings` findings is an error of this layer.
    pub(crate) fn failed(&mut self, layer: usize, findings: usize) {
        if let Some(slot) = self.lost.get_mut(layer) {
            *slot = findings.checked_sub(1);
        }
    }

    /// Whether an error of a layer may be a consequence of an earlier one. Rules hold for any value
    /// of an unknown, so after a missing operation, attribute or constant an error has a cause of
    /// its own. A wrong shape, however, reaches a layer through other paths of the graph too.
    pub(crate) fn explains(
        &mut self,
        graph: &Graph,
        layer: usize,
        error: &Diagnostic,
        findings: &[Diagnostic],
    ) -> bool {
        let of_shapes = |p: &Diagnostic| matches!(p.code, Code::Shape | Code::Type);
        let Some(cause) = first(graph, layer, &self.lost) else { return false };
        of_shapes(error) && findings.get(cause).is_some_and(of_shapes)
    }

    /// The finding that leaves inputs of a layer unknown.
    pub(crate) fn of_inputs(&self, graph: &Graph, layer: usize) -> Option<usize> {
        first(graph, layer, &self.lost)
    }

    /// Notes the causes that a layer inherits from its inputs.
    pub(crate) fn follow(&mut self, graph: &Graph, layer: usize, outputs: &[Fact]) {
        let differs = first(graph, layer, &self.differs);
        if let Some(slot) = self.differs.get_mut(layer) {
            *slot = differs;
        }
        let Some(slot) = self.lost.get(layer) else { return };
        if slot.is_some() {
            return;
        }
        let ports = graph.layers().get(layer).map(|l| l.outputs.as_slice()).unwrap_or_default();
        if !ports.iter().zip(outputs).any(|(port, fact)| says_more(port, fact)) {
            return;
        }
        let cause = first(graph, layer, &self.lost);
        if let (Some(slot), Some(cause)) = (self.lost.get_mut(layer), cause) {
            *slot = Some(cause);
            *self.behind.entry(cause).or_default() += 1;
        }
    }

    /// Whether an output that differs from its declaration is the first one, and so becomes the
    /// next finding. Differences downstream of it are only counted.
    pub(crate) fn differs(&mut self, graph: &Graph, layer: usize, findings: usize) -> bool {
        match first(graph, layer, &self.differs) {
            Some(cause) => {
                *self.behind.entry(cause).or_default() += 1;
                false
            }
            None => {
                if let Some(slot) = self.differs.get_mut(layer) {
                    *slot = Some(findings);
                }
                true
            }
        }
    }

    /// Whether any layer reads an output.
    pub(crate) fn is_read(&mut self, graph: &Graph, output: OutputRef) -> bool {
        let read = self.read.get_or_insert_with(|| {
            let sources = graph.order().iter().flat_map(|&layer| graph.inputs_of(layer));
            sources.map(|source| (source.layer, source.port)).collect()
        });
        read.contains(&(output.layer, output.port))
    }

    /// Writes into each finding the number of layers that it explains.
    pub(crate) fn count(&self, findings: &mut [Diagnostic]) {
        for (&finding, &layers) in &self.behind {
            if let Some(diagnostic) = findings.get_mut(finding) {
                diagnostic.behind = layers;
            }
        }
    }
}

/// The earliest cause among the layers that a layer reads.
fn first(graph: &Graph, layer: usize, causes: &[Option<usize>]) -> Option<usize> {
    let of = |source: &OutputRef| causes.get(source.layer).copied().flatten();
    graph.inputs_of(layer).iter().filter_map(of).min()
}

/// Whether the file declares more of an output than is known.
fn says_more(port: &Port, fact: &Fact) -> bool {
    let declared_type = port.precision.is_some_and(|t| t.is_static());
    let dims = match fact.shape.dims() {
        None => true,
        Some(dims) => port.dims.iter().zip(dims).any(|(&d, dim)| d >= 0 && !dim.is_static()),
    };
    declared_type && !fact.element_type.is_static() || dims
}

/// Merges equal errors of several layers into one with their number. Shapes may differ: `[…]` in a
/// message matches any shape.
pub(crate) fn told_once(findings: Vec<Diagnostic>) -> Vec<Diagnostic> {
    let mut places: HashMap<(Code, String, String), usize> = HashMap::new();
    let mut told: Vec<Diagnostic> = Vec::with_capacity(findings.len());
    for diagnostic in findings {
        let op_type = diagnostic.name_and_type.as_ref().map(|(_, op_type)| op_type.clone());
        let Some(op_type) = op_type.filter(|_| diagnostic.severity != Severity::Note) else {
            told.push(diagnostic);
            continue;
        };
        let key = (diagnostic.code, op_type, without_shapes(&diagnostic));
        match places.get(&key).and_then(|&place| told.get_mut(place)) {
            Some(first) => {
                first.alike += 1 + diagnostic.alike;
                first.behind += diagnostic.behind;
            }
            None => {
                places.insert(key, told.len());
                told.push(diagnostic);
            }
        }
    }
    told
}

/// The message and the port, without shapes.
fn without_shapes(diagnostic: &Diagnostic) -> String {
    let mut text = diagnostic.port.clone().unwrap_or_default();
    let mut inside = false;
    for c in diagnostic.message.chars() {
        inside = (inside || c == '[') && c != ']';
        if !inside {
            text.push(c);
        }
    }
    text
}
