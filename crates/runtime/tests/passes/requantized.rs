//! Quantizers that scales, filters and readers absorb.

use super::quantized::{PADDED, bytes_of, fake_quantized, integers};
use super::{binary, check, constant, numbers, plan, unary, with_ints};
use ir::ElementType::F32;
use ir::{GraphBuilder, OutputRef};
use irrun_runtime::{Plan, Tensor};

fn convolved(g: &mut GraphBuilder, x: OutputRef, dims: &[u64], seed: usize) -> OutputRef {
    let filters = integers(g, dims, seed);
    g.layer("Convolution", "opset1").attributes(&PADDED).inputs(&[x, filters]).output()
}

/// How many nodes a pass has changed.
fn changes(plan: &Plan, pass: &str) -> usize {
    let line = format!("pass {pass}: ");
    let found = plan.explain().iter().find_map(|l| l.strip_prefix(&line)?.parse().ok());
    found.unwrap_or(0)
}

/// A quantizer with a zero point behind a bias, one without a bias, and one behind an activation
/// that clamps as it does. Where the activation clamps otherwise, both stay.
#[test]
fn scales_of_sums_absorb_quantizers() {
    type Middle = fn(&mut GraphBuilder, OutputRef) -> OutputRef;
    let biased: Middle = |g, y| {
        let bias = constant(g, &[1, 40, 1, 1], 4);
        binary(g, "Add", y, bias)
    };
    let plain: Middle = |_, y| y;
    let rectified: Middle = |g, y| unary(g, "Relu", y);
    for (middle, low, high, absorbed) in [
        (biased, -0.4, 0.11, 1),
        (plain, -0.5, 0.52, 1),
        (rectified, 0.0, 0.51, 1),
        (rectified, -0.2, 0.31, 0),
    ] {
        let mut g = GraphBuilder::new("requantization");
        let x = g.parameter("x", F32, "1,3,9,11");
        let x = fake_quantized(&mut g, x, -1.28, 1.27);
        let y = convolved(&mut g, x, &[40, 3, 3, 3], 1);
        let y = middle(&mut g, y);
        let y = fake_quantized(&mut g, y, low, high);
        g.result("y", y);
        let graph = g.finish().unwrap();
        assert_eq!(changes(&plan(&graph, true), "requantization scale folding"), absorbed);
        // Values halfway between two quantized values may round to the other one.
        check(&graph, &[1, 3, 9, 11], (high - low) / 255.0 * 1.001, &["integers", "copy"]);
    }
}

/// The scale of the output's quantizer is absorbed past LeakyRelu, and past the residual of an
/// inverted bottleneck, whose sums may be quantized before it is added.
#[test]
fn scales_are_absorbed_past_residuals_and_leaky_relu() {
    for (residual, quantizes_sums) in [(false, false), (true, false), (true, true)] {
        for (activates, low) in [(false, -0.4), (true, -0.4), (true, 0.0)] {
            let mut g = GraphBuilder::new("residual");
            let x = g.parameter("x", F32, "1,3,9,11");
            let x = fake_quantized(&mut g, x, -1.28, 1.27);
            let x = convolved(&mut g, x, &[24, 3, 3, 3], 1);
            let x = fake_quantized(&mut g, x, -0.6, 0.42);
            let mut y = convolved(&mut g, x, &[24, 24, 3, 3], 2);
            let bias = constant(&mut g, &[1, 24, 1, 1], 4);
            y = binary(&mut g, "Add", y, bias);
            if quantizes_sums {
                y = fake_quantized(&mut g, y, -0.5, 0.52);
            }
            if residual {
                y = binary(&mut g, "Add", y, x);
            }
            if activates {
                let slope = g.constant_f32(&[1], &[0.125]);
                y = g.layer("PRelu", "opset1").inputs(&[y, slope]).output();
            }
            let y = fake_quantized(&mut g, y, low, low + 1.02);
            let y = convolved(&mut g, y, &[8, 24, 3, 3], 3);
            g.result("y", y);
            let graph = g.finish().unwrap();
            assert_eq!(bytes_of(&graph), ["integers", "integers"]);
            assert_eq!(changes(&plan(&graph, true), "requantization scale folding"), 2);
            // Values halfway between two quantized values may round to the other one.
            check(&graph, &[1, 3, 9, 11], 0.05, &["integers", "integers", "integers", "copy"]);
        }
    }
}

