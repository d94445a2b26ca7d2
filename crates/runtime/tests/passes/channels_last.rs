//! Channels last: convolutions, the operations between them, and quantized values.

use super::{binary, check, constant, numbers, plan, unary, with_ints};
use ir::ElementType::{F32, I64};
use ir::{GraphBuilder, OutputRef};
use irrun_runtime::Tensor;

#[test]
fn convolutions_and_what_lies_between_keep_their_channels_last() {
    let mut g = GraphBuilder::new("layout");
    let x = g.parameter("x", F32, "1,3,10,8");
    let window =
        [("strides", "1,1"), ("dilations", "1,1"), ("pads_begin", "1,1"), ("pads_end", "1,1")];
    let first = constant(&mut g, &[16, 3, 3, 3], 3);
    let y = g.layer("Convolution", "opset1").attributes(&window).inputs(&[x, first]).output();
    let bias = constant(&mut g, &[1, 16, 1, 1], 4);
    let y = binary(&mut g, "Add", y, bias);
    let y = unary(&mut g, "Relu", y);
    let second = constant(&mut g, &[16, 16, 3, 3], 5);
    let z = g.layer("Convolution", "opset1").attributes(&window).inputs(&[y, second]).output();
    let y = binary(&mut g, "Add", z, y);
    let pool = [
        ("kernel", "2,2"),
        ("strides", "2,2"),
        ("pads_begin", "0,0"),
        ("pads_end", "0,0"),
        ("rounding_type", "floor"),
    ];
    let y = g.layer("MaxPool", "opset1").attributes(&pool).inputs(&[y]).output();
    g.result("y", y);
    // The first convolution reads its three channels as NCHW.
    let steps = ["convolution", "convolution", "pool", "copy"];
    check(&g.finish().unwrap(), &[1, 3, 10, 8], 1e-5, &steps);
}

/// A result that is upsampled at the end, as in segmentation, is transposed while it is small.
#[test]
fn the_result_is_turned_before_it_is_enlarged() {
    for (size, steps) in
        [(24, ["convolution", "copy", "resample"]), (4, ["convolution", "resample", "copy"])]
    {
        let mut g = GraphBuilder::new("enlarge");
        let x = g.parameter("x", F32, "1,3,10,8");
        let filters = constant(&mut g, &[16, 3, 1, 1], 3);
        let window =
            [("strides", "1,1"), ("dilations", "1,1"), ("pads_begin", "0,0"), ("pads_end", "0,0")];
        let y = g.layer("Convolution", "opset1").attributes(&window).inputs(&[x, filters]).output();
        let (sizes, axes) = (g.constant_i64(&[size, size]), g.constant_i64(&[2, 3]));
        let interpolate = [("mode", "linear_onnx"), ("shape_calculation_mode", "sizes")];
        let enlarge = g.layer("Interpolate", "opset11").attributes(&interpolate);
        let y = enlarge.inputs(&[y, sizes, axes]).output();
        g.result("y", y);
        check(&g.finish().unwrap(), &[1, 3, 10, 8], 1e-5, &steps);
    }
}

/// A 1×1 convolution, with dims `[outputs, inputs]`.
fn pointwise(g: &mut GraphBuilder, x: OutputRef, dims: [u64; 2], seed: usize) -> OutputRef {
    let filters = constant(g, &[dims[0], dims[1], 1, 1], seed);
    let windows = [
        ("strides", "1,1"),
        ("dilations", "1,1"),
        ("pads_begin", "0,0"),
        ("pads_end", "0,0"),
        ("auto_pad", "explicit"),
    ];
    g.layer("Convolution", "opset1").attributes(&windows).inputs(&[x, filters]).output()
}

