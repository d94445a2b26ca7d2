//! Compares a `.bin` with the ranges of it that the layers name.

use crate::graph::Graph;
use crate::problem::{At, Code, Problem};

/// Bytes after the last constant that need no explanation: writers pad to a page at most.
const PADDING: u64 = 4096;

/// A warning when the `.bin` goes on long after the last constant: it then is most likely the
/// `.bin` of another model.
pub(crate) fn unused_weights(graph: &Graph) -> Option<Problem> {
    let len = u64::try_from(graph.weights().bytes().len()).unwrap_or(u64::MAX);
    let reach = reach(graph);
    let unused = len.saturating_sub(reach);
    (unused > PADDING).then(|| {
        let name = graph.weights().name();
        let message = format!(
            "{name} has {len} bytes, but no constant reaches beyond byte {reach}; {unused} bytes \
             are unused, so it may belong to another model"
        );
        Problem::warning(Code::UnusedWeights, At(0), message)
    })
}

/// The end of the last range that a layer of the graph or of a body names. Layers that nothing
/// needs count too: their bytes are in the file for a reason.
fn reach(graph: &Graph) -> u64 {
    let number = |text: Option<&str>| text.and_then(|t| t.trim().parse::<u64>().ok());
    let ends = graph.layers().iter().map(|layer| {
        let range = (number(layer.attribute("offset")), number(layer.attribute("size")));
        let own = match range {
            (Some(offset), Some(size)) => offset.saturating_add(size),
            _ => 0,
        };
        layer.bodies.iter().map(|body| reach(&body.graph)).fold(own, u64::max)
    });
    ends.max().unwrap_or(0)
}
