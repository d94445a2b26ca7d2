//! MatMul with post-ops, movements read through, horizontal GEMM fusion, folding.

use super::{binary, check, constant, numbers, plan, unary, with_ints};
use ir::ElementType::{F16, F32, I8, I64, U8};
use ir::{GraphBuilder, OutputRef};
use irrun_runtime::Tensor;

#[test]
fn bias_activation_and_residual_join_the_product() {
    let mut g = GraphBuilder::new("epilogue");
    let x = g.parameter("x", F32, "2,9,24");
    let weights = constant(&mut g, &[24, 24], 3);
    let bias = constant(&mut g, &[1, 1, 24], 4);
    let y = g.layer("MatMul", "opset1").attribute("transpose_b", "true");
    let y = y.inputs(&[x, weights]).output();
    let y = binary(&mut g, "Add", y, bias);
    let y = unary(&mut g, "Tanh", y);
    let y = binary(&mut g, "Add", x, y);
    g.result("y", y);
    check(&g.finish().unwrap(), &[2, 9, 24], 0.0, &["matmul"]);
}

/// As in PyTorch's addmm: rows are flattened for the MatMul, and the post-ops have all axes again.
/// A Reshape that changes the last axis ends the fusion, except for activations.
#[test]
fn what_follows_a_reshape_joins_the_product() {
    let reshape = |g: &mut GraphBuilder, x: OutputRef, sizes: &[i64]| {
        let bytes: Vec<u8> = sizes.iter().flat_map(|s| s.to_le_bytes()).collect();
        let sizes = g.constant(I64, &[sizes.len() as u64], &bytes);
        let reshape = g.layer("Reshape", "opset1").attribute("special_zero", "false");
        reshape.inputs(&[x, sizes]).output()
    };
    for (columns, steps) in [(24, &["matmul"][..]), (12, &["matmul", "binary"])] {
        let mut g = GraphBuilder::new("addmm");
        let x = g.parameter("x", F32, "2,9,24");
        let weights = constant(&mut g, &[24, 24], 3);
        let bias = constant(&mut g, &[24], 4);
        let y = reshape(&mut g, x, &[18, 24]);
        let y = g.layer("MatMul", "opset1").inputs(&[y, weights]).output();
        let y = binary(&mut g, "Add", y, bias);
        let y = reshape(&mut g, y, &[2, 9 * 24 / columns, columns]);
        let y = unary(&mut g, "Tanh", y);
        let x = reshape(&mut g, x, &[2, 9 * 24 / columns, columns]);
        let y = binary(&mut g, "Add", y, x);
        g.result("y", y);
        check(&g.finish().unwrap(), &[2, 9, 24], 0.0, steps);
    }
}

/// The second operand is aligned at axis 1, not at the columns of the MatMul.
#[test]
fn an_operand_that_is_aligned_elsewhere_does_not_join() {
    let mut g = GraphBuilder::new("pdpd");
    let x = g.parameter("x", F32, "2,4,4");
    let weights = constant(&mut g, &[4, 4], 3);
    let y = g.layer("MatMul", "opset1").inputs(&[x, weights]).output();
    let rows = constant(&mut g, &[4], 4);
    let add = g.layer("Add", "opset1").attributes(&[("auto_broadcast", "pdpd"), ("axis", "1")]);
    let y = add.inputs(&[y, rows]).output();
    g.result("y", y);
    check(&g.finish().unwrap(), &[2, 4, 4], 0.0, &["matmul", "binary"]);
}

#[test]
fn a_product_that_is_needed_as_it_is_stays() {
    let mut g = GraphBuilder::new("epilogue");
    let x = g.parameter("x", F32, "5,8");
    let weights = constant(&mut g, &[8, 8], 3);
    let y = g.layer("MatMul", "opset1").inputs(&[x, weights]).output();
    let z = unary(&mut g, "Relu", y);
    let y = binary(&mut g, "Multiply", y, z);
    g.result("y", y);
    check(&g.finish().unwrap(), &[5, 8], 0.0, &["matmul", "element-wise"]);
}