/// The axes of an Interpolate may be an input, an attribute, or all axes.
#[test]
fn regions_go_through_interpolate_however_its_axes_are_written() {
    let modes = |mode| [("mode", mode), ("shape_calculation_mode", "sizes")];
    let by_attribute =
        |mode| [("mode", mode), ("axes", "2,3"), ("align_corners", "false"), ("antialias", "0")];
    for mode in ["nearest", "linear_onnx"] {
        for form in 0..4 {
            let mut g = GraphBuilder::new("resize");
            let x = g.parameter("x", F32, "1,20,5,4");
            let y = pointwise(&mut g, x, [24, 20], 3);
            let (spatial, all) = (g.constant_i64(&[11, 12]), g.constant_i64(&[1, 24, 11, 12]));
            let scales = g.constant_f32(&[4], &[1.0, 1.0, 2.2, 3.0]);
            let axes = g.constant_i64(&[2, 3]);
            let layer = |g: &mut GraphBuilder, opset, inputs: &[OutputRef]| {
                g.layer("Interpolate", opset).attributes(&modes(mode)).inputs(inputs).output()
            };
            let y = match form {
                0 => layer(&mut g, "opset4", &[y, all, scales]),
                1 => layer(&mut g, "opset11", &[y, all]),
                2 => layer(&mut g, "opset11", &[y, spatial, axes]),
                _ => {
                    let mode = if mode == "nearest" { mode } else { "linear" };
                    let layer = g.layer("Interpolate", "opset1").attributes(&by_attribute(mode));
                    layer.inputs(&[y, spatial]).output()
                }
            };
            let y = pointwise(&mut g, y, [16, 24], 4);
            g.result("y", y);
            let middle = if mode == "nearest" { "nearest" } else { "resample" };
            let steps = ["copy", "convolution", middle, "convolution", "copy"];
            check(&g.finish().unwrap(), &[1, 20, 5, 4], 1e-5, &steps);
        }
    }
}

/// Shifts of channels, Subtract too, are post-ops with the same bits. A scale multiplies the
/// filters.
#[test]
fn constants_are_applied_by_the_convolution() {
    let forms: [(&[&str], f32); 5] = [
        (&["Subtract"], 0.0),
        (&["Subtract", "Add"], 0.0),
        (&["Multiply"], 1e-6),
        (&["Subtract", "Multiply", "Add"], 1e-6),
        (&["Add", "Multiply", "Subtract", "Multiply"], 1e-6),
    ];
    for ((kinds, tolerance), dims) in
        forms.into_iter().flat_map(|f| [(f, &[1][..]), (f, &[1, 24, 1, 1])])
    {
        let mut g = GraphBuilder::new("shift");
        let x = g.parameter("x", F32, "1,20,5,4");
        let mut y = pointwise(&mut g, x, [24, 20], 3);
        for (seed, kind) in kinds.iter().enumerate() {
            let by = constant(&mut g, dims, seed + 4);
            y = binary(&mut g, kind, y, by);
        }
        let y = unary(&mut g, "Relu", y);
        g.result("y", y);
        check(&g.finish().unwrap(), &[1, 20, 5, 4], tolerance, &["copy", "convolution", "copy"]);
    }
}

/// What a convolution is subtracted from is no post-op.
#[test]
fn a_convolution_that_is_subtracted_stays() {
    let mut g = GraphBuilder::new("shift");
    let x = g.parameter("x", F32, "1,20,5,4");
    let y = pointwise(&mut g, x, [24, 20], 3);
    let mean = constant(&mut g, &[1, 24, 1, 1], 4);
    let y = binary(&mut g, "Subtract", mean, y);
    g.result("y", y);
    check(&g.finish().unwrap(), &[1, 20, 5, 4], 0.0, &["copy", "convolution", "binary", "copy"]);
}

/// Squeeze and excitation: channels are averaged, a gate is computed for each, and the next
/// convolution multiplies the channels by the gates while it reads them.
#[test]
fn gates_are_multiplied_while_the_convolution_reads() {
    let mut g = GraphBuilder::new("gate");
    let x = g.parameter("x", F32, "2,20,5,7");
    let conv = |g: &mut GraphBuilder, x, seed| pointwise(g, x, [20, 20], seed);
    let x = conv(&mut g, x, 3);
    let mean = with_ints(&mut g, "ReduceMean", x, &[2, 3]);
    let gate = conv(&mut g, mean, 4);
    let gate = unary(&mut g, "Sigmoid", gate);
    let y = binary(&mut g, "Multiply", x, gate);
    let y = conv(&mut g, y, 5);
    g.result("y", y);
    let steps = ["copy", "convolution", "reduce", "convolution", "convolution", "copy"];
    // Means sum in another order in NHWC.
    check(&g.finish().unwrap(), &[2, 20, 5, 7], 1e-5, &steps);
}

