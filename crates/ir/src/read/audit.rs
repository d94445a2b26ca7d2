//! Compares the `.bin` with the ranges of it that layers use.

use crate::diagnostic::{ByteOffset, Code, Diagnostic};
use crate::graph::{Graph, Layer};

/// Bytes after the last constant that are normal: writers pad to a page at most.
const PADDING: u64 = 4096;

/// A warning if the `.bin` is much longer than the last constant. It then most likely belongs to
/// another model.
pub(crate) fn unused_weights(graph: &Graph) -> Option<Diagnostic> {
    let (len, reach) = (length(graph), reach(graph));
    let unused = len.saturating_sub(reach);
    (unused > PADDING).then(|| {
        let name = graph.weights().name();
        let message = format!(
            "{name} has {len} bytes, but no constant reaches beyond byte {reach}; {unused} bytes \
             are unused, so it may belong to another model"
        );
        Diagnostic::warning(Code::UnusedWeights, ByteOffset(0), message)
    })
}

/// If several constants reach past the end of the `.bin`, notes that in the weights: the file has
/// one fault then, not one per constant.
pub(crate) fn find_missing_end(graph: &Graph) {
    let (weights, len) = (graph.weights(), length(graph));
    if weights.unavailable().is_some() {
        return;
    }
    let mut beyond = Vec::new();
    beyond_end(graph, len, &mut beyond);
    let first = beyond.iter().min_by_key(|layer| layer.at.0).filter(|_| beyond.len() > 1);
    if let Some(first) = first {
        let missing = reach(graph).saturating_sub(len);
        weights.blame_missing_end(format!(
            "{} is cut short or belongs to another model: its end is missing from \"{}\" on, \
             {missing} bytes after the {len} that are there",
            weights.name(),
            first.name
        ));
    }
}

/// The needed layers, bodies included, whose bytes are not all in the file.
fn beyond_end<'a>(graph: &'a Graph, len: u64, found: &mut Vec<&'a Layer>) {
    for layer in graph.order().iter().filter_map(|&position| graph.layers().get(position)) {
        // An empty constant needs no bytes, whatever its offset.
        if range(layer).is_some_and(|r| r.1 > 0 && end(r) > len) {
            found.push(layer);
        }
        layer.bodies.iter().for_each(|body| beyond_end(&body.graph, len, found));
    }
}

fn length(graph: &Graph) -> u64 {
    u64::try_from(graph.weights().bytes().len()).unwrap_or(u64::MAX)
}

/// The end of the last range that a layer of the graph or of a body uses. Unneeded layers count
/// too: their bytes are in the file for a reason.
fn reach(graph: &Graph) -> u64 {
    let ends = graph.layers().iter().map(|layer| {
        let own = range(layer).map_or(0, end);
        layer.bodies.iter().map(|body| reach(&body.graph)).fold(own, u64::max)
    });
    ends.max().unwrap_or(0)
}

/// The offset and the size of a layer's bytes.
fn range(layer: &Layer) -> Option<(u64, u64)> {
    if layer.bytes.is_some() {
        return None;
    }
    let number = |key| layer.attribute(key).and_then(|t| t.trim().parse::<u64>().ok());
    number("offset").zip(number("size"))
}

fn end((offset, size): (u64, u64)) -> u64 {
    offset.saturating_add(size)
}
