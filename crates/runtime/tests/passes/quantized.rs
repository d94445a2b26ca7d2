//! Quantized models: integer convolutions and MatMuls, and values that stay u8.

use super::{binary, check, constant, numbers, plan, unary, with_ints};
use ir::ElementType::{F16, F32, I8, U8};
use ir::{Graph, GraphBuilder, OutputRef};
use irrun_runtime::Tensor;

/// Attributes of a convolution without padding, and of one padded by 1.
const UNPADDED: [(&str, &str); 4] =
    [("strides", "1,1"), ("dilations", "1,1"), ("pads_begin", "0,0"), ("pads_end", "0,0")];
pub(super) const PADDED: [(&str, &str); 4] =
    [("strides", "1,1"), ("dilations", "1,1"), ("pads_begin", "1,1"), ("pads_end", "1,1")];

/// A FakeQuantize to 256 quantized values between limits.
pub(super) fn fake_quantized(g: &mut GraphBuilder, x: OutputRef, low: f32, high: f32) -> OutputRef {
    let [low, high] = [low, high].map(|limit| g.constant_f32(&[], &[limit]));
    let levels = [("levels", "256")];
    g.layer("FakeQuantize", "opset1")
        .attributes(&levels)
        .inputs(&[x, low, high, low, high])
        .output()
}

/// Integers times a scale per element of the first axis.
pub(super) fn integers(g: &mut GraphBuilder, dims: &[u64], seed: usize) -> OutputRef {
    let count = dims.iter().product::<u64>() as usize;
    let bytes: Vec<u8> = (0..count).map(|i| ((i + seed) * 37 % 251) as u8).collect();
    let values = g.constant(I8, dims, &bytes);
    let to = [("destination_type", "f32")];
    let values = g.layer("Convert", "opset1").attributes(&to).inputs(&[values]).output();
    let mut own = vec![1; dims.len()];
    own[0] = dims[0];
    let scales: Vec<f32> = (0..dims[0]).map(|i| 0.001 * (i % 5 + 1) as f32).collect();
    let scales = g.constant_f32(&own, &scales);
    binary(g, "Multiply", values, scales)
}

#[test]
fn quantized_values_are_multiplied_as_integers() {
    let convolved = |g: &mut GraphBuilder, x: OutputRef, filters: OutputRef| {
        g.layer("Convolution", "opset1").attributes(&PADDED).inputs(&[x, filters]).output()
    };
    let mut g = GraphBuilder::new("integers");
    let x = g.parameter("x", F32, "1,3,9,11");
    let x = fake_quantized(&mut g, x, -1.28, 1.27);
    let filters = integers(&mut g, &[40, 3, 3, 3], 1);
    let y = convolved(&mut g, x, filters);
    let bias = constant(&mut g, &[1, 40, 1, 1], 4);
    let y = binary(&mut g, "Add", y, bias);
    let y = unary(&mut g, "Relu", y);
    let first = fake_quantized(&mut g, y, 0.0, 5.1);
    let filters = integers(&mut g, &[40, 40, 3, 3], 2);
    let y = convolved(&mut g, first, filters);
    let y = fake_quantized(&mut g, y, -12.8, 12.7);
    let y = binary(&mut g, "Add", y, first);
    g.result("y", y);
    let steps = ["integers", "integers", "copy"];
    // Values halfway between two quantized values may round to the other one.
    check(&g.finish().unwrap(), &[1, 3, 9, 11], 0.2, &steps);
}

/// As tools of 2020 wrote filters: bytes that a FakeQuantize moves and scales.
fn rescaled(g: &mut GraphBuilder, dims: &[u64], highest: f32) -> OutputRef {
    let count = dims.iter().product::<u64>() as usize;
    let bytes: Vec<u8> = (0..count).map(|i| (i * 37 % 256) as u8).collect();
    let values = g.constant(U8, dims, &bytes);
    let to = [("destination_type", "f32")];
    let values = g.layer("Convert", "opset1").attributes(&to).inputs(&[values]).output();
    let mut own = vec![1; dims.len()];
    own[0] = dims[0];
    let limits: Vec<f32> = (0..dims[0]).map(|i| 0.25 * (i % 5 + 1) as f32).collect();
    let negative: Vec<f32> = limits.iter().map(|x| -x).collect();
    let (from, to) = (g.constant_f32(&[], &[0.0]), g.constant_f32(&[1], &[highest]));
    let (low, high) = (g.constant_f32(&own, &negative), g.constant_f32(&own, &limits));
    let layer = g.layer("FakeQuantize", "opset1").attribute("levels", "255");
    layer.inputs(&[values, from, to, low, high]).output()
}

