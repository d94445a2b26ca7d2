//! Graphs that a pass nearly recognizes: what it must leave alone, or do in another way.

use super::quantized::{PADDED, fake_quantized, integers};
use super::{binary, check, constant, numbers, plan, unary, with_ints};
use infer::Inputs;
use ir::ElementType::{F16, F32};
use ir::GraphBuilder;
use irrun_runtime::Tensor;

/// An empty order reverses the axes.
#[test]
fn keys_may_be_reversed_without_an_order() {
    let mut g = GraphBuilder::new("attention");
    let x = g.parameter("x", F32, "5,8");
    let order = g.constant_i64(&[]);
    let keys = g.layer("Transpose", "opset1").inputs(&[x, order]).output();
    let scores = binary(&mut g, "MatMul", x, keys);
    let softmax = g.layer("Softmax", "opset8").attribute("axis", "-1").inputs(&[scores]).output();
    let y = binary(&mut g, "MatMul", softmax, x);
    g.result("y", y);
    check(&g.finish().unwrap(), &[5, 8], 1e-6, &["attention"]);
}

/// Only factors of as many axes as the data belong to its channels; others belong to its rows or
/// columns, even if they are as many.
#[test]
fn first_layers_absorb_factors_of_channels_alone() {
    for dims in [&[1, 3, 1, 1][..], &[1, 3, 1], &[1, 3], &[3]] {
        let mut g = GraphBuilder::new("image");
        let x = g.parameter("x", F32, "1,3,3,3");
        let factors = g.constant_f32(dims, &[0.5, 1.0, 1.5]);
        let x = binary(&mut g, "Multiply", x, factors);
        let x = fake_quantized(&mut g, x, -1.28, 1.27);
        let filters = integers(&mut g, &[16, 3, 3, 3], 1);
        let layer = g.layer("Convolution", "opset1").attributes(&PADDED);
        let y = layer.inputs(&[x, filters]).output();
        g.result("y", y);
        let steps: &[&str] = match dims {
            [_, _, _, _] => &["integers", "copy"],
            _ => &["binary", "integers", "copy"],
        };
        // Values halfway between two quantized values may round to the other one.
        check(&g.finish().unwrap(), &[1, 3, 3, 3], 0.02, steps);
    }
}

/// The outputs of a grouped convolution cannot change their order: each group reads its own inputs.
#[test]
fn outputs_of_groups_keep_their_order() {
    let mut g = GraphBuilder::new("groups");
    let x = g.parameter("x", F32, "1,64,4,4");
    let x = fake_quantized(&mut g, x, -1.28, 1.27);
    let filters = integers(&mut g, &[16, 1, 4, 3, 3], 1);
    let layer = g.layer("GroupConvolution", "opset1").attributes(&PADDED);
    let y = layer.inputs(&[x, filters]).output();
    let attributes = [("mode", "depth_first"), ("block_size", "2")];
    let y = g.layer("DepthToSpace", "opset1").attributes(&attributes).inputs(&[y]).output();
    let y = fake_quantized(&mut g, y, -0.4, 0.11);
    let filters = integers(&mut g, &[12, 4, 3, 3], 2);
    let y = g.layer("Convolution", "opset1").attributes(&PADDED).inputs(&[y, filters]).output();
    g.result("y", y);
    let steps = ["quantize", "copy", "integers", "copy", "integers", "copy"];
    check(&g.finish().unwrap(), &[1, 64, 4, 4], 0.02, &steps);
}

/// A FakeQuantize that runs before a Reshape may have limits of more axes than its data there.
#[test]
fn limits_may_have_more_axes() {
    let mut g = GraphBuilder::new("limits");
    let x = g.parameter("x", F32, "5,16");
    let filters = constant(&mut g, &[16, 4], 2);
    let y = binary(&mut g, "MatMul", x, filters);
    let y = with_ints(&mut g, "Reshape", y, &[5, 1, 2, 2]);
    let [low, high] = [-1.28, 1.27].map(|limit| g.constant_f32(&[1, 1, 1, 1], &[limit]));
    let layer = g.layer("FakeQuantize", "opset1").attribute("levels", "256");
    let y = layer.inputs(&[y, low, high, low, high]).output();
    g.result("y", y);
    let steps = ["matmul", "fake"];
    // Values halfway between two quantized values may round to the other one.
    check(&g.finish().unwrap(), &[5, 16], 0.02, &steps);
}