/// The inputs of a Concat along channels are read directly, if they have equally many channels.
#[test]
fn convolutions_read_side_by_side() {
    for (last, copies) in [(32, 0), (40, 1)] {
        let mut g = GraphBuilder::new("beside");
        let x = g.parameter("x", F32, "2,40,5,7");
        let parts =
            [(32, 3), (32, 4), (last, 5)].map(|(n, seed)| pointwise(&mut g, x, [n, 40], seed));
        let all = g.layer("Concat", "opset1").attribute("axis", "1").inputs(&parts).output();
        let y = pointwise(&mut g, all, [24, 64 + last], 6);
        let y = unary(&mut g, "Relu", y);
        g.result("y", y);
        let convolutions = ["convolution"; 3].into_iter().chain(vec!["copy"; copies]);
        let steps: Vec<&str> =
            ["copy"].into_iter().chain(convolutions).chain(["convolution", "copy"]).collect();
        check(&g.finish().unwrap(), &[2, 40, 5, 7], 0.0, &steps);
    }
}

/// Reshape, Transpose by `order` and Reshape.
fn shuffled(
    g: &mut GraphBuilder,
    x: OutputRef,
    (split, order, joined): (&[i64], &[i64], &[i64]),
) -> OutputRef {
    let x = with_ints(g, "Reshape", x, split);
    let order = g.constant_i64(order);
    let x = g.layer("Transpose", "opset1").inputs(&[x, order]).output();
    with_ints(g, "Reshape", x, joined)
}

/// Channels that become pixels are copied once, from channels last.
#[test]
fn pixels_are_shuffled_in_one_copy() {
    let mut g = GraphBuilder::new("pixels");
    let x = g.parameter("x", F32, "1,4,5,7");
    let y = pointwise(&mut g, x, [18, 4], 3);
    let parts: (&[i64], &[i64], &[i64]) =
        (&[1, 2, 3, 3, 5, 7], &[0, 1, 4, 2, 5, 3], &[1, 2, 15, 21]);
    let y = shuffled(&mut g, y, parts);
    g.result("y", y);
    check(&g.finish().unwrap(), &[1, 4, 5, 7], 0.0, &["convolution", "copy"]);
}

/// An activation behind them is applied by the convolution, unless something else reads what it has
/// made.
#[test]
fn an_activation_behind_shuffled_pixels_is_applied_before() {
    let parts: (&[i64], &[i64], &[i64]) =
        (&[1, 2, 3, 3, 5, 7], &[0, 1, 4, 2, 5, 3], &[1, 2, 15, 21]);
    let steps: [(bool, &[&str]); 2] =
        [(false, &["convolution", "copy"]), (true, &["convolution", "copy", "unary"])];
    for (is_read, steps) in steps {
        let mut g = GraphBuilder::new("pixels");
        let x = g.parameter("x", F32, "1,4,5,7");
        let y = pointwise(&mut g, x, [18, 4], 3);
        let bias = constant(&mut g, &[1, 18, 1, 1], 4);
        let y = binary(&mut g, "Add", y, bias);
        let y = shuffled(&mut g, y, parts);
        let activated = g.layer("HSwish", "opset4").inputs(&[y]).output();
        g.result("activated", activated);
        if is_read {
            g.result("y", y);
        }
        check(&g.finish().unwrap(), &[1, 4, 5, 7], 0.0, steps);
    }
}

/// Channels of two groups that alternate, of which each half goes to a convolution: a copy for each
/// half, whose channels stay last.
#[test]
fn channels_are_shuffled_in_one_copy_for_each_part() {
    let mut g = GraphBuilder::new("channels");
    let x = g.parameter("x", F32, "1,4,5,7");
    let y = pointwise(&mut g, x, [64, 4], 3);
    let parts: (&[i64], &[i64], &[i64]) = (&[1, 2, 32, 5, 7], &[0, 2, 1, 3, 4], &[1, 64, 5, 7]);
    let y = shuffled(&mut g, y, parts);
    let (axis, lengths) = (g.constant_i64(&[1]), g.constant_i64(&[24, 40]));
    let halves = g.layer("VariadicSplit", "opset1").inputs(&[y, axis, lengths]).outputs(2);
    for (half, channels) in halves.into_iter().zip([24, 40]) {
        let y = pointwise(&mut g, half, [16, channels], 4);
        let y = with_ints(&mut g, "ReduceMean", y, &[2, 3]);
        g.result(&format!("y{channels}"), y);
    }
    let half = ["copy", "convolution", "reduce"];
    let steps: Vec<&str> = ["convolution"].into_iter().chain(half).chain(half).collect();
    check(&g.finish().unwrap(), &[1, 4, 5, 7], 1e-5, &steps);
}

