//! Layers of models: convolutions, MatMuls, normalization, attention.

use super::net::{Choices, Net, Value, noise};
use ir::ElementType::{I8, U4};
use ir::OutputRef;

/// What follows a layer with weights.
fn finished(net: &mut Net, y: Value, channels: usize, c: &mut Choices) -> Value {
    let mut own = vec![1; y.rank()];
    own[channels] = y.sizes[channels];
    let y = if c.flag() {
        let bias = net.between(&own, -0.5, 0.5);
        net.binary("Add", &y, bias)
    } else {
        y
    };
    match c.below(6) {
        0 => y,
        1 => net.unary("Relu", &y),
        2 => net.unary("HSwish", &y),
        3 => net.unary("Swish", &y),
        4 => net.unary("Clamp", &y),
        _ => {
            let slopes = net.between(&y.sizes[1..2.min(y.rank())], -0.5, 0.5);
            net.op(("PRelu", "opset1"), &[], &[y.port, slopes], &y.sizes)
        }
    }
}

/// The windows of a convolution or a pool along one axis.
struct Windows {
    taps: usize,
    stride: usize,
    dilation: usize,
    pads: [usize; 2],
}

impl Windows {
    fn choose(c: &mut Choices) -> Windows {
        let taps = c.of(&[1, 3, 3, 5, 2]);
        Windows {
            taps,
            stride: c.of(&[1, 1, 2]),
            dilation: c.of(&[1, 1, 1, 2]),
            pads: [c.below(taps), c.below(taps)],
        }
    }

    /// Windows that keep the size.
    fn around(c: &mut Choices) -> Windows {
        let (taps, dilation) = (c.of(&[1, 3, 5]), c.of(&[1, 2]));
        Windows { taps, stride: 1, dilation, pads: [(taps - 1) * dilation / 2; 2] }
    }

    /// The number of windows.
    fn over(&self, size: usize) -> Option<usize> {
        let reach = (self.taps - 1) * self.dilation;
        let free = (size + self.pads[0] + self.pads[1]).checked_sub(reach + 1)?;
        Some(free / self.stride + 1)
    }
}

fn each<T: ToString>(windows: &[Windows], of: impl Fn(&Windows) -> T) -> String {
    windows.iter().map(|w| of(w).to_string()).collect::<Vec<_>>().join(",")
}

fn convolved(
    net: &mut Net,
    x: &Value,
    windows: &[Windows],
    filters: &[usize],
    grouped: bool,
) -> Option<Value> {
    convolved_by(net, x, windows, filters, grouped, Net::weights)
}

/// The same with filters of these sizes, scaled for sums of `terms` products.
fn convolved_by(
    net: &mut Net,
    x: &Value,
    windows: &[Windows],
    filters: &[usize],
    grouped: bool,
    weights: impl Fn(&mut Net, &[usize], usize) -> OutputRef,
) -> Option<Value> {
    let over: Option<Vec<usize>> =
        windows.iter().zip(&x.sizes[2..]).map(|(w, size)| w.over(*size)).collect();
    let channels = if grouped { filters[0] * filters[1] } else { filters[0] };
    let sizes: Vec<usize> = [x.sizes[0], channels].into_iter().chain(over?).collect();
    let taps = windows.iter().map(|w| w.taps);
    let dims: Vec<usize> = filters.iter().copied().chain(taps).collect();
    let terms = dims[if grouped { 2 } else { 1 }..].iter().product();
    let weights = weights(net, &dims, terms);
    let attributes = [
        ("strides", &*each(windows, |w| w.stride)),
        ("dilations", &*each(windows, |w| w.dilation)),
        ("pads_begin", &*each(windows, |w| w.pads[0])),
        ("pads_end", &*each(windows, |w| w.pads[1])),
        ("auto_pad", "explicit"),
    ];
    let kind = if grouped { "GroupConvolution" } else { "Convolution" };
    Some(net.op((kind, "opset1"), &attributes, &[x.port, weights], &sizes))
}

fn is_map(x: &Value) -> bool {
    (3..=5).contains(&x.rank()) && x.sizes[2..].iter().all(|size| *size <= 64)
}