/// A bias that the run computes absorbs no scale, and neither do the sums before it.
#[test]
fn computed_biases_keep_the_scales_of_sums() {
    for residual in [false, true] {
        let mut g = GraphBuilder::new("computed");
        let x = g.parameter("x", F32, "1,3,9,11");
        let x = fake_quantized(&mut g, x, -1.28, 1.27);
        let x = convolved(&mut g, x, &[24, 3, 3, 3], 1);
        let axes = g.constant_i64(&[2, 3]);
        let means = g.layer("ReduceMean", "opset1").attribute("keep_dims", "true");
        let means = means.inputs(&[x, axes]).output();
        let x = fake_quantized(&mut g, x, -0.6, 0.42);
        let mut y = convolved(&mut g, x, &[24, 24, 3, 3], 2);
        y = binary(&mut g, "Add", y, means);
        if residual {
            y = binary(&mut g, "Add", y, x);
        }
        let slope = g.constant_f32(&[1], &[0.125]);
        let y = g.layer("PRelu", "opset1").inputs(&[y, slope]).output();
        let y = fake_quantized(&mut g, y, -0.4, 0.62);
        let y = convolved(&mut g, y, &[8, 24, 3, 3], 3);
        g.result("y", y);
        let graph = g.finish().unwrap();
        let input = Tensor::from_vec(&[1, 3, 9, 11], numbers(297, 1)).unwrap();
        let [planned, plain] = [true, false].map(|optimize| {
            plan(&graph, optimize).session().run(std::slice::from_ref(&input)).unwrap()
        });
        let [a, b] = [&planned, &plain].map(|all| all[0].as_slice::<f32>().unwrap());
        // Values halfway between two quantized values may round to the other one.
        assert!(
            a.iter().zip(b).all(|(a, b)| (a - b).abs() < 0.05),
            "{:#?}",
            plan(&graph, true).explain()
        );
    }
}

/// As before squeeze and excitation: the result of a depthwise convolution of bytes is needed in
/// f32. It runs in integers, too.
#[test]
fn depthwise_convolutions_of_bytes_may_give_f32() {
    let mut g = GraphBuilder::new("depthwise");
    let x = g.parameter("x", F32, "1,3,9,11");
    let x = fake_quantized(&mut g, x, -1.28, 1.27);
    let y = convolved(&mut g, x, &[40, 3, 3, 3], 1);
    let y = fake_quantized(&mut g, y, -0.4, 0.11);
    let filters = integers(&mut g, &[40, 1, 3, 3], 3);
    let filters = with_ints(&mut g, "Reshape", filters, &[40, 1, 1, 3, 3]);
    let depthwise = g.layer("GroupConvolution", "opset1").attributes(&PADDED);
    let y = depthwise.inputs(&[y, filters]).output();
    g.result("y", y);
    let graph = g.finish().unwrap();
    assert_eq!(bytes_of(&graph), ["integers"]);
    // Values halfway between two quantized values may round to the other one.
    check(&graph, &[1, 3, 9, 11], 0.01, &["integers", "integers", "copy"]);
}

/// What normalizes an image before its FakeQuantize is part of the quantizers of its channels,
/// unless it would turn their order.
#[test]
fn quantizers_of_images_absorb_scales_and_shifts() {
    let apart = ["binary", "binary", "integers", "copy"];
    for (factor, steps) in [(0.5, &apart[2..]), (-0.5, &apart)] {
        let mut g = GraphBuilder::new("image");
        let x = g.parameter("x", F32, "1,3,9,11");
        let means = constant(&mut g, &[1, 3, 1, 1], 2);
        let y = binary(&mut g, "Subtract", x, means);
        let factor = g.constant_f32(&[1, 1, 1, 1], &[factor]);
        let y = binary(&mut g, "Multiply", y, factor);
        let shifts = constant(&mut g, &[1, 3, 1, 1], 3);
        let y = binary(&mut g, "Add", shifts, y);
        let y = fake_quantized(&mut g, y, -1.28, 1.27);
        let y = convolved(&mut g, y, &[40, 3, 3, 3], 1);
        g.result("y", y);
        let graph = g.finish().unwrap();
        // Values halfway between two quantized values may round to the other one.
        check(&graph, &[1, 3, 9, 11], 0.05, steps);
    }
}