/// Branches that become one convolution may read a constant, which nothing else reads.
#[test]
fn branches_may_read_a_constant() {
    let mut g = GraphBuilder::new("branches");
    let image = constant(&mut g, &[1, 3, 160, 160], 1);
    let x = g.parameter("x", F32, "1,16,160,160");
    let sums = [(3, "1,1"), (1, "0,0")].map(|(size, pads)| {
        let filters = constant(&mut g, &[16, 3, size, size], 2);
        let sides = [("strides", "1,1"), ("dilations", "1,1"), ("pads_begin", pads)];
        let layer = g.layer("Convolution", "opset1").attributes(&sides);
        layer.attribute("pads_end", pads).inputs(&[image, filters]).output()
    });
    let sum = binary(&mut g, "Add", sums[0], sums[1]);
    let y = binary(&mut g, "Multiply", sum, x);
    g.result("y", y);
    let graph = g.finish().unwrap();
    let x = Tensor::from_vec(&[1, 16, 160, 160], numbers(16 * 160 * 160, 1)).unwrap();
    let [optimised, written] = [true, false]
        .map(|optimize| plan(&graph, optimize).session().run(std::slice::from_ref(&x)).unwrap());
    let [a, b] = [&optimised[0], &written[0]].map(|t| t.as_slice::<f32>().unwrap());
    assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() <= 1e-4));
}

/// Operand `b` fits the end of `a` with its sizes of 1.
#[test]
fn operands_aligned_to_the_end_keep_their_ones() {
    let mut g = GraphBuilder::new("pdpd");
    let x = g.parameter("x", F32, "2,3,4");
    let shifts = g.constant_f32(&[3, 1], &[1.0, 2.0, 3.0]);
    let layer = g.layer("Add", "opset1").attribute("auto_broadcast", "pdpd");
    let y = layer.inputs(&[x, shifts]).output();
    g.result("y", y);
    let x = Tensor::from_vec(&[2, 3, 4], vec![0.0f32; 24]).unwrap();
    let sums = plan(&g.finish().unwrap(), true).session().run(&[x]).unwrap();
    let expected: Vec<f32> = (0..24).map(|i| (i / 4 % 3 + 1) as f32).collect();
    assert_eq!(sums[0].as_slice::<f32>().unwrap(), expected);
}

/// A file may hold any number of movements: no pass calls itself for each.
#[test]
fn long_chains_of_movements() {
    for element_type in [F32, F16] {
        let mut g = GraphBuilder::new("chain");
        let x = g.parameter("x", F32, "2,8");
        let mut value = match element_type {
            F16 => g.constant(F16, &[2, 8], &[0; 32]),
            _ => x,
        };
        for i in 0..20_000 {
            let sizes: &[i64] = if i % 2 == 0 { &[16] } else { &[2, 8] };
            value = with_ints(&mut g, "Reshape", value, sizes);
        }
        let to = [("destination_type", "f32")];
        let value = g.layer("Convert", "opset1").attributes(&to).inputs(&[value]).output();
        let sum = binary(&mut g, "Add", value, x);
        let y = unary(&mut g, "Negative", sum);
        g.result("y", y);
        let graph = g.finish().unwrap();
        let facts = infer::propagate(&graph, &Inputs::default()).unwrap();
        let plan = irrun_runtime::compile(&graph, &facts).unwrap();
        let x = Tensor::from_vec(&[2, 8], vec![1.0f32; 16]).unwrap();
        let expected = if element_type == F16 { -1.0 } else { -2.0 };
        let sums = plan.session().run(&[x]).unwrap();
        assert_eq!(sums[0].as_slice::<f32>().unwrap(), [expected; 16]);
    }
}