#[test]
fn rows_are_normalised_scaled_and_shifted_in_one_step() {
    let mut g = GraphBuilder::new("layer norm");
    let x = g.parameter("x", F32, "3,7,40");
    let axes = g.constant_i64(&[2]);
    let norm = [("eps", "1e-5"), ("normalize_variance", "true"), ("eps_mode", "inside_sqrt")];
    let y = g.layer("MVN", "opset6").attributes(&norm).inputs(&[x, axes]).output();
    let (scale, shift) = (constant(&mut g, &[40], 3), constant(&mut g, &[40], 4));
    let y = binary(&mut g, "Multiply", y, scale);
    let y = binary(&mut g, "Add", y, shift);
    g.result("y", y);
    check(&g.finish().unwrap(), &[3, 7, 40], 0.0, &["normalize"]);
}

/// RMSNorm fusion keeps the bits for any row length. No fusion for other axes or other reductions.
#[test]
fn rows_are_divided_by_their_root_mean_square_in_one_step() {
    let one_step = ["normalize"];
    let written = ["binary", "reduce", "element-wise", "binary", "binary", "binary"];
    for (columns, axis, squares, steps) in
        [(64, 2, true, &one_step[..]), (37, -1, false, &one_step), (64, 1, false, &written)]
    {
        let mut g = GraphBuilder::new("root mean square");
        let x = g.parameter("x", F32, &format!("3,7,{columns}"));
        let two = g.constant_f32(&[1, 1, 1], &[2.0]);
        let square = if squares { two } else { x };
        let square = binary(&mut g, if squares { "Power" } else { "Multiply" }, x, square);
        let mean = with_ints(&mut g, "ReduceMean", square, &[axis]);
        let eps = g.constant_f32(&[1, 1, 1], &[1e-5]);
        let root = binary(&mut g, "Add", mean, eps);
        let root = unary(&mut g, "Sqrt", root);
        let one = g.constant_f32(&[1, 1, 1], &[1.0]);
        let factor = binary(&mut g, "Divide", one, root);
        let y = binary(&mut g, "Multiply", x, factor);
        let scale = constant(&mut g, &[columns], 3);
        let y = binary(&mut g, "Multiply", scale, y);
        g.result("y", y);
        check(&g.finish().unwrap(), &[3, 7, columns as usize], 0.0, steps);
    }
}

#[test]
fn rotary_embeddings_are_one_step_and_read_where_their_data_were() {
    let slice = |g: &mut GraphBuilder, x: OutputRef, range: (i64, i64)| {
        let ints = [range.0, range.1, 1, 3].map(|v| g.constant_i64(&[v]));
        g.layer("Slice", "opset8").inputs(&[x, ints[0], ints[1], ints[2], ints[3]]).output()
    };
    let split = |g: &mut GraphBuilder, x: OutputRef| {
        let axis = g.constant(I64, &[], &(-1i64).to_le_bytes());
        let parts = [("num_splits", "2")];
        let node = g.layer("Split", "opset1").attributes(&parts).inputs(&[x, axis]);
        node.outputs(2)
    };
    let written = ["copy", "binary", "move", "move", "concat", "binary", "binary"];
    for (halves, negative, steps) in
        [(true, true, &["rotary"][..]), (false, false, &["rotary"]), (true, false, &written)]
    {
        let mut g = GraphBuilder::new("rotary");
        let x = g.parameter("x", F32, "2,5,3,32");
        let x = with_ints(&mut g, "Transpose", x, &[0, 2, 1, 3]);
        let (low, high) = if halves {
            (slice(&mut g, x, (0, 16)), slice(&mut g, x, (16, 32)))
        } else {
            let parts = split(&mut g, x);
            (parts[0], parts[1])
        };
        let opposite = if negative {
            unary(&mut g, "Negative", high)
        } else {
            let by = g.constant_f32(&[], &[if halves { -2.0 } else { -1.0 }]);
            binary(&mut g, "Multiply", by, high)
        };
        let transposed = [("axis", "-1")];
        let transposed =
            g.layer("Concat", "opset1").attributes(&transposed).inputs(&[opposite, low]);
        let transposed = transposed.output();
        let (cos, sin) = (constant(&mut g, &[5, 32], 2), constant(&mut g, &[1, 3, 1, 32], 3));
        let straight = binary(&mut g, "Multiply", x, cos);
        let crossed = binary(&mut g, "Multiply", transposed, sin);
        let y = binary(&mut g, "Add", straight, crossed);
        g.result("y", y);
        check(&g.finish().unwrap(), &[2, 5, 3, 32], 0.0, steps);
    }
}