/// The head of a detector: at each scale, boxes and scores are concatenated, then all scales, and
/// boxes and scores are split again. Each is one copy of all scales.
#[test]
fn what_is_split_again_is_concatenated_once() {
    let mut g = GraphBuilder::new("head");
    let scales = [(5, 8), (3, 4)].map(|(height, width)| {
        let x = g.parameter(&format!("x{height}"), F32, &format!("1,4,{height},{width}"));
        let parts = [6, 10].map(|channels| pointwise(&mut g, x, [channels, 4], 3));
        let both = g.layer("Concat", "opset1").attribute("axis", "1").inputs(&parts).output();
        with_ints(&mut g, "Reshape", both, &[1, 16, -1])
    });
    let all = g.layer("Concat", "opset1").attribute("axis", "2").inputs(&scales).output();
    let (axis, lengths) = (g.constant_i64(&[1]), g.constant_i64(&[6, 10]));
    let parts = g.layer("VariadicSplit", "opset1").inputs(&[all, axis, lengths]).outputs(2);
    for (i, part) in parts.into_iter().enumerate() {
        let part = unary(&mut g, "Sigmoid", part);
        g.result(&format!("y{i}"), part);
    }
    let graph = g.finish().unwrap();
    let sizes = [[1, 4, 5, 8], [1, 4, 3, 4]];
    let inputs =
        sizes.map(|sizes| Tensor::from_vec(&sizes, numbers(sizes.iter().product(), 1)).unwrap());
    let run = |optimize| plan(&graph, optimize).session().run(&inputs).unwrap();
    assert_eq!(run(true), run(false));
    let explained = plan(&graph, true).explain();
    let of = |kernel: &str| explained.iter().filter(|line| line.contains(kernel)).count();
    let steps = [": convolution", ": copy", ": unary", ": move"].map(of);
    assert_eq!(steps, [4, 4, 2, 0], "{explained:#?}");
}

/// A depthwise convolution also gives the means of its channels, after all its post-ops.
#[test]
fn means_are_made_by_the_convolution_before_them() {
    let mut g = GraphBuilder::new("means");
    let x = g.parameter("x", F32, "2,20,9,7");
    let windows = [
        ("strides", "2,1"),
        ("dilations", "1,1"),
        ("pads_begin", "1,1"),
        ("pads_end", "1,1"),
        ("auto_pad", "explicit"),
    ];
    let filters = constant(&mut g, &[20, 1, 1, 3, 3], 3);
    let group = g.layer("GroupConvolution", "opset1").attributes(&windows);
    let x = group.inputs(&[x, filters]).output();
    let x = unary(&mut g, "Sigmoid", x);
    let mean = with_ints(&mut g, "ReduceMean", x, &[3, 2]);
    let y = binary(&mut g, "Subtract", x, mean);
    g.result("y", y);
    // Means sum in another order.
    check(&g.finish().unwrap(), &[2, 20, 9, 7], 1e-6, &["copy", "convolution", "binary", "copy"]);
}

