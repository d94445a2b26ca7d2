//! The arguments of `--shape`, `--range` and `--set`.

use super::xml::told;
use cli::bind::Declared;
use cli::ranges::{self, Trial};
use cli::symbolic::{self, Symbols};
use ir::ElementType::F32;
use ir::{Graph, GraphBuilder};
use std::sync::OnceLock;

/// Each line is an argument: `--set=`, `--range=`, or the text of a `--shape`. Together they give
/// shapes of the inputs of a small model, or an error with a message.
pub fn shapes(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (mut shapes, mut ranges, mut sets) = (Vec::new(), Vec::new(), Vec::new());
    for line in text.lines().take(4) {
        match (line.strip_prefix("--set="), line.strip_prefix("--range=")) {
            (Some(set), _) => sets.push(set.to_owned()),
            (None, Some(range)) => ranges.push(range.to_owned()),
            (None, None) => shapes.push(line.to_owned()),
        }
    }
    let trial = Trial::new(!ranges.is_empty(), false);
    if let Ok(symbols) = Symbols::new(model(), &shapes) {
        let runs = symbols.runs(model()).working;
        for &layer in model().order() {
            let tensor = ir::OutputRef { layer, port: 0 };
            assert!(!symbolic::shape(&runs, tensor, &symbols.names).is_empty());
        }
    }
    shapes.extend(ranges);
    let declared = symbolic::substituted(&shapes, &sets);
    let Ok(declared) = declared.map(|shapes| Declared::new(model(), &shapes)) else { return };
    let Ok(declared) = declared else { return };
    let findings = ranges::prove(model(), &declared, trial).expect("threads can be started");
    assert_eq!(told(model(), &findings).is_empty(), findings.is_empty());
}

/// A MatMul of two inputs with dynamic sizes, and a Reshape.
fn model() -> &'static Graph {
    static MODEL: OnceLock<Graph> = OnceLock::new();
    MODEL.get_or_init(|| {
        let mut g = GraphBuilder::new("shapes");
        let (x, y) = (g.parameter("x", F32, "?,3..8,?"), g.parameter("y", F32, "?,2"));
        let flags = [("transpose_a", "false"), ("transpose_b", "false")];
        let product = g.layer("MatMul", "opset1").attributes(&flags).inputs(&[x, y]).output();
        let pattern = g.constant_i64(&[0, -1]);
        let zero = [("special_zero", "true")];
        let z = g.layer("Reshape", "opset1").attributes(&zero).inputs(&[product, pattern]).output();
        g.result("z", z);
        g.finish().unwrap_or_else(|problems| panic!("{problems:?}"))
    })
}