/// Roll and Reshape of a Swin block: shift, partition into windows, MatMul.
#[test]
fn a_chain_of_movements_is_read_through_by_the_product() {
    let mut g = GraphBuilder::new("windows");
    let x = g.parameter("x", F32, "1,8,8,16");
    let (shift, axes) = (g.constant_i64(&[-2, -2]), g.constant_i64(&[1, 2]));
    let y = g.layer("Roll", "opset7").inputs(&[x, shift, axes]).output();
    let y = with_ints(&mut g, "Reshape", y, &[1, 2, 4, 2, 4, 16]);
    let y = with_ints(&mut g, "Transpose", y, &[0, 1, 3, 2, 4, 5]);
    let y = with_ints(&mut g, "Reshape", y, &[4, 16, 16]);
    let weights = constant(&mut g, &[16, 24], 3);
    let y = g.layer("MatMul", "opset1").inputs(&[y, weights]).output();
    g.result("y", y);
    check(&g.finish().unwrap(), &[1, 8, 8, 16], 0.0, &["matmul"]);
}

#[test]
fn a_chain_of_movements_is_one_copy() {
    let mut g = GraphBuilder::new("windows");
    let x = g.parameter("x", F32, "1,8,8,16");
    let y = with_ints(&mut g, "Reshape", x, &[1, 2, 4, 2, 4, 16]);
    let y = with_ints(&mut g, "Transpose", y, &[0, 1, 3, 2, 4, 5]);
    let (shift, axes) = (g.constant_i64(&[1]), g.constant_i64(&[3]));
    let y = g.layer("Roll", "opset7").inputs(&[y, shift, axes]).output();
    let y = unary(&mut g, "Relu", y);
    g.result("y", y);
    check(&g.finish().unwrap(), &[1, 8, 8, 16], 0.0, &["move", "unary"]);
}

#[test]
fn attention_is_recognised_and_reads_and_writes_where_it_is_needed() {
    let mut g = GraphBuilder::new("attention");
    let x = g.parameter("x", F32, "2,6,48");
    // Three heads of 16; query, key and value are the input itself.
    let heads = with_ints(&mut g, "Reshape", x, &[2, 6, 3, 16]);
    let heads = with_ints(&mut g, "Transpose", heads, &[0, 2, 1, 3]);
    let scores = g.layer("MatMul", "opset1").attribute("transpose_b", "true");
    let scores = scores.inputs(&[heads, heads]).output();
    let scale = g.constant_f32(&[], &[0.25]);
    let scores = binary(&mut g, "Multiply", scores, scale);
    let mask = constant(&mut g, &[1, 3, 6, 6], 5);
    let scores = binary(&mut g, "Add", scores, mask);
    let weights = g.layer("Softmax", "opset8").attribute("axis", "-1").inputs(&[scores]).output();
    let y = g.layer("MatMul", "opset1").inputs(&[weights, heads]).output();
    let y = with_ints(&mut g, "Transpose", y, &[0, 2, 1, 3]);
    let y = with_ints(&mut g, "Reshape", y, &[2, 6, 48]);
    let y = unary(&mut g, "Relu", y);
    g.result("y", y);
    check(&g.finish().unwrap(), &[2, 6, 48], 1e-6, &["attention", "unary"]);
}