/// As in vision transformers with convolutions: rows of channels become an image and rows again
/// without a copy, and the operation behind the convolution becomes a post-op.
#[test]
fn rows_become_a_map_and_rows_again_without_a_copy() {
    let mut g = GraphBuilder::new("rows");
    let x = g.parameter("x", F32, "2,20,8");
    let wide = constant(&mut g, &[8, 24], 3);
    let y = g.layer("MatMul", "opset1").inputs(&[x, wide]).output();
    let y = with_ints(&mut g, "Transpose", y, &[0, 2, 1]);
    let y = with_ints(&mut g, "Reshape", y, &[2, 24, 4, 5]);
    let window =
        [("strides", "1,1"), ("dilations", "1,1"), ("pads_begin", "1,1"), ("pads_end", "1,1")];
    let filters = constant(&mut g, &[24, 1, 1, 3, 3], 4);
    let y =
        g.layer("GroupConvolution", "opset1").attributes(&window).inputs(&[y, filters]).output();
    let bias = constant(&mut g, &[1, 24, 1, 1], 5);
    let y = binary(&mut g, "Add", y, bias);
    let y = with_ints(&mut g, "Reshape", y, &[2, 24, 20]);
    let y = with_ints(&mut g, "Transpose", y, &[0, 2, 1]);
    let y = unary(&mut g, "Tanh", y);
    let narrow = constant(&mut g, &[24, 8], 6);
    let y = g.layer("MatMul", "opset1").inputs(&[y, narrow]).output();
    let y = binary(&mut g, "Add", y, x);
    g.result("y", y);
    check(&g.finish().unwrap(), &[2, 20, 8], 0.0, &["matmul", "convolution", "matmul"]);
}

/// If lines become batch elements, means are per line, which the convolution does not give.
#[test]
fn lines_that_become_the_batch_have_means_of_their_own() {
    let mut g = GraphBuilder::new("lines");
    let x = g.parameter("x", F32, "1,16,6,5");
    let window =
        [("strides", "1,1"), ("dilations", "1,1"), ("pads_begin", "1,1"), ("pads_end", "1,1")];
    let filters = constant(&mut g, &[16, 1, 1, 3, 3], 3);
    let y =
        g.layer("GroupConvolution", "opset1").attributes(&window).inputs(&[x, filters]).output();
    let y = with_ints(&mut g, "Transpose", y, &[0, 2, 3, 1]);
    let y = with_ints(&mut g, "Reshape", y, &[6, 5, 16]);
    let y = with_ints(&mut g, "ReduceMean", y, &[1]);
    g.result("y", y);
    check(&g.finish().unwrap(), &[1, 16, 6, 5], 1e-6, &["copy", "convolution", "reduce"]);
}

/// Group and instance normalization run in NHWC; the operations behind them become post-ops.
#[test]
fn maps_are_normalised_with_their_channels_last() {
    for groups in [Some("4"), None] {
        let mut g = GraphBuilder::new("normalise");
        let x = g.parameter("x", F32, "2,20,9,7");
        let y = pointwise(&mut g, x, [24, 20], 3);
        let [scale, shift] = [4, 5].map(|seed| constant(&mut g, &[24], seed));
        let y = match groups {
            Some(groups) => g
                .layer("GroupNormalization", "opset12")
                .attributes(&[("num_groups", groups), ("epsilon", "1e-5")])
                .inputs(&[y, scale, shift])
                .output(),
            None => {
                let axes = g.constant_i64(&[2, 3]);
                let options =
                    [("eps", "1e-5"), ("eps_mode", "inside_sqrt"), ("normalize_variance", "true")];
                let y = g.layer("MVN", "opset6").attributes(&options).inputs(&[y, axes]).output();
                let scale = constant(&mut g, &[1, 24, 1, 1], 6);
                binary(&mut g, "Multiply", y, scale)
            }
        };
        let y = unary(&mut g, "Relu", y);
        let y = pointwise(&mut g, y, [20, 24], 7);
        g.result("y", y);
        let steps = ["copy", "convolution", "normalize", "convolution", "copy"];
        // Sums are in another order in NHWC.
        check(&g.finish().unwrap(), &[2, 20, 9, 7], 2e-4, &steps);
    }
}

