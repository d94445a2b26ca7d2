//! Broken files: whatever an attribute holds, reading, inferring, compiling and running end with a
//! result or an error, never with a panic.

use infer::{Facts, Inputs};
use ir::Graph;
use irrun_runtime::{Options, Tensor};
use std::path::Path;

/// Values that replace attributes, besides other values of the same file.
const VALUES: &[&str] = &[
    "",
    "0",
    "-1",
    "1",
    "2",
    "7",
    "1000",
    "-2147483649",
    "9223372036854775807",
    "-9223372036854775808",
    "99999999999999999999",
    "nan",
    "-inf",
    "1e400",
    "0.5",
    "true",
    "f16",
    "u1",
    "string",
    "0,0",
    "1,-1,2",
    "3..1",
    "?",
    "opset99",
    "é",
];

/// The most elements of a tensor that is run.
const SMALL: usize = 1 << 14;

/// A pseudorandom number below `bound`.
fn draw(state: &mut u64, bound: usize) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state % bound.max(1) as u64) as usize
}

/// The text with one attribute changed, or with a line removed or doubled.
fn broken(text: &str, state: &mut u64) -> String {
    if draw(state, 8) == 0 {
        let mut lines: Vec<&str> = text.lines().collect();
        let at = draw(state, lines.len());
        match draw(state, 2) {
            0 => drop(lines.remove(at)),
            _ => lines.insert(at, lines[at]),
        }
        return lines.join("\n");
    }
    // Attribute values are the parts between an odd quotation mark and the next.
    let parts: Vec<&str> = text.split('"').collect();
    let values = parts.len() / 2;
    let at = 2 * draw(state, values) + 1;
    let value = match draw(state, 3) {
        0 => parts[2 * draw(state, values) + 1],
        _ => VALUES[draw(state, VALUES.len())],
    };
    let mut parts = parts;
    parts[at] = value;
    parts.join("\"")
}

/// Whether every tensor is known to be small, and nothing loops.
fn is_small(graph: &Graph, facts: &Facts) -> bool {
    graph.order().iter().all(|&layer| {
        let outputs = facts.node(layer).map(|node| &node.outputs[..]).unwrap_or_default();
        let small = |sizes: &[usize]| {
            sizes
                .iter()
                .try_fold(1usize, |all, size| all.checked_mul(*size))
                .is_some_and(|n| n <= SMALL)
        };
        graph.layers()[layer].bodies.is_empty()
            && outputs.iter().all(|fact| fact.shape.sizes().is_some_and(|sizes| small(&sizes)))
    })
}

/// Runs on zeros what compiles.
fn try_all(graph: &Graph) {
    let Ok(facts) = infer::propagate(graph, &Inputs::default()) else { return };
    if !is_small(graph, &facts) {
        return;
    }
    for optimize in [true, false] {
        let options = Options { optimize, ..Options::default() };
        let Ok(plan) = irrun_runtime::compile_with(graph, &facts, &options) else { continue };
        let zeros = |fact: &infer::Fact| {
            Tensor::zeros(fact.element_type, &fact.shape.sizes().unwrap_or_default())
        };
        let inputs: Result<Vec<Tensor>, _> = plan.inputs().map(zeros).collect();
        if let Ok(inputs) = inputs {
            // An error is as good as a result.
            let _ = plan.session().run(&inputs);
        }
    }
}

#[test]
fn nothing_panics() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let mut state = 0x2545_f491_4f6c_dd1d;
    let mut graphs = 0;
    for entry in std::fs::read_dir(fixtures).unwrap() {
        let path = entry.unwrap().path().join("model.xml");
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        let weights = ir::read(&path).unwrap().weights().clone();
        for _ in 0..60 {
            let text = broken(&text, &mut state);
            if let Ok(graph) = ir::read_bytes(text.as_bytes(), &path, weights.clone()) {
                graphs += 1;
                infer::analyse(&graph, &Inputs::default());
                try_all(&graph);
            }
        }
    }
    // Most changes still give a readable file, so the test covers more than the reader.
    assert!(graphs > 500, "{graphs}");
}
