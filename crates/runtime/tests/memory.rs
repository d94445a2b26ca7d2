//! What no machine has memory for is refused with the layer's name, before anything is allocated.

use infer::{Inputs, propagate};
use ir::ElementType::F32;
use ir::{GraphBuilder, Severity};
use runtime::compile;

/// A scalar broadcast to one dim.
fn broadcast(size: i64) -> ir::Graph {
    let mut g = GraphBuilder::new("large");
    let x = g.parameter("x", F32, "1");
    let target = g.constant_i64(&[size]);
    let y = g.layer("Broadcast", "opset3").attribute("mode", "numpy").inputs(&[x, target]).output();
    g.result("y", y);
    g.finish().unwrap()
}

#[test]
fn more_than_the_machine_has() {
    let graph = broadcast(1 << 50);
    let facts = propagate(&graph, &Inputs::default()).unwrap();
    let Err(problems) = compile(&graph, &facts) else { panic!("it has been given 4 PB") };
    let [problem] = problems.list() else { panic!("{problems}") };
    assert_eq!(problem.severity, Severity::Error);
    assert!(problem.subject.as_deref().is_some_and(|s| s.starts_with("Broadcast")), "{problem:?}");
    assert!(problem.message.contains("no memory for the output f32[1125899906842624]"));
}

#[test]
fn more_than_any_machine_has() {
    let error = propagate(&broadcast(1 << 60), &Inputs::default()).unwrap_err().to_string();
    assert!(error.contains("would not fit any memory"), "{error}");
}