/// Windows of Swin v2: a scale and a bias for each head, and a mask for each window, added twice
/// as transformers does.
#[test]
fn attention_may_have_a_scale_for_each_head_and_three_masks() {
    let mut g = GraphBuilder::new("windows");
    let x = g.parameter("x", F32, "4,3,6,16");
    let scores = g.layer("MatMul", "opset1").attribute("transpose_b", "true");
    let scores = scores.inputs(&[x, x]).output();
    let scale = g.constant_f32(&[1, 3, 1, 1], &[0.1, 0.25, -0.4]);
    let scores = binary(&mut g, "Multiply", scores, scale);
    let bias = constant(&mut g, &[1, 3, 6, 6], 5);
    let scores = binary(&mut g, "Add", scores, bias);
    let mut scores = with_ints(&mut g, "Reshape", scores, &[2, 2, 3, 6, 6]);
    let mask = constant(&mut g, &[1, 2, 1, 6, 6], 6);
    for _ in 0..2 {
        scores = binary(&mut g, "Add", scores, mask);
    }
    let scores = with_ints(&mut g, "Reshape", scores, &[4, 3, 6, 6]);
    let weights = g.layer("Softmax", "opset8").attribute("axis", "-1").inputs(&[scores]).output();
    let y = g.layer("MatMul", "opset1").inputs(&[weights, x]).output();
    g.result("y", y);
    check(&g.finish().unwrap(), &[4, 3, 6, 16], 1e-6, &["attention"]);
}

/// The gate of an MLP multiplies the other projection, as either operand.
#[test]
fn a_product_and_its_gate_are_one_step() {
    for (rows, first) in [(1, true), (3, false)] {
        let mut g = GraphBuilder::new("gate");
        let x = g.parameter("x", F32, &format!("{rows},130"));
        let product = |g: &mut GraphBuilder, x: OutputRef, seed: usize, dims: &[u64]| {
            let weights = constant(g, dims, seed);
            let y = g.layer("MatMul", "opset1").attribute("transpose_b", "true");
            y.inputs(&[x, weights]).output()
        };
        let gate = product(&mut g, x, 2, &[300, 130]);
        let gate = unary(&mut g, "Sigmoid", gate);
        let up = product(&mut g, x, 3, &[300, 130]);
        let (a, b) = if first { (gate, up) } else { (up, gate) };
        let y = binary(&mut g, "Multiply", a, b);
        let y = product(&mut g, y, 4, &[50, 300]);
        g.result("y", y);
        check(&g.finish().unwrap(), &[rows, 130], 0.0, &["matmul", "matmul"]);
    }
}

/// Query, key and value of one token: with a bias, compressed, and narrower than a panel.
#[test]
fn products_of_the_same_few_rows_are_one_step() {
    for rows in [1, 3] {
        let mut g = GraphBuilder::new("together");
        let x = g.parameter("x", F32, &format!("1,{rows},1024"));
        let product = |g: &mut GraphBuilder, weights: OutputRef| {
            let y = g.layer("MatMul", "opset1").attribute("transpose_b", "true");
            y.inputs(&[x, weights]).output()
        };
        let (wide, narrow) = (constant(&mut g, &[96, 1024], 2), constant(&mut g, &[40, 1024], 3));
        let bias = constant(&mut g, &[96], 4);
        let first = product(&mut g, wide);
        let first = binary(&mut g, "Add", first, bias);
        let bytes: Vec<u8> = (0..512 * 1024).map(|i| (i * 7 % 11) as u8).collect();
        let weights = g.constant(I8, &[512, 1024], &bytes);
        let wide = g.layer("Convert", "opset1").attribute("destination_type", "f32");
        let weights = wide.inputs(&[weights]).output();
        let second = product(&mut g, weights);
        let third = product(&mut g, narrow);
        let all = g.layer("Concat", "opset1").attribute("axis", "2");
        let all = all.inputs(&[first, second, third]).output();
        g.result("y", all);
        check(&g.finish().unwrap(), &[1, rows, 1024], 0.0, &["once", "matmul", "copy"]);
    }
}

