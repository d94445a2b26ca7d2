//! Floating-point operations count as usual: two for each multiply-add.

use infer::Inputs;
use ir::ElementType::F32;
use ir::{Graph, GraphBuilder};
use irrun_runtime::{Options, Tensor};

/// Operations of each run, with and without passes.
#[track_caller]
fn count(graph: &Graph, input: &[usize], expected: u64) {
    let facts = infer::propagate(graph, &Inputs::default()).unwrap();
    let input = [Tensor::zeros(F32, input).unwrap()];
    for optimize in [true, false] {
        let mut session =
            irrun_runtime::compile_with(graph, &facts, &Options { optimize, ..Options::default() })
                .unwrap()
                .session();
        for runs in 1..=3 {
            session.run(&input).unwrap();
            assert_eq!(session.flops(), runs * expected, "optimize: {optimize}");
        }
    }
}

#[test]
fn a_product() {
    let mut g = GraphBuilder::new("product");
    let x = g.parameter("x", F32, "2,3,4");
    let w = g.constant_f32(&[4, 5], &[1.0; 20]);
    let y = g.layer("MatMul", "opset1").inputs(&[x, w]).output();
    let y = g.layer("Relu", "opset1").inputs(&[y]).output();
    g.result("y", y);
    count(&g.finish().unwrap(), &[2, 3, 4], 2 * (2 * 3 * 4 * 5));
}

#[test]
fn a_convolution_of_a_shape_known_only_while_running() {
    let mut g = GraphBuilder::new("convolution");
    let x = g.parameter("x", F32, "1,3,?,8");
    let w = g.constant_f32(&[5, 3, 3, 3], &[1.0; 135]);
    let window =
        [("strides", "1,1"), ("dilations", "1,1"), ("pads_begin", "0,0"), ("pads_end", "0,0")];
    let y = g.layer("Convolution", "opset1").attributes(&window).inputs(&[x, w]).output();
    g.result("y", y);
    count(&g.finish().unwrap(), &[1, 3, 8, 8], 2 * (6 * 6 * 5 * 27));
}