pub(crate) fn convolution(net: &mut Net, x: &Value, c: &mut Choices) -> Option<Value> {
    if !is_map(x) {
        return None;
    }
    let windows: Vec<Windows> = (2..x.rank()).map(|_| Windows::choose(c)).collect();
    let filters = c.of(&[16, 24, 8, 3, 17, 40]);
    let y = convolved(net, x, &windows, &[filters, x.sizes[1]], false)?;
    Some(finished(net, y, 1, c))
}

/// A 1×1 convolution, which is a GEMM.
pub(crate) fn pointwise(net: &mut Net, x: &Value, c: &mut Choices) -> Option<Value> {
    if !is_map(x) {
        return None;
    }
    let one = |_| Windows { taps: 1, stride: 1, dilation: 1, pads: [0, 0] };
    let windows: Vec<Windows> = (2..x.rank()).map(one).collect();
    let filters = c.of(&[16, 24, 8, 20]);
    let y = convolved(net, x, &windows, &[filters, x.sizes[1]], false)?;
    let residual = net.values.iter().rev().find(|v| v.sizes == y.sizes).cloned();
    match residual {
        Some(residual) if c.flag() => {
            let y = net.binary("Add", &y, residual.port);
            Some(finished(net, y, 1, c))
        }
        _ => Some(finished(net, y, 1, c)),
    }
}

pub(crate) fn grouped(net: &mut Net, x: &Value, c: &mut Choices) -> Option<Value> {
    if !is_map(x) {
        return None;
    }
    let channels = x.sizes[1];
    let groups = if c.below(3) < 2 {
        channels
    } else {
        (2..channels).find(|groups| channels.is_multiple_of(*groups))?
    };
    let windows: Vec<Windows> = (2..x.rank()).map(|_| Windows::choose(c)).collect();
    let each = channels / groups;
    let filters = c.of(&[each, each, 2, 1]);
    let y = convolved(net, x, &windows, &[groups, filters, each], true)?;
    Some(finished(net, y, 1, c))
}

/// Parallel convolutions, and one that reads the Concat of all.
pub(crate) fn pyramid(net: &mut Net, x: &Value, c: &mut Choices) -> Option<Value> {
    if x.rank() != 4 {
        return None;
    }
    let parts: Option<Vec<Value>> = (0..3)
        .map(|_| {
            let windows: Vec<Windows> = (2..4).map(|_| Windows::around(c)).collect();
            let y = convolved(net, x, &windows, &[32, x.sizes[1]], false)?;
            Some(finished(net, y, 1, c))
        })
        .collect();
    let ports: Vec<OutputRef> = parts?.iter().map(|part| part.port).collect();
    let sizes = [x.sizes[0], 96, x.sizes[2], x.sizes[3]];
    let all = net.op(("Concat", "opset1"), &[("axis", "1")], &ports, &sizes);
    pointwise(net, &all, c)
}

/// Quantized values and integer weights, as in quantized models.
pub(crate) fn quantised(net: &mut Net, x: &Value, c: &mut Choices) -> Option<Value> {
    if !is_map(x) {
        return None;
    }
    net.rounds = true;
    let y = rounded(net, x, c);
    let windows: Vec<Windows> = (2..x.rank()).map(|_| Windows::choose(c)).collect();
    let channels = x.sizes[1];
    let each = c.of(&[4, 8]);
    let own = match c.below(4) {
        2 => vec![channels, 1, 1],
        3 if channels.is_multiple_of(each) => vec![channels / each, c.of(&[each, 1, 3]), each],
        _ => vec![c.of(&[16, 40, 24]), channels],
    };
    let y = convolved_by(net, &y, &windows, &own, own.len() == 3, |net, dims, terms| {
        let count: usize = dims.iter().product();
        let bytes: Vec<u8> = noise(count, 5).iter().map(|v| (v * 127.0) as i8 as u8).collect();
        let sizes: Vec<u64> = dims.iter().map(|size| *size as u64).collect();
        let stored = net.g.constant(I8, &sizes, &bytes);
        let wide = net.op(("Convert", "opset1"), &[("destination_type", "f32")], &[stored], dims);
        let mut own = vec![1; dims.len()];
        own[0] = dims[0];
        let most = 0.02 / (terms as f32).sqrt();
        let scales = net.between(&own, most / 2.0, most);
        net.binary("Multiply", &wide, scales).port
    })?;
    let y = finished(net, y, 1, c);
    Some(if c.flag() { rounded(net, &y, c) } else { y })
}

