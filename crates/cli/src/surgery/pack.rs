//! A `.bin` that holds each constant once, and nothing else.

use super::assemble_with;
use ir::{Body, Diagnostics, Graph, Layer, Parts, Weights};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// Constants begin at multiples of this, as OpenVINO writes them.
const ALIGNMENT: usize = 64;

/// The range of the `.bin` that a layer names.
pub(crate) fn range(layer: &Layer) -> Option<(u64, u64)> {
    if layer.bytes.is_some() {
        return None;
    }
    let number = |key| layer.attribute(key).and_then(|text| text.trim().parse().ok());
    number("offset").zip(number("size"))
}

/// The same graph over weights of its own, in which equal constants are one.
///
/// # Errors
/// What is wrong with the structure of a body.
pub(crate) fn packed(graph: &Graph) -> Result<Graph, Diagnostics> {
    let mut pack = Pack { graph, bytes: Vec::new(), places: HashMap::new() };
    let mut all = graph.parts().clone();
    pack.layers(&mut all.layers);
    let weights = Arc::new(Weights::from_bytes(pack.bytes));
    over(graph, all, &weights)
}

/// Assembles parts and the bodies in them over weights.
fn over(graph: &Graph, mut all: Parts, weights: &Arc<Weights>) -> Result<Graph, Diagnostics> {
    for body in all.layers.iter_mut().flat_map(|layer| &mut layer.bodies) {
        body.graph = over(&body.graph, body.graph.parts().clone(), weights)?;
    }
    assemble_with(graph, all, Arc::clone(weights))
}

struct Pack<'a> {
    graph: &'a Graph,
    bytes: Vec<u8>,
    /// Where bytes of a hash are: offset and length.
    places: HashMap<u64, Vec<(usize, usize)>>,
}

impl Pack<'_> {
    /// Takes the constants of layers and of their bodies along.
    fn layers(&mut self, layers: &mut [Layer]) {
        for layer in layers {
            if let Some((offset, size)) = range(layer) {
                // What is not there stays what it is: a check tells of it.
                if let Ok(bytes) = self.graph.weights().range(offset, size) {
                    let place = self.place(bytes).to_string();
                    let data = layer.data.iter_mut().filter(|(key, _)| key == "offset");
                    data.for_each(|(_, value)| value.clone_from(&place));
                }
            }
            for body in &mut layer.bodies {
                self.body(body);
            }
        }
    }

    fn body(&mut self, body: &mut Body) {
        let mut inner = body.graph.parts().clone();
        self.layers(&mut inner.layers);
        if let Ok(graph) = super::assemble(&body.graph, inner) {
            body.graph = graph;
        }
    }

    /// Where bytes are, put there if they are not yet.
    fn place(&mut self, bytes: &[u8]) -> usize {
        let mut hasher = DefaultHasher::new();
        bytes.hash(&mut hasher);
        let known = self.places.entry(hasher.finish()).or_default();
        let same = |(start, len): &&(usize, usize)| {
            self.bytes.get(*start..start + len).is_some_and(|there| there == bytes)
        };
        if let Some((start, _)) = known.iter().find(same) {
            return *start;
        }
        let start = self.bytes.len().next_multiple_of(ALIGNMENT);
        self.bytes.resize(start, 0);
        self.bytes.extend_from_slice(bytes);
        known.push((start, bytes.len()));
        start
    }
}
