//! A `model.xml`: reads it, writes it again, and visits all its content.

use infer::Inputs;
use ir::{Diagnostic, Diagnostics, Graph, Weights};
use std::path::Path;
use std::sync::Arc;

/// Any bytes are a graph or an error with a message. A graph of a current version is the same after
/// writing and reading it again.
pub fn xml(data: &[u8]) {
    let weights = || Arc::new(Weights::from_bytes((0..=255).collect()));
    let path = Path::new("model.xml");
    let graph = match ir::read_bytes(data, path, weights()) {
        Ok(graph) => graph,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    analyse(&graph);
    // Constants made by the reader are behind the weights that are written with the text.
    let is_made = graph.layers().iter().any(|layer| layer.bytes.is_some());
    if graph.legacy_version().is_none() && !is_made {
        let text = ir::write_xml(&graph);
        match ir::read_bytes(text.as_bytes(), path, weights()) {
            Ok(again) => assert!(graph == again, "another graph is read:\n{text}"),
            Err(error) => panic!("what was written is not read: {error}\n{text}"),
        }
    }
}

/// Findings as text.
pub(super) fn told(graph: &Graph, findings: &[Diagnostic]) -> String {
    match findings {
        [] => String::new(),
        findings => Diagnostics::new(Arc::clone(graph.source()), findings.to_vec()).to_string(),
    }
}

/// All findings of inference can be printed.
pub(super) fn analyse(graph: &Graph) {
    for nominal in [false, true] {
        let analysis = infer::analyse(graph, &Inputs { nominal, ..Inputs::default() });
        assert_eq!(told(graph, &analysis.findings).is_empty(), analysis.findings.is_empty());
        for (layer, node) in graph.layers().iter().zip(0..) {
            let node = analysis.facts.node(node);
            let facts = node.iter().flat_map(|node| &node.outputs);
            assert!(
                facts.map(|fact| fact.to_string().len()).all(|len| len > 0),
                "{}",
                layer.title()
            );
        }
    }
}
