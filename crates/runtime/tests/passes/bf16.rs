//! bf16 propagation: results that only bf16 convolutions read are stored as bf16; the bits stay.

use super::{binary, constant, numbers, unary};
use infer::Inputs;
use ir::ElementType::F32;
use ir::{Graph, GraphBuilder, OutputRef};
use irrun_runtime::{Options, Precision, Tensor};

fn convolution(
    g: &mut GraphBuilder,
    x: OutputRef,
    dims: [u64; 4],
    (stride, pad): (&'static str, &'static str),
) -> OutputRef {
    let filters = constant(g, &dims, dims[0] as usize);
    let windows =
        [("strides", stride), ("dilations", "1,1"), ("pads_begin", pad), ("pads_end", pad)];
    let y = g.layer("Convolution", "opset1").attributes(&windows).inputs(&[x, filters]).output();
    let bias = constant(g, &[1, dims[0], 1, 1], 7);
    binary(g, "Add", y, bias)
}

fn pool(g: &mut GraphBuilder, x: OutputRef, kind: &str) -> OutputRef {
    let mut windows = vec![
        ("kernel", "3,3"),
        ("strides", "2,2"),
        ("pads_begin", "1,1"),
        ("pads_end", "1,1"),
        ("rounding_type", "floor"),
    ];
    if kind == "AvgPool" {
        windows.push(("exclude-pad", "true"));
    }
    g.layer(kind, "opset1").attributes(&windows).inputs(&[x]).output()
}

/// The beginning of a ResNet. `more` also reads the result of its second convolution.
fn network(
    kind: &str,
    more: impl Fn(&mut GraphBuilder, OutputRef, OutputRef) -> OutputRef,
) -> Graph {
    let mut g = GraphBuilder::new("rounded");
    let x = g.parameter("x", F32, "2,3,37,29");
    let y = convolution(&mut g, x, [32, 3, 7, 7], ("2,2", "3,3"));
    let y = unary(&mut g, "Relu", y);
    let y = pool(&mut g, y, kind);
    let one = convolution(&mut g, y, [64, 32, 1, 1], ("1,1", "0,0"));
    let one = unary(&mut g, "Relu", one);
    let two = convolution(&mut g, one, [48, 64, 3, 3], ("1,1", "1,1"));
    let two = more(&mut g, one, two);
    g.result("y", two);
    g.finish().unwrap()
}

/// The bits of the result in bf16, in the first run and in the second, and how many results are
/// stored as bf16.
fn run(graph: &Graph, optimize: bool) -> (Vec<u32>, String) {
    let facts = infer::propagate(graph, &Inputs::default()).unwrap();
    let options = Options { optimize, precision: Precision::Bf16, ..Options::default() };
    let plan = irrun_runtime::compile_with(graph, &facts, &options).unwrap();
    let input = Tensor::from_vec(&[2, 3, 37, 29], numbers(2 * 3 * 37 * 29, 1)).unwrap();
    let is_line = |line: &String| line.starts_with("pass bf16 propagation");
    let line = plan.explain().into_iter().find(is_line).unwrap_or_default();
    let mut session = plan.session();
    let mut bits = || -> Vec<u32> {
        let outputs = session.run(std::slice::from_ref(&input)).unwrap();
        outputs[0].as_slice::<f32>().unwrap().iter().map(|x| x.to_bits()).collect()
    };
    let first = bits();
    assert_eq!(first, bits());
    (first, line)
}

#[track_caller]
fn check(graph: &Graph, rounded: usize) {
    let (found, line) = run(graph, true);
    let (written, _) = run(graph, false);
    assert!(found == written, "other bits than as it is written");
    let rounded = if Precision::Bf16.keeps_pairs() { rounded } else { 0 };
    assert_eq!(line, format!("pass bf16 propagation: {rounded}"));
}

#[test]
fn convolutions_round_for_convolutions_through_the_largest_of_windows() {
    check(&network("MaxPool", |_, _, two| two), 2);
}

/// AvgPool needs f32, and what other nodes read stays f32.
#[test]
fn what_others_read_stays() {
    check(&network("AvgPool", |_, _, two| two), 1);
    let add = |g: &mut GraphBuilder, one: OutputRef, two: OutputRef| {
        let other = convolution(g, one, [48, 64, 1, 1], ("1,1", "0,0"));
        binary(g, "Maximum", two, other)
    };
    check(&network("MaxPool", add), 2);
    let result = |g: &mut GraphBuilder, one: OutputRef, two: OutputRef| {
        g.result("one", one);
        two
    };
    check(&network("MaxPool", result), 1);
    let sum = |g: &mut GraphBuilder, one: OutputRef, two: OutputRef| {
        let three = convolution(g, two, [64, 48, 1, 1], ("1,1", "0,0"));
        binary(g, "Add", three, one)
    };
    check(&network("MaxPool", sum), 2);
}

/// Convolutions without input channels have nothing to convert.
#[test]
fn convolutions_of_no_channels() {
    for (kind, filters) in [("Convolution", [3, 0, 3]), ("ConvolutionBackpropData", [0, 3, 3])] {
        let mut g = GraphBuilder::new("none");
        let x = g.parameter("x", F32, "1,0,5");
        let filters = g.constant_f32(&filters, &[]);
        let windows =
            [("strides", "1"), ("dilations", "1"), ("pads_begin", "1"), ("pads_end", "1")];
        let y = g.layer(kind, "opset1").attributes(&windows).inputs(&[x, filters]).output();
        g.result("y", y);
        let graph = g.finish().unwrap();
        let facts = infer::propagate(&graph, &Inputs::default()).unwrap();
        for optimize in [true, false] {
            let options = Options { optimize, precision: Precision::Bf16, ..Options::default() };
            let plan = irrun_runtime::compile_with(&graph, &facts, &options).unwrap();
            let x = Tensor::from_vec(&[1, 0, 5], Vec::<f32>::new()).unwrap();
            let y = plan.session().run(&[x]).unwrap();
            assert_eq!((y[0].sizes(), y[0].as_slice()), (&[1, 3, 5][..], Some(&[0f32; 15][..])));
        }
    }
}