/// They are integers if one integer lies at each level, and 0 at one of them.
#[test]
fn filters_may_be_bytes_that_are_fake_quantized() {
    for (highest, step) in [(254.0, "integers"), (250.0, "convolution")] {
        let mut g = GraphBuilder::new("rescaled");
        let x = g.parameter("x", F32, "1,3,9,11");
        let x = fake_quantized(&mut g, x, -1.28, 1.27);
        let filters = rescaled(&mut g, &[40, 3, 3, 3], highest);
        let y = g.layer("Convolution", "opset1").attributes(&PADDED).inputs(&[x, filters]).output();
        g.result("y", y);
        let steps: &[&str] =
            if step == "integers" { &[step, "copy"] } else { &["fake", step, "copy"] };
        check(&g.finish().unwrap(), &[1, 3, 9, 11], 1e-4, steps);
    }
}

/// A FakeQuantize with its limits in f16, as compression leaves them.
fn fake_quantized_in_half(g: &mut GraphBuilder, x: OutputRef, bits: [u16; 2]) -> OutputRef {
    let [low, high] = bits.map(|bits| halves(g, &[], &[bits]));
    let layer = g.layer("FakeQuantize", "opset1").attribute("levels", "256");
    layer.inputs(&[x, low, high, low, high]).output()
}

/// Constants of f16 that are converted to f32.
fn halves(g: &mut GraphBuilder, dims: &[u64], bits: &[u16]) -> OutputRef {
    let bytes: Vec<u8> = bits.iter().flat_map(|bits| bits.to_le_bytes()).collect();
    let half = g.constant(F16, dims, &bytes);
    let to = [("destination_type", "f32")];
    g.layer("Convert", "opset1").attributes(&to).inputs(&[half]).output()
}

/// Limits and scales that were compressed to f16.
#[test]
fn limits_and_scales_may_be_stored_in_half() {
    let mut g = GraphBuilder::new("half");
    let x = g.parameter("x", F32, "1,3,9,11");
    // -2 to 1.9844.
    let x = fake_quantized_in_half(&mut g, x, [0xc000, 0x3ff0]);
    let bytes: Vec<u8> = (0..40 * 27).map(|i| (i * 37 % 251) as u8).collect();
    let values = g.constant(I8, &[40, 3, 3, 3], &bytes);
    let to = [("destination_type", "f32")];
    let values = g.layer("Convert", "opset1").attributes(&to).inputs(&[values]).output();
    // 2^-10 to 2^-6.
    let scales: Vec<u16> = (0..40).map(|i| 0x1400 + (i % 5) * 0x400).collect();
    let scales = halves(&mut g, &[40, 1, 1, 1], &scales);
    let filters = binary(&mut g, "Multiply", values, scales);
    let y = g.layer("Convolution", "opset1").attributes(&PADDED).inputs(&[x, filters]).output();
    g.result("y", y);
    check(&g.finish().unwrap(), &[1, 3, 9, 11], 1e-3, &["integers", "copy"]);
}

