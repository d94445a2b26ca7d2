//! Graphs of anything through inference.

use super::graphs;
use super::xml::analyse;

/// The graph that bytes describe, as people read it.
pub fn text(data: &[u8]) -> String {
    graphs::wild(data).map(|grown| grown.text()).unwrap_or_default()
}

/// Whatever a graph holds, what is known of it can be told, or what is wrong with it.
pub fn propagate(data: &[u8]) {
    if let Some(grown) = graphs::wild(data) {
        analyse(&grown.graph);
    }
}