/// A FakeQuantize to 256 quantized values, from 0 or a negative limit, per tensor or per channel.
fn rounded(net: &mut Net, x: &Value, c: &mut Choices) -> Value {
    let mut own = vec![1; x.rank()];
    own[1] = x.sizes[1];
    let own = if c.below(3) == 1 { own } else { vec![] };
    let count = own.iter().product();
    let limits = if c.flag() { [0.0, 2.55] } else { [-1.28, 1.27] };
    let [low, high] = limits.map(|limit| net.constant(&own, vec![limit; count]));
    let inputs = [x.port, low, high, low, high];
    net.op(("FakeQuantize", "opset1"), &[("levels", "256")], &inputs, &x.sizes)
}

/// The means of the channels, gates computed from them, and the channels times the gates.
pub(crate) fn squeeze_and_excitation(net: &mut Net, x: &Value, c: &mut Choices) -> Option<Value> {
    if x.rank() != 4 {
        return None;
    }
    let channels = x.sizes[1];
    let mean = net.reduce("ReduceMean", x, &[2, 3], true);
    let one = || Windows { taps: 1, stride: 1, dilation: 1, pads: [0, 0] };
    let narrow = convolved(net, &mean, &[one(), one()], &[8, channels], false)?;
    let narrow = net.unary("Relu", &narrow);
    let wide = convolved(net, &narrow, &[one(), one()], &[channels, 8], false)?;
    let gate = net.unary(c.of(&["Sigmoid", "HSigmoid"]), &wide);
    let gated = net.binary("Multiply", x, gate.port);
    if c.flag() { pointwise(net, &gated, c) } else { Some(gated) }
}

pub(crate) fn pool(net: &mut Net, x: &Value, c: &mut Choices) -> Option<Value> {
    if !is_map(x) {
        return None;
    }
    let mut windows: Vec<Windows> = (2..x.rank()).map(|_| Windows::choose(c)).collect();
    windows.iter_mut().for_each(|w| w.dilation = 1);
    let over: Option<Vec<usize>> =
        windows.iter().zip(&x.sizes[2..]).map(|(w, size)| w.over(*size)).collect();
    let sizes: Vec<usize> = x.sizes[..2].iter().copied().chain(over?).collect();
    let (kernel, strides) = (each(&windows, |w| w.taps), each(&windows, |w| w.stride));
    let (begin, end) = (each(&windows, |w| w.pads[0]), each(&windows, |w| w.pads[1]));
    let average = c.flag();
    let mut attributes = vec![
        ("kernel", &*kernel),
        ("strides", &*strides),
        ("pads_begin", &*begin),
        ("pads_end", &*end),
        ("rounding_type", "floor"),
        ("auto_pad", "explicit"),
    ];
    if average {
        attributes.push(("exclude-pad", c.of(&["true", "false"])));
    }
    let kind = if average { "AvgPool" } else { "MaxPool" };
    Some(net.op((kind, "opset1"), &attributes, &[x.port], &sizes))
}

pub(crate) fn interpolate(net: &mut Net, x: &Value, c: &mut Choices) -> Option<Value> {
    if x.rank() != 4 {
        return None;
    }
    let target = [1 + c.below(2 * x.sizes[2]), 1 + c.below(2 * x.sizes[3])];
    let sizes = [x.sizes[0], x.sizes[1], target[0], target[1]];
    let (target, axes) = (net.list(&target), net.list(&[2, 3]));
    let attributes = [
        ("mode", c.of(&["linear_onnx", "nearest", "cubic"])),
        ("shape_calculation_mode", "sizes"),
        ("coordinate_transformation_mode", c.of(&["half_pixel", "asymmetric", "align_corners"])),
        ("nearest_mode", "floor"),
    ];
    Some(net.op(("Interpolate", "opset11"), &attributes, &[x.port, target, axes], &sizes))
}