/// Groups of 8 and 16 channels, each output channel with a scale of its own, or each group.
#[test]
fn grouped_convolutions_run_in_integers() {
    for (groups, own, scaled) in [(5, 8, 2), (2, 16, 2), (3, 24, 1)] {
        let channels = groups * own;
        let dims = [groups, own, own, 3, 3];
        let mut g = GraphBuilder::new("groups");
        let x = g.parameter("x", F32, &format!("2,{channels},9,7"));
        let x = fake_quantized(&mut g, x, -1.28, 1.27);
        let count = dims.iter().product::<u64>();
        let bytes: Vec<u8> = (0..count).map(|i| (i * 37 % 251) as u8).collect();
        let values = g.constant(I8, &dims, &bytes);
        let to = [("destination_type", "f32")];
        let values = g.layer("Convert", "opset1").attributes(&to).inputs(&[values]).output();
        let mut of_scales = [1; 5];
        of_scales[..scaled].copy_from_slice(&dims[..scaled]);
        let count = of_scales.iter().product::<u64>();
        let scales: Vec<f32> = (0..count).map(|i| 0.001 * (i % 5 + 1) as f32).collect();
        let scales = g.constant_f32(&of_scales, &scales);
        let filters = binary(&mut g, "Multiply", values, scales);
        let layer = g.layer("GroupConvolution", "opset1").attributes(&PADDED);
        let y = layer.inputs(&[x, filters]).output();
        let y = fake_quantized(&mut g, y, -12.8, 12.7);
        g.result("y", y);
        let steps = ["quantize", "copy", "integers", "copy"];
        // Values halfway between two quantized values may round to the other one.
        check(&g.finish().unwrap(), &[2, channels as usize, 9, 7], 0.101, &steps);
    }
}

/// Filters wait for integer convolutions; those of others are values in the plan, not steps of it.
#[test]
fn filters_of_other_convolutions_are_folded() {
    let dilated =
        [("strides", "1,1"), ("dilations", "1,2"), ("pads_begin", "0,0"), ("pads_end", "0,0")];
    let mut g = GraphBuilder::new("dilated");
    let x = g.parameter("x", F32, "1,3,9,11");
    let x = fake_quantized(&mut g, x, -1.28, 1.27);
    let filters = integers(&mut g, &[40, 3, 3, 3], 1);
    for (name, attributes) in [("y", dilated), ("z", UNPADDED)] {
        let y = g.layer("Convolution", "opset1").attributes(&attributes).inputs(&[x, filters]);
        let y = y.output();
        g.result(name, y);
    }
    let steps = ["fake", "convolution", "integers", "copy", "copy"];
    check(&g.finish().unwrap(), &[1, 3, 9, 11], 1e-3, &steps);
}

/// Inputs of a Concat that have parameters of their own: the convolutions behind it multiply each
/// in integers, and nothing is copied. With few channels they do not.
#[test]
fn concatenated_values_are_multiplied_as_integers() {
    let steps = ["integers", "integers", "integers", "integers", "copy", "copy"];
    let in_f32 = ["integers", "integers", "copy", "convolution", "convolution", "copy", "copy"];
    for (channels, steps) in [(24, &steps[..]), (12, &in_f32)] {
        let mut g = GraphBuilder::new("concat");
        let x = g.parameter("x", F32, "1,3,9,11");
        let parts = [(1.27, 5.1), (0.635, 2.55)].map(|(high, to)| {
            let y = fake_quantized(&mut g, x, -high * 128.0 / 127.0, high);
            let filters = integers(&mut g, &[channels, 3, 1, 1], 1);
            let conv = g.layer("Convolution", "opset1").attributes(&UNPADDED);
            let y = conv.inputs(&[y, filters]).output();
            let y = unary(&mut g, "Relu", y);
            fake_quantized(&mut g, y, 0.0, to)
        });
        let both = g.layer("Concat", "opset1").attribute("axis", "1").inputs(&parts).output();
        for (taps, attributes) in [(1, &UNPADDED), (3, &PADDED)] {
            let filters = integers(&mut g, &[40, 2 * channels, taps, taps], 2);
            let conv = g.layer("Convolution", "opset1").attributes(attributes);
            let y = conv.inputs(&[both, filters]).output();
            let bias = constant(&mut g, &[1, 40, 1, 1], 4);
            let y = binary(&mut g, "Add", y, bias);
            g.result(&format!("y{taps}"), y);
        }
        // Values halfway between two quantized values may round to the other one.
        check(&g.finish().unwrap(), &[1, 3, 9, 11], 0.1, steps);
    }
}

