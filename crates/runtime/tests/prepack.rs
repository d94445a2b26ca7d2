//! Weights are packed once for all shapes and sessions. Not next to the code: unit tests that
//! compile plans would have all kernels compiled again for them.

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
    assert_eq!(first.prepared(), 0);
    for session in [&mut second, &mut first] {
        assert_eq!(session.run(&input).unwrap(), expected);
        assert_eq!(session.prepared(), 1);
    }
}

/// Many rows read weights of f16 in another layout than few. They are packed in the second run
/// nevertheless, and in one layout only.
#[test]
fn a_prompt_and_its_tokens_share_packed_weights() {
    let mut g = GraphBuilder::new("decoder");
    let x = g.parameter("x", ElementType::F32, "?,256");
    let graph = with_halves(g, |g, w| {
        let y = g.layer("MatMul", "opset1").inputs(&[x, w]).output();
        g.result("y", y);
    });
    let mut decoder = session(&graph);
    for (run, rows) in [40, 1, 1, 41, 1, 40].into_iter().enumerate() {
        let input = [ones(&[rows, 256])];
        let outputs = decoder.run(&input).unwrap();
        assert_eq!(outputs, session(&graph).run(&input).unwrap(), "{rows} rows");
        assert_eq!(decoder.prepared(), usize::from(run > 0), "run {run}");
    }
}

/// A graph that reads a matrix of 256 × 300, stored as f16 at an odd offset of the weights.
fn with_halves(mut g: GraphBuilder, of: impl FnOnce(&mut GraphBuilder, ir::OutputRef)) -> Graph {
    let byte = g.constant(ElementType::U8, &[1], &[0]);
    let halves = numbers(256 * 300).into_iter().map(kernels::num::f16::from_f32);
    let bytes: Vec<u8> = halves.flat_map(kernels::num::f16::to_le_bytes).collect();
    let w = g.constant(ElementType::F16, &[256, 300], &bytes);
    let w = g.layer("Convert", "opset1").attribute("destination_type", "f32").inputs(&[w]).output();
    of(&mut g, w);
    g.result("byte", byte);
    g.finish().unwrap()
}

#[test]
fn weights_of_f16_are_read_where_they_lie() {
    let mut g = GraphBuilder::new("embedding");
    let x = g.parameter("x", ElementType::F32, "40,256");
    let row = g.parameter("row", ElementType::I64, "1");
    let graph = with_halves(g, |g, w| {
        let y = g.layer("MatMul", "opset1").inputs(&[x, w]).output();
        let axis = g.constant_i64(&[0]);
        let gathered = g.layer("Gather", "opset8").inputs(&[w, row, axis]).output();
        g.result("y", y);
        g.result("gathered", gathered);
    });
    let mut session = session(&graph);
    let row = Tensor::from_vec(&[1], vec![7i64]).unwrap();
    let weights = numbers(256 * 300);
    for _ in 0..2 {
        let outputs = session.run(&[ones(&[40, 256]), row.clone()]).unwrap();
        assert_eq!(outputs[1].as_slice(), Some(&weights[7 * 300..8 * 300]));
        let sum: f32 = (0..256).map(|i| weights[i * 300 + 299]).sum();
        assert_eq!(outputs[0].as_slice::<f32>().unwrap()[40 * 300 - 1], sum);
    }
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