pub(crate) fn channels_and_space(net: &mut Net, x: &Value, c: &mut Choices) -> Option<Value> {
    if x.rank() != 4 {
        return None;
    }
    let [n, channels, h, w] = [0, 1, 2, 3].map(|axis| x.sizes[axis]);
    let even = |size: usize| size.is_multiple_of(2);
    match c.below(3) {
        0 if even(h) && even(w) => {
            let attributes =
                [("block_size", "2"), ("mode", c.of(&["blocks_first", "depth_first"]))];
            let sizes = [n, channels * 4, h / 2, w / 2];
            Some(net.op(("SpaceToDepth", "opset1"), &attributes, &[x.port], &sizes))
        }
        1 if channels.is_multiple_of(4) => {
            let attributes =
                [("block_size", "2"), ("mode", c.of(&["blocks_first", "depth_first"]))];
            let sizes = [n, channels / 4, h * 2, w * 2];
            Some(net.op(("DepthToSpace", "opset1"), &attributes, &[x.port], &sizes))
        }
        2 if even(channels) => {
            let attributes = [("axis", "1"), ("group", "2")];
            Some(net.op(("ShuffleChannels", "opset1"), &attributes, &[x.port], &x.sizes))
        }
        _ => None,
    }
}

pub(crate) fn batch_norm(net: &mut Net, x: &Value, c: &mut Choices) -> Option<Value> {
    if x.rank() < 2 {
        return None;
    }
    let channels = [x.sizes[1]];
    let [scale, shift, mean] =
        [(0.5, 1.5), (-0.5, 0.5), (-0.5, 0.5)].map(|(low, high)| net.between(&channels, low, high));
    let variance = net.between(&channels, 0.5, 1.5);
    let inputs = [x.port, scale, shift, mean, variance];
    let y = net.op(("BatchNormInference", "opset5"), &[("epsilon", "0.001")], &inputs, &x.sizes);
    Some(if c.flag() { net.unary("Relu", &y) } else { y })
}

pub(crate) fn group_norm(net: &mut Net, x: &Value, c: &mut Choices) -> Option<Value> {
    if x.rank() < 3 || x.sizes[2..].iter().product::<usize>() < 8 {
        return None;
    }
    let channels = x.sizes[1];
    let groups = c.of(&[1, 2, 4]);
    if !channels.is_multiple_of(groups) {
        return None;
    }
    let (scale, shift) = (net.between(&[channels], 0.5, 1.5), net.between(&[channels], -0.5, 0.5));
    let groups = groups.to_string();
    let attributes = [("num_groups", &*groups), ("epsilon", "0.01")];
    Some(net.op(("GroupNormalization", "opset12"), &attributes, &[x.port, scale, shift], &x.sizes))
}

/// Along the last axis or others, with or without scale and bias.
pub(crate) fn normalized(net: &mut Net, x: &Value, c: &mut Choices) -> Option<Value> {
    let last = x.rank() - 1;
    let axes: Vec<usize> = match c.below(3) {
        0 | 1 => vec![last],
        _ if x.rank() > 2 => (2..x.rank()).collect(),
        _ => vec![c.below(x.rank())],
    };
    if axes.iter().map(|axis| x.sizes[*axis]).product::<usize>() < 4 {
        return None;
    }
    let rooted = axes == [last] && c.below(3) == 0;
    let y = if rooted {
        let squares = net.binary("Multiply", x, x.port);
        let mean = net.reduce("ReduceMean", &squares, &axes, true);
        let epsilon = net.constant(&[], vec![1e-2]);
        let mean = net.binary("Add", &mean, epsilon);
        let root = net.unary("Sqrt", &mean);
        let one = net.constant(&[], vec![1.0]);
        let numpy = [("auto_broadcast", "numpy")];
        let factor = net.op(("Divide", "opset1"), &numpy, &[one, root.port], &root.sizes);
        net.binary("Multiply", x, factor.port)
    } else {
        let axes = net.list(&axes);
        let options = [
            ("eps", "0.1"),
            ("eps_mode", c.of(&["inside_sqrt", "outside_sqrt"])),
            ("normalize_variance", c.of(&["true", "true", "false"])),
        ];
        net.op(("MVN", "opset6"), &options, &[x.port, axes], &x.sizes)
    };
    let own = c.of(&[&x.sizes[last..], &[]]);
    let scale = net.between(own, 0.5, 1.5);
    let y = if c.flag() { net.binary("Multiply", &y, scale) } else { y };
    let shift = net.between(own, -0.5, 0.5);
    let y = if c.flag() { net.binary("Add", &y, shift) } else { y };
    Some(if c.flag() { net.linear(&y, 24, c.flag()) } else { y })
}