/// As NNCF quantizes the input of depthwise convolutions: each channel has its own parameters.
#[test]
fn channels_are_quantized_while_requantizing() {
    let mut g = GraphBuilder::new("channels");
    let x = g.parameter("x", F32, "1,20,9,11");
    let x = fake_quantized(&mut g, x, -1.28, 1.27);
    let filters = integers(&mut g, &[40, 20, 1, 1], 1);
    let y = g.layer("Convolution", "opset1").attributes(&UNPADDED).inputs(&[x, filters]).output();
    let y = unary(&mut g, "Relu", y);
    let highs: Vec<f32> = (1..=40).map(|i| i as f32 * 0.1).collect();
    let (low, high) = (g.constant_f32(&[], &[0.0]), g.constant_f32(&[1, 40, 1, 1], &highs));
    let round = g.layer("FakeQuantize", "opset1").attribute("levels", "256");
    let y = round.inputs(&[y, low, high, low, high]).output();
    let filters = constant(&mut g, &[40, 1, 1, 3, 3], 4);
    let y =
        g.layer("GroupConvolution", "opset1").attributes(&UNPADDED).inputs(&[y, filters]).output();
    g.result("y", y);
    let steps = ["quantize", "copy", "integers", "convolution", "copy"];
    // Values halfway between two quantized values may round to the other one.
    check(&g.finish().unwrap(), &[1, 20, 9, 11], 0.05, &steps);
}

/// A file may hold any number of poolings, so no pass may recurse once per pooling. From the third
/// time on the values of a 4×4 image do not change.
#[test]
fn quantized_values_may_be_pooled_any_number_of_times() {
    let pool = [
        ("kernel", "2,2"),
        ("strides", "1,1"),
        ("pads_begin", "0,0"),
        ("pads_end", "1,1"),
        ("rounding_type", "floor"),
    ];
    let pooled = |times: usize| {
        let mut g = GraphBuilder::new("pools");
        let x = g.parameter("x", F32, "1,3,4,4");
        let x = fake_quantized(&mut g, x, -1.28, 1.27);
        let filters = integers(&mut g, &[16, 3, 1, 1], 1);
        let y =
            g.layer("Convolution", "opset1").attributes(&UNPADDED).inputs(&[x, filters]).output();
        let mut y = fake_quantized(&mut g, y, 0.0, 5.1);
        for _ in 0..times {
            y = g.layer("MaxPool", "opset1").attributes(&pool).inputs(&[y]).output();
        }
        let filters = integers(&mut g, &[16, 16, 1, 1], 2);
        let y =
            g.layer("Convolution", "opset1").attributes(&UNPADDED).inputs(&[y, filters]).output();
        g.result("y", y);
        let input = Tensor::from_vec(&[1, 3, 4, 4], numbers(48, 1)).unwrap();
        plan(&g.finish().unwrap(), true).session().run(&[input]).unwrap()
    };
    assert_eq!(pooled(20_000), pooled(3));
}

/// Quantized for one convolution, and with other parameters for another.
#[test]
fn quantization_is_that_of_the_reader() {
    let convolved = |g: &mut GraphBuilder, x: OutputRef, seed: usize| {
        let filters = integers(g, &[32, 32, 3, 3], seed);
        g.layer("Convolution", "opset1").attributes(&PADDED).inputs(&[x, filters]).output()
    };
    let mut g = GraphBuilder::new("levels");
    let x = g.parameter("x", F32, "1,32,5,7");
    let y = fake_quantized(&mut g, x, -1.28, 1.27);
    let y = convolved(&mut g, y, 1);
    let y = fake_quantized(&mut g, y, -0.64, 0.635);
    let other = fake_quantized(&mut g, y, 0.0, 0.255);
    let (one, other) = (convolved(&mut g, y, 2), convolved(&mut g, other, 3));
    let y = binary(&mut g, "Add", one, other);
    g.result("y", y);
    let steps = ["quantize", "copy", "integers", "integers", "integers", "copy"];
    check(&g.finish().unwrap(), &[1, 32, 5, 7], 0.01, &steps);
}

