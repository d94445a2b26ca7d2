//! Wild graphs through inference.

use super::graphs;
use super::xml::analyse;

/// The graph of these bytes as text.
pub fn text(data: &[u8]) -> String {
    graphs::wild(data).map(|grown| grown.text()).unwrap_or_default()
}

/// Whatever a graph contains, its facts and findings can be printed.
pub fn propagate(data: &[u8]) {
    if let Some(grown) = graphs::wild(data) {
        analyse(&grown.graph);
    }
}