/// Weights of 8 or 4 bits, column by column, with zero points, as NNCF writes them.
fn compressed(net: &mut Net, columns: usize, terms: usize, c: &mut Choices) -> OutputRef {
    let halves = terms.is_multiple_of(2) && c.flag();
    let count = columns * terms;
    let bytes: Vec<u8> = noise(count, 99).iter().map(|v| (v * 127.0) as i8 as u8).collect();
    let sizes = [columns as u64, terms as u64];
    let to = [("destination_type", "f32")];
    let (stored, zero) = if halves {
        (net.g.constant(U4, &sizes, &bytes[..count / 2]), 7.0)
    } else {
        (net.g.constant(I8, &sizes, &bytes), 3.0)
    };
    let wide = net.op(("Convert", "opset1"), &to, &[stored], &[columns, terms]);
    let zero = net.constant(&[columns, 1], vec![zero; columns]);
    let wide = net.binary("Subtract", &wide, zero);
    let scales = net.between(&[columns, 1], 0.002, 0.01);
    net.binary("Multiply", &wide, scales).port
}

pub(crate) fn linear(net: &mut Net, x: &Value, c: &mut Choices) -> Option<Value> {
    let columns = c.of(&[24, 16, 48, 1, 7, 64]);
    let y = net.linear(x, columns, c.flag());
    let last = y.rank() - 1;
    let residual = net.values.iter().rev().find(|v| v.sizes == y.sizes).cloned();
    match residual {
        Some(residual) if c.flag() => {
            let y = finished(net, y, last, c);
            Some(net.binary("Add", &residual, y.port))
        }
        _ => Some(finished(net, y, last, c)),
    }
}

/// A compressed MatMul with enough columns for the weights to stay compressed, and one back.
pub(crate) fn compressed_linear(net: &mut Net, x: &Value, c: &mut Choices) -> Option<Value> {
    let last = x.rank() - 1;
    let terms = x.sizes[last];
    let columns = 5000_usize.div_ceil(terms).next_multiple_of(2);
    let weights = compressed(net, columns, terms, c);
    let y = net.product(x, weights, columns, true);
    let y = finished(net, y, last, c);
    let weights = compressed(net, 16, columns, c);
    Some(net.product(&y, weights, 16, true))
}

/// A gated MLP: gate times up projection, and down projection.
pub(crate) fn gated_mlp(net: &mut Net, x: &Value, c: &mut Choices) -> Option<Value> {
    let gate = net.linear(x, 32, true);
    let gate = net.unary(c.of(&["Swish", "Gelu"]), &gate);
    let up = net.linear(x, 32, true);
    let y = net.binary("Multiply", &gate, up.port);
    let y = net.linear(&y, x.sizes[x.rank() - 1], true);
    Some(net.binary("Add", &y, x.port))
}

/// A value times itself: rows with rows, or columns with columns.
pub(crate) fn with_itself(net: &mut Net, x: &Value, c: &mut Choices) -> Option<Value> {
    if x.rank() < 2 {
        return None;
    }
    let [rows, columns] = [x.sizes[x.rank() - 2], x.sizes[x.rank() - 1]];
    let transposed = c.flag();
    let (size, terms) = if transposed { (columns, rows) } else { (rows, columns) };
    let mut sizes = x.sizes[..x.rank() - 2].to_vec();
    sizes.extend([size, size]);
    let scale = net.constant(&[], vec![1.0 / (terms as f32).sqrt()]);
    let flags = if transposed { ["true", "false"] } else { ["false", "true"] };
    let attributes = [("transpose_a", flags[0]), ("transpose_b", flags[1])];
    let y = net.op(("MatMul", "opset1"), &attributes, &[x.port, x.port], &sizes);
    Some(net.binary("Multiply", &y, scale))
}

