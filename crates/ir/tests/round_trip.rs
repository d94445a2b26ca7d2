//! Writing a graph and reading it back gives the same graph.

use irrun_ir::{Element, Graph, Layer, Parts, Port, Version, Weights};
use proptest::collection::vec;
use proptest::prelude::*;
use std::path::Path;
use std::sync::Arc;

/// Text that an XML 1.0 attribute can hold, with everything that needs escaping.
fn text() -> impl Strategy<Value = String> {
    proptest::string::string_regex("[a-zA-Z0-9 <>&\"'/\\\\.,;\n\t\u{e9}\u{4e2d}-]{0,12}").unwrap()
}

fn names() -> impl Strategy<Value = Vec<String>> {
    // A name that ends in a backslash cannot be written (semantics 7.6).
    let name = text().prop_map(|t| t.trim_end_matches('\\').to_owned());
    vec(name, 0..3).prop_map(|mut names| {
        names.retain(|n| !n.is_empty() && !n.contains("\\,"));
        names.dedup();
        names
    })
}

fn attributes() -> impl Strategy<Value = Vec<(String, String)>> {
    vec(text(), 0..4).prop_map(|values| {
        values.into_iter().enumerate().map(|(i, v)| (format!("key{i}"), v)).collect()
    })
}

fn element() -> impl Strategy<Value = Element> {
    let leaf = (attributes(), "[a-z]{1,5}").prop_map(|(attributes, name)| Element {
        name,
        attributes,
        ..Element::default()
    });
    leaf.prop_recursive(3, 8, 3, |inner| {
        (attributes(), "[a-z]{1,5}", vec(inner, 0..3)).prop_map(|(attributes, name, children)| {
            Element { name, attributes, children, text: String::new() }
        })
    })
}

fn port() -> impl Strategy<Value = Port> {
    let types: Vec<_> = irrun_ir::ElementType::all().collect();
    (
        vec(-1i64..100, 0..5),
        names(),
        proptest::sample::select(types),
        proptest::option::of(element()),
    )
        .prop_map(|(dims, names, precision, rt_info)| Port {
            id: 0,
            precision: Some(precision),
            dims: dims.into(),
            names,
            rt_info: rt_info.map(|e| Element { name: "rt_info".into(), ..e }.into()),
            ..Port::default()
        })
}

/// A layer without inputs; edges are added by [`graph`].
fn layer() -> impl Strategy<Value = Layer> {
    (text(), attributes(), vec(port(), 1..3), proptest::option::of(element())).prop_map(
        |(name, data, outputs, rt_info)| Layer {
            name,
            op_type: "Thing".into(),
            version: "opset1".into(),
            data,
            outputs,
            rt_info: rt_info.map(|e| Element { name: "rt_info".into(), ..e }.into()),
            ..Layer::default()
        },
    )
}

/// A chain in which every layer reads some earlier ones.
fn graph() -> impl Strategy<Value = Graph> {
    (text(), vec((layer(), vec(any::<prop::sample::Index>(), 0..3)), 1..8), vec(element(), 0..2))
        .prop_map(|(name, layers, notes)| {
            let mut parts = Parts { name, version: Version::V11, notes, ..Parts::default() };
            for (i, (mut layer, sources)) in layers.into_iter().enumerate() {
                layer.id = 10 * i as u64 + 3;
                let sources = if i == 0 { Vec::new() } else { sources };
                for (slot, source) in sources.iter().enumerate() {
                    let from = &parts.layers[source.index(i)];
                    parts.edges.push(irrun_ir::Edge {
                        from_layer: from.id,
                        from_port: from.outputs[0].id,
                        to_layer: layer.id,
                        to_port: slot as u64,
                        ..irrun_ir::Edge::default()
                    });
                    layer.inputs.push(Port { id: slot as u64, ..Port::default() });
                }
                for (j, port) in layer.outputs.iter_mut().enumerate() {
                    port.id = 100 + j as u64;
                }
                parts.layers.push(layer);
            }
            Graph::assemble(parts, Arc::new(Weights::default()), Arc::default()).unwrap()
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn writing_and_reading_is_the_identity(graph in graph()) {
        let xml = irrun_ir::write_xml(&graph);
        let read = irrun_ir::read_bytes(xml.as_bytes(), Path::new("m.xml"), Arc::new(Weights::default()));
        let read = match read { Ok(g) => g, Err(e) => panic!("{e}\n{xml}") };
        prop_assert_eq!(&read, &graph, "{}", xml);
        prop_assert_eq!(read.order(), graph.order());
    }
}

#[test]
fn weights_are_written_beside_the_xml() {
    let dir = tempfile::tempdir().unwrap();
    let mut g = irrun_ir::GraphBuilder::new("w");
    let c = g.constant(irrun_ir::ElementType::U8, &[3], b"abc");
    g.result("y", c);
    let path = dir.path().join("w.xml");
    irrun_ir::write(&g.finish().unwrap(), &path).unwrap();
    let read = irrun_ir::read(&path).unwrap();
    assert_eq!(read.weights().bytes(), b"abc");
    assert_eq!(read.layers()[0].attribute("size"), Some("3"));
    let missing = dir.path().join("no/such/dir/w.xml");
    let said = irrun_ir::write(&read, &missing).unwrap_err().to_string();
    let bin = missing.with_extension("bin");
    let reason = said.strip_prefix(&format!("{} cannot be written: ", bin.display()));
    // Nor does it name another file.
    assert!(reason.is_some_and(|reason| !reason.contains(['/', '\\'])), "{said}");
}

/// Constants made by the reader are written to the `.bin`, and are then like any other.
#[test]
fn means_are_written_as_constants() {
    let dir = tempfile::tempdir().unwrap();
    let mut g = irrun_ir::GraphBuilder::new("m");
    let x = g.parameter("x", irrun_ir::ElementType::F32, "1,2");
    let c = g.constant(irrun_ir::ElementType::U8, &[3], b"abc");
    let y = g.layer("Thing", "opset1").inputs(&[x, c]).output();
    g.result("y", y);
    let path = dir.path().join("m.xml");
    let plain = g.finish().unwrap();
    let means = "<pre-process><channel><mean value='1'/></channel><channel><mean value='2'/></channel></pre-process></net>";
    let xml = irrun_ir::write_xml(&plain).replace("</net>", means);
    let read = irrun_ir::read_bytes(xml.as_bytes(), &path, Arc::clone(plain.weights())).unwrap();
    irrun_ir::write(&read, &path).unwrap();
    let again = irrun_ir::read(&path).unwrap();
    let op_types =
        |g: &Graph| g.order().iter().map(|&i| g.layers()[i].op_type.clone()).collect::<Vec<_>>();
    assert_eq!(op_types(&again), ["Parameter", "Const", "Subtract", "Const", "Thing", "Result"]);
    assert_eq!(op_types(&again), op_types(&read));
    let mean = again.layers().iter().find(|l| l.name == "pre-process/x/mean").unwrap();
    assert_eq!(mean.attribute("offset"), Some("64"));
    assert_eq!(again.weights().bytes()[64..], [1f32.to_le_bytes(), 2f32.to_le_bytes()].concat());
    irrun_ir::write(&again, &path).unwrap();
    assert_eq!(irrun_ir::read(&path).unwrap(), again);
}
