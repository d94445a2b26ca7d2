//! Convolutions of the same data whose results are added.

use super::{binary, check, constant, numbers, plan, unary};
use ir::ElementType::{F16, F32};
use ir::{GraphBuilder, OutputRef};
use irrun_runtime::Tensor;

/// A convolution with `taps` by `taps` taps that keeps the size, dense or depthwise, and its bias.
fn branch(
    g: &mut GraphBuilder,
    x: OutputRef,
    (channels, groups): (u64, u64),
    (taps, dilation, seed): (u64, u64, usize),
) -> OutputRef {
    let pad = (taps - 1) / 2 * dilation;
    let pair = |value: u64| format!("{value},{value}");
    let (kind, filters) = match groups {
        1 => ("Convolution", constant(g, &[channels, channels, taps, taps], seed)),
        _ => ("GroupConvolution", constant(g, &[channels, 1, 1, taps, taps], seed)),
    };
    let windows = [
        ("strides", pair(1)),
        ("dilations", pair(dilation)),
        ("pads_begin", pair(pad)),
        ("pads_end", pair(pad)),
    ];
    let mut layer = g.layer(kind, "opset1");
    for (name, value) in &windows {
        layer = layer.attribute(name, value);
    }
    let y = layer.inputs(&[x, filters]).output();
    let bias = constant(g, &[1, channels, 1, 1], seed + 1);
    binary(g, "Add", y, bias)
}

/// The data, scaled and shifted by channel.
fn scaled(g: &mut GraphBuilder, x: OutputRef, channels: u64) -> OutputRef {
    let (scale, shift) =
        (constant(g, &[1, channels, 1, 1], 21), constant(g, &[1, channels, 1, 1], 22));
    let y = binary(g, "Multiply", x, scale);
    binary(g, "Add", y, shift)
}

/// Blocks as those of RepVGG and MobileOne are one convolution.
#[test]
fn branches_become_one_convolution() {
    for groups in [1, 24] {
        for (taps, dilation) in [(3, 1), (3, 2), (1, 1)] {
            let mut g = GraphBuilder::new("branches");
            let x = g.parameter("x", F32, "1,24,9,8");
            let x = branch(&mut g, x, (24, 1), (1, 1, 11));
            let x = unary(&mut g, "Relu", x);
            let identity = scaled(&mut g, x, 24);
            let mut sum = identity;
            for (taps, dilation, seed) in [(taps, dilation, 3), (1, 1, 5), (taps, dilation, 7)] {
                let other = branch(&mut g, x, (24, groups), (taps, dilation, seed));
                sum = binary(&mut g, "Add", sum, other);
            }
            let y = unary(&mut g, "Relu", sum);
            g.result("y", y);
            let steps = ["copy", "convolution", "convolution", "copy"];
            check(&g.finish().unwrap(), &[1, 24, 9, 8], 1e-4, &steps);
        }
    }
}

/// Filters that are stored in f16, too many to be converted when the plan is made.
#[test]
fn branches_of_f16_filters_become_one() {
    let mut g = GraphBuilder::new("branches");
    let x = g.parameter("x", F32, "1,96,5,4");
    let x = unary(&mut g, "Relu", x);
    let mut sums = Vec::new();
    for seed in [3, 5] {
        let values = numbers(96 * 96 * 9, seed);
        let wide = Tensor::from_vec(&[values.len()], values).unwrap();
        let narrow = irrun_runtime::convert(&wide, F16).unwrap();
        let stored = g.constant(F16, &[96, 96, 3, 3], narrow.bytes());
        let convert = g.layer("Convert", "opset1").attribute("destination_type", "f32");
        let filters = convert.inputs(&[stored]).output();
        let windows =
            [("strides", "1,1"), ("dilations", "1,1"), ("pads_begin", "1,1"), ("pads_end", "1,1")];
        let layer = g.layer("Convolution", "opset1").attributes(&windows);
        sums.push(layer.inputs(&[x, filters]).output());
    }
    let y = binary(&mut g, "Add", sums[0], sums[1]);
    g.result("y", y);
    let steps = ["unary", "copy", "convolution", "copy"];
    check(&g.finish().unwrap(), &[1, 96, 5, 4], 1e-2, &steps);
}

/// What is read elsewhere, too, or of other data, is a branch of its own.
#[test]
fn other_branches_stay() {
    let convolutions = |make: &dyn Fn(&mut GraphBuilder, OutputRef) -> OutputRef| {
        let mut g = GraphBuilder::new("branches");
        let x = g.parameter("x", F32, "1,24,9,8");
        let y = make(&mut g, x);
        g.result("y", y);
        let lines = plan(&g.finish().unwrap(), true).explain();
        lines.iter().filter(|line| line.contains("): convolution")).count()
    };
    let both = |g: &mut GraphBuilder, x, y, dilation| {
        let a = branch(g, x, (24, 1), (3, 1, 3));
        let b = branch(g, y, (24, 1), (3, dilation, 5));
        (a, b)
    };
    let added = |g: &mut GraphBuilder, x| {
        let (a, b) = both(g, x, x, 1);
        binary(g, "Add", a, b)
    };
    let of_other_taps = |g: &mut GraphBuilder, x| {
        let (a, b) = both(g, x, x, 2);
        binary(g, "Add", a, b)
    };
    let of_other_data = |g: &mut GraphBuilder, x| {
        let y = unary(g, "Relu", x);
        let (a, b) = both(g, x, y, 1);
        binary(g, "Add", a, b)
    };
    let read_twice = |g: &mut GraphBuilder, x| {
        let (a, b) = both(g, x, x, 1);
        let sum = binary(g, "Add", a, b);
        binary(g, "Multiply", sum, a)
    };
    let of_one = |g: &mut GraphBuilder, x| {
        let a = branch(g, x, (24, 1), (3, 1, 3));
        binary(g, "Add", a, a)
    };
    assert_eq!(convolutions(&added), 1);
    assert_eq!(convolutions(&of_other_taps), 2);
    assert_eq!(convolutions(&of_other_data), 2);
    assert_eq!(convolutions(&read_twice), 2);
    assert_eq!(convolutions(&of_one), 1);
}