/// RoPE as models write it: the halves of each row are swapped, and the upper one is negated.
fn rotated(net: &mut Net, x: &Value, c: &mut Choices) -> Value {
    let last = x.rank() - 1;
    let half = x.sizes[last] / 2;
    let mut sizes = x.sizes.clone();
    sizes[last] = half;
    let mut part = |from: usize| {
        let lists = [from, from + half, 1, last].map(|value| net.list(&[value]));
        let [start, stop, step, axis] = lists;
        net.op(("Slice", "opset8"), &[], &[x.port, start, stop, step, axis], &sizes)
    };
    let (lower, upper) = (part(0), part(half));
    let upper = if c.flag() {
        net.unary("Negative", &upper)
    } else {
        let minus = net.constant(&[], vec![-1.0]);
        net.binary("Multiply", &upper, minus)
    };
    let axis = [("axis", &*last.to_string())];
    let ports = [upper.port, lower.port];
    let transposed = net.op(("Concat", "opset1"), &axis, &ports, &x.sizes);
    let [cos, sin] = [0; 2].map(|_| net.between(&x.sizes[last - 1..], -1.0, 1.0));
    let (straight, crossed) =
        (net.binary("Multiply", x, cos), net.binary("Multiply", &transposed, sin));
    net.binary("Add", &straight, crossed.port)
}

/// Attention with heads of `[batch, tokens, channels]`.
pub(crate) fn attention(net: &mut Net, x: &Value, c: &mut Choices) -> Option<Value> {
    let [batch, tokens, channels] = x.sizes[..] else { return None };
    let (heads, size) = (c.of(&[2, 1, 4]), c.of(&[8, 16, 6]));
    let one = |net: &mut Net| {
        let y = net.linear(x, heads * size, true);
        let y = net.reshape(&y, &[batch, tokens, heads, size]);
        net.transpose(&y, &[0, 2, 1, 3])
    };
    let (mut q, mut k, v) = (one(net), one(net), one(net));
    if c.below(3) == 1 {
        (q, k) = (rotated(net, &q, c), rotated(net, &k, c));
    }
    let mask = match c.below(4) {
        0 => None,
        1 => Some(net.between(&[tokens, tokens], -3.0, 1.0)),
        2 => Some(net.between(&[batch, 1, 1, tokens], -3.0, 1.0)),
        _ => Some(net.between(&[heads, tokens, tokens], -3.0, 1.0)),
    };
    let y = if c.flag() {
        let inputs: Vec<OutputRef> = [q.port, k.port, v.port].into_iter().chain(mask).collect();
        let causal = [("causal", if mask.is_none() { c.of(&["false", "true"]) } else { "false" })];
        net.op(("ScaledDotProductAttention", "opset13"), &causal, &inputs, &q.sizes)
    } else {
        let scale = net.constant(&[], vec![1.0 / (size as f32).sqrt()]);
        let before = c.flag();
        let q = if before { net.binary("Multiply", &q, scale) } else { q };
        let square = [batch, heads, tokens, tokens];
        let transposed = [("transpose_a", "false"), ("transpose_b", "true")];
        let scores = net.op(("MatMul", "opset1"), &transposed, &[q.port, k.port], &square);
        let scores = if before { scores } else { net.binary("Multiply", &scores, scale) };
        let scores = match mask {
            Some(mask) => net.binary("Add", &scores, mask),
            None => scores,
        };
        let axis = [("axis", c.of(&["3", "-1"]))];
        let weights = net.op(("Softmax", "opset8"), &axis, &[scores.port], &square);
        let plain = [("transpose_a", "false"), ("transpose_b", "false")];
        net.op(("MatMul", "opset1"), &plain, &[weights.port, v.port], &q.sizes)
    };
    let y = net.transpose(&y, &[0, 2, 1, 3]);
    let y = net.reshape(&y, &[batch, tokens, heads * size]);
    let y = net.linear(&y, channels, true);
    Some(if c.flag() { net.binary("Add", x, y.port) } else { y })
}

/// An image as rows of its channels, or rows as an image.
pub(crate) fn rows_and_maps(net: &mut Net, x: &Value, c: &mut Choices) -> Option<Value> {
    match x.sizes[..] {
        [n, channels, h, w] => {
            let y = net.reshape(x, &[n, channels, h * w]);
            Some(net.transpose(&y, &[0, 2, 1]))
        }
        [n, rows, channels] => {
            let h = (1..=rows).rev().find(|h| h * h <= rows && rows.is_multiple_of(*h))?;
            let y = net.transpose(x, &[0, 2, 1]);
            let y = net.reshape(&y, &[n, channels, h, rows / h]);
            Some(if c.flag() { net.transpose(&y, &[0, 2, 3, 1]) } else { y })
        }
        _ => None,
    }
}