#[test]
fn rows_of_quantized_values_are_multiplied_as_integers() {
    for (low, high, steps) in [
        (-1.28, 1.27, &["integers"][..]),
        // 0 is not a quantized value.
        (0.5, 1.5, &["fake", "matmul"]),
    ] {
        let mut g = GraphBuilder::new("rows");
        let x = g.parameter("x", F32, "2,5,48");
        let x = fake_quantized(&mut g, x, low, high);
        let b = integers(&mut g, &[30, 48], 3);
        let transposed = [("transpose_a", "false"), ("transpose_b", "true")];
        let y = g.layer("MatMul", "opset1").attributes(&transposed).inputs(&[x, b]).output();
        let bias = constant(&mut g, &[30], 4);
        let y = binary(&mut g, "Add", y, bias);
        g.result("y", y);
        check(&g.finish().unwrap(), &[2, 5, 48], 1e-4, steps);
    }
}

/// The kernels of the steps whose results are u8.
pub(super) fn bytes_of(graph: &Graph) -> Vec<String> {
    let all = plan(graph, true).explain();
    let step = |line: &String| {
        let (kernel, _) = line.split_once("): ")?.1.split_once(" -> u8[")?;
        Some(kernel.to_owned())
    };
    all.iter().filter_map(step).collect()
}

/// An inverted residual as NNCF quantizes it: the input of the depthwise convolution has parameters
/// per channel or for all, its output those of the next layer. All are u8, with the bits of the f32
/// values.
#[test]
fn quantized_values_stay_bytes_through_depthwise_convolutions() {
    let near =
        [("strides", "2,1"), ("dilations", "1,2"), ("pads_begin", "1,2"), ("pads_end", "1,2")];
    for highs in [vec![2.0], (1..=40).map(|i| i as f32 * 0.1).collect::<Vec<f32>>()] {
        let mut g = GraphBuilder::new("inverted residual");
        let x = g.parameter("x", F32, "2,20,9,11");
        let x = fake_quantized(&mut g, x, -1.28, 1.27);
        let filters = integers(&mut g, &[40, 20, 1, 1], 1);
        let y =
            g.layer("Convolution", "opset1").attributes(&UNPADDED).inputs(&[x, filters]).output();
        let y = unary(&mut g, "Relu", y);
        let low = g.constant_f32(&[], &[0.0]);
        let high = g.constant_f32(&[1, highs.len() as u64, 1, 1], &highs);
        let round = g.layer("FakeQuantize", "opset1").attribute("levels", "256");
        let y = round.inputs(&[y, low, high, low, high]).output();
        let filters = constant(&mut g, &[40, 1, 1, 3, 3], 4);
        let near = g.layer("GroupConvolution", "opset1").attributes(&near);
        let y = near.inputs(&[y, filters]).output();
        let y = unary(&mut g, "Tanh", y);
        let y = fake_quantized(&mut g, y, -0.64, 1.91);
        let filters = integers(&mut g, &[24, 40, 1, 1], 2);
        let y =
            g.layer("Convolution", "opset1").attributes(&UNPADDED).inputs(&[y, filters]).output();
        g.result("y", y);
        let graph = g.finish().unwrap();
        let steps = ["quantize", "copy", "integers", "convolution", "integers", "copy"];
        assert_eq!(bytes_of(&graph), steps[..4]);
        check(&graph, &[2, 20, 9, 11], 0.05, &steps);
    }
}

