//! A `.bin` that is not there is one finding, whatever the number of constants.

use infer::{Inputs, analyse};
use ir::{Code, GraphBuilder, Weights};
use std::path::Path;
use std::sync::Arc;

#[test]
fn a_missing_bin_is_reported_once() {
    let mut g = GraphBuilder::new("m");
    let a = g.constant_f32(&[2], &[1.0, 2.0]);
    let b = g.constant_f32(&[2], &[3.0, 4.0]);
    let empty = g.constant_f32(&[0], &[]);
    let sum = g.layer("Add", "opset1").inputs(&[a, b]).output();
    g.result("sum", sum);
    g.result("empty", empty);
    let xml = ir::write_xml(&g.finish().unwrap());

    let missing = Arc::new(Weights::open(Path::new("no such directory/m.bin")));
    let graph = ir::read_bytes(xml.as_bytes(), Path::new("m.xml"), missing).unwrap();
    let findings = analyse(&graph, &Inputs::default()).findings;
    let [finding] = &findings[..] else { panic!("{findings:?}") };
    assert_eq!(finding.code, Code::Weights);
    assert_eq!(
        finding.message,
        "m.bin is missing; it belongs beside the .xml; 2 constants need it"
    );
}
