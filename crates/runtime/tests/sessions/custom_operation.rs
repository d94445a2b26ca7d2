//! Custom operations: the example runs, and its operation works in a body, without optimisation,
//! and for shapes known only at run time.

use irrun_runtime::infer::{self, Extensions, Inputs};
use irrun_runtime::ir::{Body, ElementType, Graph, GraphBuilder, OutputRef, PortMap, Role};
use irrun_runtime::{Options, Tensor, compile_with, ir, register};

#[path = "../../examples/custom_operation.rs"]
mod example;

use example::Cube;

fn extended() -> Inputs {
    let mut extensions = Extensions::default();
    register::<Cube>(&mut extensions, "Cube", "extension");
    Inputs { extensions, ..Inputs::default() }
}

fn cube(g: &mut GraphBuilder, x: OutputRef) -> OutputRef {
    g.layer("Cube", "extension").name("c").inputs(&[x]).output()
}

/// Runs a graph of one input, optimised and as written.
fn run(graph: &Graph, x: &[f32]) -> Vec<Vec<f32>> {
    let facts = infer::propagate(graph, &extended()).unwrap();
    let runs = [true, false].map(|optimize| {
        let plan =
            compile_with(graph, &facts, &Options { optimize, ..Options::default() }).unwrap();
        let outputs = plan.session().run(&[Tensor::from_vec(&[x.len()], x.to_vec()).unwrap()]);
        let outputs = outputs.unwrap();
        outputs.iter().map(|y| y.as_slice().unwrap().to_vec()).collect::<Vec<Vec<f32>>>()
    });
    assert_eq!(runs[0], runs[1]);
    runs[0].clone()
}

#[test]
fn the_example_runs() {
    example::main().unwrap();
}

#[test]
fn behind_a_shape_that_the_data_decides() {
    let mut g = GraphBuilder::new("late");
    let x = g.parameter("x", ElementType::F32, "?");
    let positions = g.layer("NonZero", "opset3").attribute("output_type", "i64").inputs(&[x]);
    let positions = positions.output();
    let to = [("destination_type", "f32")];
    let floats = g.layer("Convert", "opset1").attributes(&to).inputs(&[positions]).output();
    let y = cube(&mut g, floats);
    g.result("y", y);
    assert_eq!(run(&g.finish().unwrap(), &[1.0, 0.0, 5.0, 2.0]), [[0.0, 8.0, 27.0]]);
}

#[test]
fn in_the_body_of_a_loop() {
    let mut inner = GraphBuilder::new("body");
    let x = inner.parameter("x", ElementType::F32, "?");
    let y = cube(&mut inner, x);
    inner.result("y", y);
    let inner = inner.finish().unwrap();
    let id = |position: usize| inner.layers()[position].id;
    let slice = ir::Slice { axis: 0, start: 0, end: -1, stride: 1, part_size: 1 };
    let map = |internal_layer, external_port| PortMap {
        external_port,
        internal_layer,
        slice: Some(slice),
        ..PortMap::default()
    };
    let body = Body {
        role: Role::Body,
        inputs: vec![map(id(inner.parameters()[0]), 0)],
        outputs: vec![map(id(inner.results()[0]), 0)],
        back_edges: Vec::new(),
        graph: inner,
    };
    let mut g = GraphBuilder::new("loop");
    let x = g.parameter("x", ElementType::F32, "3");
    let y = g.layer("TensorIterator", "opset1").inputs(&[x]).body(body).output();
    g.result("y", y);
    assert_eq!(run(&g.finish().unwrap(), &[1.0, 2.0, -3.0]), [[1.0, 8.0, -27.0]]);
}

#[test]
fn errors_name_the_layer() {
    let graph = |element_type, version: &str| {
        let mut g = GraphBuilder::new("wrong");
        let x = g.parameter("x", element_type, "2");
        let layer = g.layer("Cube", version).name("c").attribute("scales", "1");
        let y = layer.inputs(&[x]).output();
        g.result("y", y);
        g.finish().unwrap()
    };
    let error = |graph: &Graph, inputs: &Inputs| {
        infer::propagate(graph, inputs).unwrap_err().to_string().replace('\n', " ")
    };
    let cubes = graph(ElementType::I64, "extension");
    assert_eq!(
        error(&cubes, &extended()),
        "Cube \"c\" (extension, layer 1), input 0 (data): must be f32, not i64   inputs: i64[2]"
    );
    // Unread attributes are findings, as for any operation.
    let known = graph(ElementType::F32, "extension");
    let findings = infer::analyse(&known, &extended()).findings;
    assert_eq!(findings[0].message, "Cube has no attribute scales; it is ignored");
    // Without the extension, or in another version, the message does not mention extensions.
    let none = "there is no operation Cube; `irrun ops` lists those there are";
    for (graph, inputs) in
        [(&known, Inputs::default()), (&graph(ElementType::F32, "opset1"), extended())]
    {
        assert!(error(graph, &inputs).ends_with(none));
    }
}