/// Pad, Slice and Split of positions or channels stay in NHWC.
#[test]
fn parts_of_maps_keep_their_channels_last() {
    let mut g = GraphBuilder::new("parts");
    let x = g.parameter("x", F32, "2,20,9,7");
    let y = pointwise(&mut g, x, [24, 20], 3);
    let pads = [[0, 0, 1, 2], [0, 0, 3, 0]].map(|pads| g.constant_i64(&pads));
    let pad = g.layer("Pad", "opset12").attribute("pad_mode", "reflect");
    let y = pad.inputs(&[y, pads[0], pads[1]]).output();
    // Channels 2, 4, … 22, and lines 1 to 12, by both versions of the operation.
    let [start, stop, step, axes] = [[2, 1], [24, 12], [2, 1], [-3, 2]].map(|v| g.constant_i64(&v));
    let y = g.layer("Slice", "opset8").inputs(&[y, start, stop, step, axes]).output();
    let [start, stop, step] = [[0, 0, 1], [2, 11, 11], [1, 1, 1]].map(|v| g.constant_i64(&v));
    let y = g.layer("Slice", "opset8").inputs(&[y, start, stop, step]).output();
    let axis = g.constant(I64, &[], &1i64.to_le_bytes());
    let lengths = g.constant_i64(&[3, -1]);
    let parts = g.layer("VariadicSplit", "opset1").inputs(&[y, axis, lengths]).outputs(2);
    let y = g.layer("Concat", "opset1").attribute("axis", "1").inputs(&[parts[1], parts[0]]);
    let y = y.output();
    let y = pointwise(&mut g, y, [20, 11], 7);
    g.result("y", y);
    let parts = ["pad", "copy", "copy", "copy", "copy"];
    let steps: Vec<&str> =
        ["copy", "convolution"].into_iter().chain(parts).chain(["convolution", "copy"]).collect();
    check(&g.finish().unwrap(), &[2, 20, 9, 7], 0.0, &steps);
}

/// Zero padding, as models from TensorFlow write it, becomes padding of the convolution. Other pad
/// values, negative pads and other axes do not.
#[test]
fn zeros_around_a_map_are_padding() {
    let graph = |mode: &str, begin: [i64; 4], end: [i64; 4], value: f32, strided: bool| {
        let mut g = GraphBuilder::new("zeros");
        let x = g.parameter("x", F32, "1,20,9,7");
        let y = pointwise(&mut g, x, [24, 20], 3);
        let [begin, end] = [begin, end].map(|pads| g.constant_i64(&pads));
        let value = g.constant_f32(&[], &[value]);
        let pad = g.layer("Pad", "opset12").attribute("pad_mode", mode);
        let y = pad.inputs(&[y, begin, end, value]).output();
        let strides = if strided { "2,2" } else { "1,1" };
        let window = [
            ("strides", strides),
            ("dilations", "1,1"),
            ("pads_begin", "0,1"),
            ("pads_end", "1,0"),
        ];
        let filters = constant(&mut g, &[24, 1, 1, 3, 3], 4);
        let group = g.layer("GroupConvolution", "opset1").attributes(&window);
        let y = group.inputs(&[y, filters]).output();
        g.result("y", y);
        g.finish().unwrap()
    };
    let (joined, apart) = (
        ["copy", "convolution", "convolution", "copy"],
        ["copy", "convolution", "pad", "convolution", "copy"],
    );
    for strided in [false, true] {
        let check = |g, steps: &[&str]| check(&g, &[1, 20, 9, 7], 0.0, steps);
        check(graph("constant", [0, 0, 1, 0], [0, 0, 2, 3], 0.0, strided), &joined);
        check(graph("constant", [0, 0, 1, 0], [0, 0, 2, 3], 0.5, strided), &apart);
        check(graph("edge", [0, 0, 1, 0], [0, 0, 2, 3], 0.0, strided), &apart);
        check(graph("constant", [0, 0, 1, 0], [0, 0, -2, 3], 0.0, strided), &apart);
    }
}

/// The input of the model may be padded too.
#[test]
fn zeros_around_an_image_are_padding() {
    let mut g = GraphBuilder::new("image");
    let x = g.parameter("x", F32, "1,3,9,8");
    let [begin, end] = [[0, 0, 0, 1], [0, 0, 1, 1]].map(|pads| g.constant_i64(&pads));
    let pad = g.layer("Pad", "opset12").attribute("pad_mode", "constant");
    let y = pad.inputs(&[x, begin, end]).output();
    let window =
        [("strides", "2,2"), ("dilations", "1,1"), ("pads_begin", "0,0"), ("pads_end", "0,0")];
    let filters = constant(&mut g, &[16, 3, 3, 3], 4);
    let y = g.layer("Convolution", "opset1").attributes(&window).inputs(&[y, filters]).output();
    g.result("y", y);
    check(&g.finish().unwrap(), &[1, 3, 9, 8], 0.0, &["convolution", "copy"]);
}