/// The same with integer filters, which a Reshape has given groups: the depthwise convolution runs
/// in integers. If its input is large, it expands the lines of it itself.
#[test]
fn depthwise_convolutions_between_bytes_run_in_integers() {
    let near =
        [("strides", "2,2"), ("dilations", "1,1"), ("pads_begin", "1,1"), ("pads_end", "1,1")];
    let apart = ["quantize", "copy", "integers", "integers", "integers", "copy"];
    let fused = ["quantize", "copy", "integers", "integers", "copy"];
    for (height, width, steps) in [(9, 11, &apart[..]), (72, 80, &fused)] {
        let mut g = GraphBuilder::new("inverted bottleneck");
        let x = g.parameter("x", F32, &format!("1,20,{height},{width}"));
        let x = fake_quantized(&mut g, x, -1.28, 1.27);
        let filters = integers(&mut g, &[100, 20, 1, 1], 1);
        let y =
            g.layer("Convolution", "opset1").attributes(&UNPADDED).inputs(&[x, filters]).output();
        let y = unary(&mut g, "Relu", y);
        let highs: Vec<f32> = (1..=100).map(|i| i as f32 * 0.05).collect();
        let (low, high) = (g.constant_f32(&[], &[0.0]), g.constant_f32(&[1, 100, 1, 1], &highs));
        let round = g.layer("FakeQuantize", "opset1").attribute("levels", "256");
        let y = round.inputs(&[y, low, high, low, high]).output();
        let filters = integers(&mut g, &[100, 1, 3, 3], 3);
        let filters = with_ints(&mut g, "Reshape", filters, &[100, 1, 1, 3, 3]);
        let depthwise = g.layer("GroupConvolution", "opset1").attributes(&near);
        let y = depthwise.inputs(&[y, filters]).output();
        let bias = constant(&mut g, &[1, 100, 1, 1], 4);
        let y = binary(&mut g, "Add", y, bias);
        let y = fake_quantized(&mut g, y, -0.64, 1.91);
        let filters = integers(&mut g, &[24, 100, 1, 1], 2);
        let y =
            g.layer("Convolution", "opset1").attributes(&UNPADDED).inputs(&[y, filters]).output();
        g.result("y", y);
        let graph = g.finish().unwrap();
        // Values halfway between two quantized values may round to the other one.
        check(&graph, &[1, 20, height, width], 0.1, steps);
    }
}

/// A fire module as in SqueezeNet: two parallel convolutions with equal quantization, and what
/// follows. With one more f32 reader, nothing after the first convolution is u8.
#[test]
fn quantized_values_stay_bytes_through_concat() {
    const STEPS: [&str; 8] =
        ["quantize", "copy", "integers", "integers", "integers", "copy", "integers", "copy"];
    let in_f32 = [&STEPS[..7], &["unary", "copy", "copy"]].concat();
    for (is_read_elsewhere, bytes, steps) in
        [(false, &STEPS[..6], &STEPS[..]), (true, &STEPS[..3], &in_f32[..])]
    {
        let mut g = GraphBuilder::new("fire");
        let convolved = |g: &mut GraphBuilder, x: OutputRef, dims: &[u64], high: f32| {
            let filters = integers(g, dims, 1);
            let window = if dims[2] == 1 { &UNPADDED } else { &PADDED };
            let y = g.layer("Convolution", "opset1").attributes(window);
            let y = y.inputs(&[x, filters]).output();
            let y = g.layer("Elu", "opset1").attribute("alpha", "0.5").inputs(&[y]).output();
            fake_quantized(g, y, -1.28, high)
        };
        let x = g.parameter("x", F32, "1,20,9,11");
        let x = fake_quantized(&mut g, x, -1.28, 1.27);
        let squeezed = convolved(&mut g, x, &[8, 20, 1, 1], 1.27);
        let one = convolved(&mut g, squeezed, &[24, 8, 1, 1], 1.27);
        let other = convolved(&mut g, squeezed, &[40, 8, 3, 3], 1.27);
        let concat = g.layer("Concat", "opset1").attribute("axis", "1");
        let y = concat.inputs(&[one, other]).output();
        let filters = integers(&mut g, &[12, 64, 1, 1], 2);
        let z =
            g.layer("Convolution", "opset1").attributes(&UNPADDED).inputs(&[y, filters]).output();
        g.result("z", z);
        if is_read_elsewhere {
            let y = unary(&mut g, "Tanh", y);
            g.result("y", y);
        }
        let graph = g.finish().unwrap();
        assert_eq!(bytes_of(&graph), bytes);
        // Values halfway between two quantized values may round to the other one.
        check(&graph, &[1, 20, 9, 11], 0.02, steps);
    }
}

