//! A `.bin` that is missing or too short is one finding, whatever the number of constants.

use ir::{Code, Diagnostic, GraphBuilder, Weights};
use irrun_infer::{Inputs, analyse};
use std::path::Path;
use std::sync::Arc;

/// The findings in a model of two constants of 8 bytes and an empty one.
fn findings(weights: Weights) -> Vec<Diagnostic> {
    let mut g = GraphBuilder::new("m");
    let a = g.constant_f32(&[2], &[1.0, 2.0]);
    let b = g.constant_f32(&[2], &[3.0, 4.0]);
    let empty = g.constant_f32(&[0], &[]);
    let sum = g.layer("Add", "opset1").inputs(&[a, b]).output();
    g.result("sum", sum);
    g.result("empty", empty);
    let xml = ir::write_xml(&g.finish().unwrap());
    let graph = ir::read_bytes(xml.as_bytes(), Path::new("m.xml"), Arc::new(weights)).unwrap();
    analyse(&graph, &Inputs::default()).findings
}

#[test]
fn a_missing_bin_is_reported_once() {
    let findings = findings(Weights::open(Path::new("no such directory/m.bin")));
    let [finding] = &findings[..] else { panic!("{findings:?}") };
    assert_eq!(finding.code, Code::Weights);
    assert_eq!(
        finding.message,
        "m.bin is missing; it belongs beside the .xml; 2 constants need it"
    );
}

#[test]
fn a_missing_end_is_reported_once() {
    assert_eq!(findings(Weights::from_bytes(vec![0; 16])), []);
    let both = findings(Weights::from_bytes(vec![0; 5]));
    let [finding] = &both[..] else { panic!("{both:?}") };
    assert_eq!(finding.code, Code::Weights);
    let said = "its end is missing from \"Const_0\" on, 11 bytes after the 5 that are there; \
                2 constants need it";
    assert!(finding.message.ends_with(said), "{}", finding.message);
    // For a single constant the finding has more detail.
    let one = findings(Weights::from_bytes(vec![0; 15]));
    let [finding] = &one[..] else { panic!("{one:?}") };
    assert!(finding.message.starts_with("bytes 8..16 lie outside"), "{finding:?}");
    assert!(finding.layer.is_some());
}