/// A batched B: the matrices differ per batch element, so B is not read compressed.
#[test]
fn compressed_weights_are_computed_once() {
    let mut g = GraphBuilder::new("decompress");
    let x = g.parameter("x", F32, "2,4,512");
    let bytes: Vec<u8> = (0..1024 * 512).map(|i| (i * 7 % 251) as u8).collect();
    let weights = g.constant(U8, &[2, 512, 512], &bytes);
    let to = |t: &'static str| [("destination_type", t)];
    let wide = g.layer("Convert", "opset1").attributes(&to("f16")).inputs(&[weights]).output();
    let zero = g.constant(F16, &[1, 1], &half_bytes(120.0));
    let wide = binary(&mut g, "Subtract", wide, zero);
    let scale = g.constant(F16, &[1, 1], &half_bytes(0.0078125));
    let wide = binary(&mut g, "Multiply", wide, scale);
    let wide = g.layer("Convert", "opset1").attributes(&to("f32")).inputs(&[wide]).output();
    let y = g.layer("MatMul", "opset1").attribute("transpose_b", "true");
    let y = y.inputs(&[x, wide]).output();
    g.result("y", y);
    // The scale is a power of two, so f16 does not round either.
    check(&g.finish().unwrap(), &[2, 4, 512], 0.0, &["once", "matmul"]);
}

/// Only the gathered rows of a table are converted, also with an index out of range.
#[test]
fn rows_are_gathered_before_they_are_decompressed() {
    let mut g = GraphBuilder::new("embedding");
    let x = g.parameter("x", F32, "2,3");
    let bytes: Vec<u8> = (0..1500 * 512).map(|i| (i * 7 % 251) as u8).collect();
    let to = |t: &'static str| [("destination_type", t)];
    let half = |g: &mut GraphBuilder, from| {
        g.layer("Convert", "opset1").attributes(&to("f16")).inputs(&[from]).output()
    };
    let (table, zero) =
        (g.constant(U8, &[1500, 512], &bytes), g.constant(U8, &[1500, 1], &bytes[..1500]));
    let (table, zero) = (half(&mut g, table), half(&mut g, zero));
    let table = binary(&mut g, "Subtract", table, zero);
    let scales: Vec<u8> = (0..1500).flat_map(|i| half_bytes(0.5 + i as f32 / 1024.0)).collect();
    let scale = g.constant(F16, &[1500, 1], &scales);
    let table = binary(&mut g, "Multiply", table, scale);
    let table = g.layer("Convert", "opset1").attributes(&to("f32")).inputs(&[table]).output();
    let factor = g.constant_f32(&[1, 512], &[0.25; 512]);
    let table = binary(&mut g, "Multiply", table, factor);
    let far = g.constant_f32(&[], &[2000.0]);
    let indices = binary(&mut g, "Multiply", x, far);
    let indices = g.layer("Convert", "opset1").attributes(&to("i64")).inputs(&[indices]).output();
    let axis = g.constant_i64(&[0]);
    let y = g.layer("Gather", "opset8").inputs(&[table, indices, axis]).output();
    g.result("y", y);
    let (table, scale) = (["gather", "convert"], ["gather", "binary"]);
    let steps = [&["binary", "convert"], &table, &["gather", "binary"], &scale, &["binary"][..]];
    check(&g.finish().unwrap(), &[2, 3], 0.0, &steps.concat());
}

pub(super) fn half_bytes(value: f32) -> Vec<u8> {
    let value = Tensor::from_vec(&[1], vec![value]).unwrap();
    irrun_runtime::convert(&value, F16).unwrap().bytes().to_vec()
}

/// Scales aligned at the first axis belong to rows, so they are gathered with them.
#[test]
fn rows_with_factors_of_their_own_are_gathered_scaled() {
    let mut g = GraphBuilder::new("factors");
    let x = g.parameter("x", F32, "2,3");
    let bytes: Vec<u8> = (0..1024 * 1024).map(|i| (i * 7 % 251) as u8).collect();
    let table = g.constant(U8, &[1024, 1024], &bytes);
    let convert = g.layer("Convert", "opset1").attribute("destination_type", "f32");
    let table = convert.inputs(&[table]).output();
    let factors: Vec<f32> = (0..1024).map(|i| 0.5 + i as f32 / 1024.0).collect();
    let factors = g.constant_f32(&[1024], &factors);
    let scaled = g.layer("Multiply", "opset1");
    let scaled = scaled.attributes(&[("auto_broadcast", "pdpd"), ("axis", "0")]);
    let table = scaled.inputs(&[table, factors]).output();
    let indices = g.constant_i64(&[3, 500]);
    let axis = g.constant_i64(&[0]);
    let rows = g.layer("Gather", "opset8").attribute("batch_dims", "0");
    let rows = rows.inputs(&[table, indices, axis]).output();
    let sum = with_ints(&mut g, "ReduceSum", rows, &[1]);
    let y = binary(&mut g, "Add", x, sum);
    g.result("y", y);
    let graph = g.finish().unwrap();
    let input = [Tensor::from_vec(&[2, 3], numbers(6, 1)).unwrap()];
    let [found, written] = [true, false].map(|o| plan(&graph, o).session().run(&input).unwrap());
    assert_eq!(found, written);
}

