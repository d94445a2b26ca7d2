//! Graphs that are made from others: parts of them, packed weights, dims declared anew.

pub(crate) mod compress;
pub(crate) mod declare;
pub(crate) mod induced;
pub(crate) mod pack;
pub(crate) mod written;

use crate::exit::{Exit, Failure, OrExit};
use crate::out;
use anyhow::anyhow;
use ir::{Diagnostics, Graph, Parts, Weights};
use std::path::Path;
use std::sync::Arc;

/// Assembles parts whose constants lie where those of `graph` do.
///
/// # Errors
/// What is wrong with their structure.
pub(crate) fn assemble(graph: &Graph, parts: Parts) -> Result<Graph, Diagnostics> {
    assemble_with(graph, parts, Arc::clone(graph.weights()))
}

/// As [`assemble`], with other weights.
///
/// # Errors
/// As [`assemble`].
pub(crate) fn assemble_with(
    graph: &Graph,
    parts: Parts,
    weights: Arc<Weights>,
) -> Result<Graph, Diagnostics> {
    let source = Arc::clone(graph.source());
    Graph::assemble(parts, weights, Arc::clone(&source))
        .map_err(|list| Diagnostics::new(source, list))
}

/// The parts of a graph without layers that nothing needs.
pub(crate) fn needed(graph: &Graph) -> Parts {
    let mut live = vec![false; graph.layers().len()];
    graph.order().iter().for_each(|&position| live[position] = true);
    // An input that nothing reads is part of the interface.
    graph.parameters().iter().for_each(|&position| live[position] = true);
    let mut parts = graph.parts().clone();
    let ids: Vec<u64> =
        parts.layers.iter().zip(&live).filter(|(_, l)| **l).map(|(l, _)| l.id).collect();
    let kept: std::collections::HashSet<u64> = ids.into_iter().collect();
    parts.layers.retain(|layer| kept.contains(&layer.id));
    parts.edges.retain(|e| kept.contains(&e.from_layer) && kept.contains(&e.to_layer));
    parts
}

/// Writes a graph with no more weights than it needs; refuses to write over the model it is from.
///
/// # Errors
/// When a file cannot be written.
pub(crate) fn write(graph: &Graph, model: &Path, path: &Path) -> Result<(), Failure> {
    if out::is_standard_output(path) {
        let error = anyhow!("a model is two files, an .xml and a .bin; give the name of an .xml");
        return Err(Failure { exit: Exit::Usage, error });
    }
    let bin = path.with_extension("bin");
    out::keep_apart(&[path, &bin], &out::of_model(model)).or_exit(Exit::Usage)?;
    let packed = pack::packed(graph).or_exit(Exit::Model)?;
    out::make_dir(out::dir_of(path)).or_exit(Exit::Input)?;
    ir::write(&packed, path).or_exit(Exit::Input)
}