/// The block of a detector: a part of the channels is convolved once more and concatenated with all
/// of them, of which the Concat reads all at once; the result is enlarged. A FakeQuantize behind
/// the Interpolate that repeats the one before it is dropped, and another one runs before it.
#[test]
fn quantized_values_stay_bytes_through_movements() {
    let repeated = ["integers", "move", "integers", "copy", "integers", "nearest"];
    let other = [&repeated[..4], &["quantize", "nearest"]].concat();
    for (high, bytes) in [(1.27, &repeated[..]), (2.794, &other)] {
        let convolved = |g: &mut GraphBuilder, x: OutputRef, dims: &[u64]| {
            let filters = integers(g, dims, 1);
            let conv = g.layer("Convolution", "opset1").attributes(&UNPADDED);
            let y = conv.inputs(&[x, filters]).output();
            fake_quantized(g, y, -1.28, 1.27)
        };
        let mut g = GraphBuilder::new("detector");
        let x = g.parameter("x", F32, "1,3,6,8");
        let x = fake_quantized(&mut g, x, -1.28, 1.27);
        let all = convolved(&mut g, x, &[48, 3, 1, 1]);
        let (axis, lengths) = (g.constant_i64(&[1]), g.constant_i64(&[16, 32]));
        let split = g.layer("VariadicSplit", "opset1").inputs(&[all, axis, lengths]).outputs(2);
        let y = convolved(&mut g, split[1], &[16, 32, 1, 1]);
        let concat = g.layer("Concat", "opset1").attribute("axis", "1");
        let y = concat.inputs(&[split[0], split[1], y]).output();
        let y = convolved(&mut g, y, &[24, 64, 1, 1]);
        let attributes = [
            ("mode", "nearest"),
            ("shape_calculation_mode", "scales"),
            ("coordinate_transformation_mode", "asymmetric"),
            ("nearest_mode", "floor"),
        ];
        let (scales, axes) = (g.constant_f32(&[2], &[2.0, 2.0]), g.constant_i64(&[2, 3]));
        let enlarged = g.layer("Interpolate", "opset11").attributes(&attributes);
        let enlarged = enlarged.inputs(&[y, scales, axes]).output();
        let enlarged = fake_quantized(&mut g, enlarged, -high * 128.0 / 127.0, high);
        let filters = integers(&mut g, &[12, 24, 3, 3], 2);
        let conv = g.layer("Convolution", "opset1").attributes(&UNPADDED);
        let z = conv.inputs(&[enlarged, filters]).output();
        g.result("z", z);
        let filters = integers(&mut g, &[12, 24, 1, 1], 3);
        let z = g.layer("Convolution", "opset1").attributes(&UNPADDED).inputs(&[y, filters]);
        let z = z.output();
        g.result("y", z);
        let graph = g.finish().unwrap();
        assert_eq!(bytes_of(&graph), bytes, "{:#?}", plan(&graph, true).explain());
        let input = Tensor::from_vec(&[1, 3, 6, 8], numbers(144, 1)).unwrap();
        let run =
            |optimize| plan(&graph, optimize).session().run(std::slice::from_ref(&input)).unwrap();
        for (optimized, written) in run(true).iter().zip(&run(false)) {
            let [a, b] = [optimized, written].map(|t| t.as_slice::<f32>().unwrap());
            // Values halfway between two quantized values may round to the other one.
            assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 0.1));
        }
    }
}