/// Sizes that only folding can compute are known to all nodes that follow, however many operations
/// are between.
#[test]
fn shapes_follow_from_what_is_folded() {
    let mut g = GraphBuilder::new("sizes");
    let x = g.parameter("x", F32, "12");
    // 3 and 4, which propagation does not know.
    let steps = g.constant_i64(&[3, 1]);
    let axis = g.constant(I64, &[], &[0; 8]);
    let sizes = g.layer("CumSum", "opset3").inputs(&[steps, axis]).output();
    let one = g.constant_i64(&[1]);
    let sizes = g.layer("Concat", "opset1").attribute("axis", "0").inputs(&[one, sizes]).output();
    let reshape = g.layer("Reshape", "opset1").attribute("special_zero", "false");
    let y = reshape.inputs(&[x, sizes]).output();
    let y = unary(&mut g, "Tanh", y);
    g.result("y", y);
    check(&g.finish().unwrap(), &[12], 0.0, &["unary"]);
}

#[test]
fn what_does_nothing_or_twice_the_same_is_dropped() {
    let mut g = GraphBuilder::new("tidy");
    let x = g.parameter("x", F32, "4,6");
    let one = g.constant_f32(&[], &[1.0]);
    let same = binary(&mut g, "Multiply", x, one);
    let same = with_ints(&mut g, "Transpose", same, &[0, 1]);
    let (a, b) = (unary(&mut g, "Exp", same), unary(&mut g, "Exp", x));
    unary(&mut g, "Sin", x);
    let y = binary(&mut g, "Add", a, b);
    g.result("y", y);
    check(&g.finish().unwrap(), &[4, 6], 0.0, &["unary", "binary"]);
}

/// Proposal-1 and -4 have the same attributes, but a different number of outputs.
#[test]
fn versions_with_other_outputs_are_not_shared() {
    let mut g = GraphBuilder::new("versions");
    let deltas = constant(&mut g, &[1, 4, 2, 3], 2);
    let image = g.constant_f32(&[3], &[48.0, 40.0, 1.0]);
    let scores = g.parameter("scores", F32, "1,2,2,3");
    let sizes = [("base_size", "16"), ("pre_nms_topn", "9"), ("post_nms_topn", "4")];
    let rest = [("nms_thresh", "0.6"), ("feat_stride", "16"), ("min_size", "4")];
    let anchors = [("ratio", "1"), ("scale", "1")];
    let mut results = Vec::new();
    for (version, outputs) in [("opset1", 1), ("opset4", 2)] {
        let layer = g.layer("Proposal", version).attributes(&sizes).attributes(&rest);
        let layer = layer.attributes(&anchors).inputs(&[scores, deltas, image]);
        results.extend(layer.outputs(outputs));
    }
    results.into_iter().enumerate().for_each(|(i, y)| g.result(&format!("y{i}"), y));
    let graph = g.finish().unwrap();
    let input = Tensor::from_vec(&[1, 2, 2, 3], numbers(12, 1)).unwrap();
    let [optimised, written] = [true, false].map(|optimize| {
        let outputs = plan(&graph, optimize).session().run(std::slice::from_ref(&input)).unwrap();
        outputs.iter().map(|t| t.as_slice::<f32>().unwrap().to_vec()).collect::<Vec<_>>()
    });
    assert_eq!(written.len(), 3);
    assert_eq!(optimised, written);
}