/// The end of a super-resolution model: however the pixel shuffle is written, it moves runs of
/// bytes, and the filters before it are in the order that it needs.
#[test]
fn pixel_shuffles_move_runs_of_bytes() {
    type Shuffle = fn(&mut GraphBuilder, OutputRef) -> OutputRef;
    let depth_first: Shuffle = |g, x| {
        let y = with_ints(g, "Reshape", x, &[1, 8, 2, 2, 5, 7]);
        let order = g.constant_i64(&[0, 1, 4, 2, 5, 3]);
        let y = g.layer("Transpose", "opset1").inputs(&[y, order]).output();
        with_ints(g, "Reshape", y, &[1, 8, 10, 14])
    };
    let by_mode: [Shuffle; 2] =
        [|g, x| depth_to_space(g, x, "depth_first"), |g, x| depth_to_space(g, x, "blocks_first")];
    for (shuffle, reordered) in [(depth_first, 1), (by_mode[0], 1), (by_mode[1], 0)] {
        let mut g = GraphBuilder::new("super-resolution");
        let x = g.parameter("x", F32, "1,3,5,7");
        let x = fake_quantized(&mut g, x, -1.28, 1.27);
        let y = convolved(&mut g, x, &[32, 3, 3, 3], 1);
        let bias = constant(&mut g, &[1, 32, 1, 1], 4);
        let y = binary(&mut g, "Add", y, bias);
        let y = shuffle(&mut g, y);
        let y = unary(&mut g, "Relu", y);
        let y = fake_quantized(&mut g, y, 0.0, 2.55);
        let y = convolved(&mut g, y, &[12, 8, 3, 3], 2);
        g.result("y", y);
        let graph = g.finish().unwrap();
        assert_eq!(bytes_of(&graph), ["integers", "copy"], "{:#?}", plan(&graph, true).explain());
        assert_eq!(changes(&plan(&graph, true), "output channel reordering"), reordered);
        // Values halfway between two quantized values may round to the other one.
        check(&graph, &[1, 3, 5, 7], 0.1, &["integers", "copy", "integers", "copy"]);
    }
}

/// The opposite: channels are made of neighbours.
#[test]
fn space_to_depth_keeps_bytes() {
    for mode in ["depth_first", "blocks_first"] {
        let mut g = GraphBuilder::new("space to depth");
        let x = g.parameter("x", F32, "1,3,6,8");
        let x = fake_quantized(&mut g, x, -1.28, 1.27);
        let y = convolved(&mut g, x, &[8, 3, 3, 3], 1);
        let attributes = [("mode", mode), ("block_size", "2")];
        let y = g.layer("SpaceToDepth", "opset1").attributes(&attributes).inputs(&[y]).output();
        let y = fake_quantized(&mut g, y, -0.4, 0.11);
        let y = convolved(&mut g, y, &[12, 32, 3, 3], 2);
        g.result("y", y);
        let graph = g.finish().unwrap();
        assert_eq!(bytes_of(&graph), ["integers", "copy"], "{:#?}", plan(&graph, true).explain());
        // Values halfway between two quantized values may round to the other one.
        check(&graph, &[1, 3, 6, 8], 0.1, &["integers", "copy", "integers", "copy"]);
    }
}

fn depth_to_space(g: &mut GraphBuilder, x: OutputRef, mode: &str) -> OutputRef {
    let attributes = [("mode", mode), ("block_size", "2")];
    g.layer("DepthToSpace", "opset1").attributes(&attributes).inputs(&[x]).output()
}