/// A movement that inserts zeros keeps its place: Sigmoid of 0 is not 0, and neither is the byte
/// that stands for 0.
#[test]
fn inserted_zeros_are_zeros() {
    let mut g = GraphBuilder::new("zeros");
    let x = g.parameter("x", F32, "1,3,5,7");
    let x = fake_quantized(&mut g, x, -1.28, 1.27);
    let filters = integers(&mut g, &[16, 3, 1, 1], 1);
    let y = g.layer("Convolution", "opset1").attributes(&UNPADDED).inputs(&[x, filters]).output();
    let y = fake_quantized(&mut g, y, -1.28, 1.27);
    let spread = |g: &mut GraphBuilder, x: OutputRef, ends: [i64; 4]| {
        let lists = [[1, 1, 2, 2], [0, 0, 1, 1], ends].map(|list| g.constant_i64(&list));
        let spread = g.layer("SpaceToBatch", "opset2");
        spread.inputs(&[x, lists[0], lists[1], lists[2]]).output()
    };
    let padded = spread(&mut g, y, [0, 0, 2, 0]);
    let filters = integers(&mut g, &[16, 16, 1, 1], 2);
    let conv = g.layer("Convolution", "opset1").attributes(&UNPADDED);
    let z = conv.inputs(&[padded, filters]).output();
    let z = spread(&mut g, z, [0, 0, 1, 1]);
    let z = unary(&mut g, "Sigmoid", z);
    g.result("z", z);
    let graph = g.finish().unwrap();
    let input = Tensor::from_vec(&[1, 3, 5, 7], numbers(105, 1)).unwrap();
    let run = |optimize| {
        let outputs = plan(&graph, optimize).session().run(std::slice::from_ref(&input)).unwrap();
        outputs[0].as_slice::<f32>().unwrap().to_vec()
    };
    // Values halfway between two quantized values may round to the other one.
    assert!(run(true).iter().zip(&run(false)).all(|(a, b)| (a - b).abs() < 0.02));
}

/// The result of an f32 convolution is quantized by a step of its own, to u8 if a depthwise
/// convolution reads it, with one quantizer or one per channel.
#[test]
fn values_are_quantized_for_depthwise_convolutions() {
    for highs in [vec![2.0], (1..=40).map(|i| i as f32 * 0.1).collect::<Vec<f32>>()] {
        let mut g = GraphBuilder::new("values");
        let x = g.parameter("x", F32, "2,20,9,11");
        let filters = constant(&mut g, &[40, 20, 1, 1], 1);
        let y =
            g.layer("Convolution", "opset1").attributes(&UNPADDED).inputs(&[x, filters]).output();
        let low = g.constant_f32(&[], &[-1.0]);
        let high = g.constant_f32(&[1, highs.len() as u64, 1, 1], &highs);
        let round = g.layer("FakeQuantize", "opset1").attribute("levels", "256");
        let y = round.inputs(&[y, low, high, low, high]).output();
        let filters = constant(&mut g, &[40, 1, 1, 3, 3], 4);
        let near = g.layer("GroupConvolution", "opset1").attributes(&PADDED);
        let y = near.inputs(&[y, filters]).output();
        g.result("y", y);
        let graph = g.finish().unwrap();
        assert_eq!(bytes_of(&graph), ["quantize"]);
        // Values halfway between two quantized values may round to the other one.
        check(
            &graph,
            &[2, 20, 9, 11],
            0.05,
            &["copy", "convolution", "quantize", "convolution", "copy"],
        );
    }
}

/// After squeeze and excitation, channels are multiplied by their gates while they are quantized.
#[test]
fn gates_are_multiplied_while_quantizing() {
    let mut g = GraphBuilder::new("gates");
    let x = g.parameter("x", F32, "2,24,9,7");
    let filters = constant(&mut g, &[24, 1, 1, 3, 3], 4);
    let y =
        g.layer("GroupConvolution", "opset1").attributes(&PADDED).inputs(&[x, filters]).output();
    let y = unary(&mut g, "Relu", y);
    let y = fake_quantized(&mut g, y, 0.0, 2.55);
    let means = with_ints(&mut g, "ReduceMean", y, &[2, 3]);
    let gate = unary(&mut g, "Sigmoid", means);
    let y = binary(&mut g, "Multiply", y, gate);
    let y = fake_quantized(&mut g, y, 0.0, 1.275);
    let filters = integers(&mut g, &[40, 24, 1, 1], 2);
    let y = g.layer("Convolution", "opset1").attributes(&UNPADDED).inputs(&[y, filters]).output();
    g.result("y", y);
    let steps = ["copy", "convolution", "unary", "integers", "copy"];
    // Values halfway between two quantized values may round to the other one.
    check(&g.finish().unwrap(), &[2, 24, 9, 7], 0.05, &steps);
}
