//! Weights are packed once for all shapes and sessions. Not beside the code: unit tests that compile
//! plans would have all kernels compiled again for them.

use ir::{ElementType, Graph, GraphBuilder};
use irrun_runtime::{Options, Session, Tensor, compile, compile_sharing, compile_with};

fn ones(sizes: &[usize]) -> Tensor {
    Tensor::from_vec(sizes, vec![1f32; sizes.iter().product()]).unwrap()
}

fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|i| (i % 13) as f32 - 6.0).collect()
}

fn session(graph: &Graph) -> Session {
    let facts = infer::propagate(graph, &infer::Inputs::default()).unwrap();
    compile(graph, &facts).unwrap().session()
}

/// Runs many shapes twice and counts what was packed. A session for each single shape gives the
/// same outputs.
fn shapes(graph: &Graph, sizes: impl Fn(usize) -> Vec<usize>, prepared: usize) {
    let mut many = session(graph);
    for size in (1..=40).flat_map(|size| [size, size]) {
        let input = [ones(&sizes(size))];
        let outputs = many.run(&input).unwrap();
        assert_eq!(outputs, session(graph).run(&input).unwrap(), "{:?}", sizes(size));
        assert!(many.prepared() <= prepared, "{} at size {size}", many.prepared());
    }
    assert_eq!(many.prepared(), prepared);
}

#[test]
fn sessions_beside_each_other_share_packed_weights() {
    let mut g = GraphBuilder::new("product");
    let x = g.parameter("x", ElementType::F32, "32,70");
    let w = g.constant_f32(&[70, 90], &numbers(70 * 90));
    let y = g.layer("MatMul", "opset1").inputs(&[x, w]).output();
    g.result("y", y);
    let graph = g.finish().unwrap();
    let facts = infer::propagate(&graph, &infer::Inputs::default()).unwrap();
    let options = Options::default();
    let first = compile_with(&graph, &facts, &options).unwrap();
    let second = compile_sharing(&first, &graph, &facts, &options).unwrap();
    let (mut first, mut second) = (first.session(), second.session());
    let input = [ones(&[32, 70])];
    let expected = first.run(&input).unwrap();
    let prepared = first.prepared();
    assert_eq!(prepared, 1);
    assert_eq!(second.run(&input).unwrap(), expected);
    assert_eq!(second.prepared(), prepared);
}

#[test]
fn shapes_share_a_packed_matrix() {
    let mut g = GraphBuilder::new("product");
    let x = g.parameter("x", ElementType::F32, "?,70");
    let w = g.constant_f32(&[70, 30], &numbers(2100));
    let y = g.layer("MatMul", "opset1").inputs(&[x, w]).output();
    g.result("y", y);
    shapes(&g.finish().unwrap(), |rows| vec![rows, 70], 1);
}

/// Also weights that are unaligned in the file: a plan with a dynamic shape reads the same
/// packed matrix as the others.
#[test]
fn shapes_share_a_packed_matrix_that_lies_anywhere() {
    let mut g = GraphBuilder::new("stray");
    let x = g.parameter("x", ElementType::F32, "?,300");
    let byte = g.constant(ElementType::U8, &[1], &[0]);
    let w = g.constant_f32(&[300, 70], &numbers(21000));
    let y = g.layer("MatMul", "opset1").inputs(&[x, w]).output();
    g.result("byte", byte);
    g.result("y", y);
    shapes(&g.finish().unwrap(), |rows| vec![rows, 300], 1);
}

#[test]
fn shapes_share_packed_filters() {
    let mut g = GraphBuilder::new("convolution");
    let x = g.parameter("x", ElementType::F32, "1,3,?,8");
    let w = g.constant_f32(&[5, 3, 1, 1], &numbers(15));
    let attributes =
        [("strides", "1,1"), ("dilations", "1,1"), ("pads_begin", "0,0"), ("pads_end", "0,0")];
    let y = g.layer("Convolution", "opset1").attributes(&attributes).inputs(&[x, w]).output();
    g.result("y", y);
    shapes(&g.finish().unwrap(), |rows| vec![1, 3, rows, 8], 1);
}

#[test]
fn shapes_share_decompressed_weights() {
    let mut g = GraphBuilder::new("compressed");
    let x = g.parameter("x", ElementType::F32, "?,1024");
    let bytes: Vec<u8> = (0..1024 * 512).map(|i| (i % 7) as u8).collect();
    let w = g.constant(ElementType::U8, &[1024, 512], &bytes);
    let w = g.layer("Convert", "opset1").attribute("destination_type", "f32").inputs(&[w]).output();
    let y = g.layer("MatMul", "opset1").inputs(&[x, w]).output();
    g.result("y", y);
    shapes(&g.finish().unwrap(), |rows| vec![rows, 1024], 2);
}
