//! Operations on values of any rank: element-wise, movements, reductions.

use super::net::{Choices, Net, Value};

const UNARY: &[&str] = &[
    "Relu", "Sigmoid", "Tanh", "Gelu", "Swish", "HSwish", "Clamp", "Abs", "Elu", "HSigmoid",
    "Mish", "SoftPlus", "Negative", "Erf",
];

pub(crate) fn unary(net: &mut Net, x: &Value, c: &mut Choices) -> Option<Value> {
    Some(net.unary(c.of(UNARY), x))
}

/// The shape of a constant operand: a number, one element per index of an axis, of some axes, or of
/// all.
fn beside(x: &Value, c: &mut Choices) -> Vec<usize> {
    let rank = x.rank();
    match c.below(5) {
        0 => vec![],
        1 if rank > 1 => (0..rank).map(|axis| if axis == 1 { x.sizes[axis] } else { 1 }).collect(),
        2 => x.sizes[rank.saturating_sub(1)..].to_vec(),
        3 => x.sizes.clone(),
        _ => {
            let from = c.below(rank + 1);
            x.sizes[from..].iter().map(|size| if c.flag() { 1 } else { *size }).collect()
        }
    }
}

pub(crate) fn with_constant(net: &mut Net, x: &Value, c: &mut Choices) -> Option<Value> {
    let kind = c.of(&["Add", "Multiply", "Subtract", "Divide", "Maximum", "Minimum"]);
    let sizes = beside(x, c);
    let low = if kind == "Divide" { 0.6 } else { -1.2 };
    let other = net.between(&sizes, low, 1.6);
    // Division by values that may be 0 cannot be compared.
    if kind != "Divide" && c.below(4) == 1 {
        let numpy = [("auto_broadcast", "numpy")];
        return Some(net.op((kind, "opset1"), &numpy, &[other, x.port], &x.sizes));
    }
    Some(net.binary(kind, x, other))
}

/// Broadcast as in Caffe and PaddlePaddle: the second input begins at an axis of the first, or
/// ends with it. It may end with sizes of 1.
pub(crate) fn aligned(net: &mut Net, x: &Value, c: &mut Choices) -> Option<Value> {
    let axis = c.below(x.rank());
    let count = 1 + c.below(x.rank() - axis);
    let is_last = axis + count == x.rank() && c.flag();
    let mut sizes = x.sizes[axis..axis + count].to_vec();
    if c.below(3) == 1 {
        sizes[count - 1] = 1;
    }
    let other = net.between(&sizes, -1.2, 1.6);
    let kind = c.of(&["Add", "Multiply", "Subtract"]);
    let axis = if is_last { "-1".to_owned() } else { axis.to_string() };
    let attributes = [("auto_broadcast", "pdpd"), ("axis", &*axis)];
    Some(net.op((kind, "opset1"), &attributes, &[x.port, other], &x.sizes))
}

/// With another value of the same sizes, or of size 1 along some axes.
pub(crate) fn with_another(net: &mut Net, x: &Value, c: &mut Choices) -> Option<Value> {
    let fits = |other: &&Value| {
        let lead = x.rank().checked_sub(other.rank());
        let same = |from: usize| {
            let pairs = x.sizes[from..].iter().zip(&other.sizes);
            pairs.into_iter().all(|(a, b)| a == b || *b == 1)
        };
        lead.is_some_and(same)
    };
    let others: Vec<Value> = net.values.iter().filter(fits).cloned().collect();
    let other = &others[c.below(others.len())];
    let kind = c.of(&["Add", "Multiply", "Subtract", "Maximum"]);
    Some(net.binary(kind, x, other.port))
}

pub(crate) fn transpose(net: &mut Net, x: &Value, c: &mut Choices) -> Option<Value> {
    let mut order: Vec<usize> = (0..x.rank()).collect();
    match c.below(3) {
        // Channels first or last.
        0 if order.len() > 2 => order[1..].rotate_left(1),
        1 if order.len() > 2 => order[1..].rotate_right(1),
        _ => (0..order.len()).for_each(|i| {
            let other = c.below(x.rank());
            order.swap(i, other);
        }),
    }
    Some(net.transpose(x, &order))
}

pub(crate) fn reshape(net: &mut Net, x: &Value, c: &mut Choices) -> Option<Value> {
    let mut sizes = x.sizes.clone();
    let axis = c.below(sizes.len());
    match c.below(5) {
        0 if axis + 1 < sizes.len() => sizes[axis] *= sizes.remove(axis + 1),
        1 if sizes.len() < 6 => {
            let size = sizes[axis];
            let factor = (2..=size).find(|factor| size.is_multiple_of(*factor))?;
            let [a, b] = if c.flag() { [factor, size / factor] } else { [size / factor, factor] };
            sizes[axis] = a;
            sizes.insert(axis + 1, b);
        }
        2 if sizes.len() < 6 => sizes.insert(axis, 1),
        3 if sizes.len() > 1 && sizes[axis] == 1 => drop(sizes.remove(axis)),
        4 => {
            let last = sizes.len() - 1;
            sizes.swap(axis, last);
        }
        _ => return None,
    }
    // One size may be -1 (inferred), and one 0 (copied).
    let mut pattern: Vec<i64> = sizes.iter().map(|size| *size as i64).collect();
    if c.flag() {
        pattern[c.below(sizes.len())] = -1;
    }
    if x.sizes[0] == sizes[0] && c.flag() && pattern[0] != -1 {
        pattern[0] = 0;
    }
    let pattern = net.g.constant_i64(&pattern);
    let zero = [("special_zero", "true")];
    Some(net.op(("Reshape", "opset1"), &zero, &[x.port, pattern], &sizes))
}

pub(crate) fn roll(net: &mut Net, x: &Value, c: &mut Choices) -> Option<Value> {
    let count = 1 + c.below(2.min(x.rank()));
    let axes: Vec<usize> = (0..count).map(|_| c.below(x.rank())).collect();
    let shifts: Vec<i64> = (0..count).map(|_| c.below(9) as i64 - 4).collect();
    let (shifts, axes) = (net.g.constant_i64(&shifts), net.list(&axes));
    Some(net.op(("Roll", "opset7"), &[], &[x.port, shifts, axes], &x.sizes))
}

pub(crate) fn slice(net: &mut Net, x: &Value, c: &mut Choices) -> Option<Value> {
    let axis = c.below(x.rank());
    let size = x.sizes[axis];
    let start = c.below(size);
    let stop = start + 1 + c.below(size - start);
    let step = 1 + c.below(2);
    let mut sizes = x.sizes.clone();
    sizes[axis] = (stop - start).div_ceil(step);
    let lists = [start, stop, step, axis].map(|value| net.list(&[value]));
    let [start, stop, step, axis] = lists;
    Some(net.op(("Slice", "opset8"), &[], &[x.port, start, stop, step, axis], &sizes))
}

/// Two parts: swapped, or multiplied.
pub(crate) fn split(net: &mut Net, x: &Value, c: &mut Choices) -> Option<Value> {
    let axis = c.below(x.rank());
    let size = x.sizes[axis];
    if size < 2 {
        return None;
    }
    let first = if c.flag() && size.is_multiple_of(2) { size / 2 } else { 1 + c.below(size - 1) };
    let part = |size| {
        let mut sizes = x.sizes.clone();
        sizes[axis] = size;
        sizes
    };
    let sizes = [part(first), part(size - first)];
    let (at, lengths) = (net.number(axis as i64), net.list(&[first, size - first]));
    let parts = net.ops(("VariadicSplit", "opset1"), &[], &[x.port, at, lengths], &sizes);
    let gated = parts[0].sizes == parts[1].sizes && c.flag();
    if gated {
        let kind = c.of(&["Sigmoid", "Swish", "Gelu"]);
        let gate = net.unary(kind, &parts[0]);
        return Some(net.binary("Multiply", &gate, parts[1].port));
    }
    let first = if c.flag() { net.unary("Relu", &parts[0]) } else { parts[0].clone() };
    let ports = [parts[1].port, first.port];
    Some(net.op(("Concat", "opset1"), &[("axis", &*axis.to_string())], &ports, &x.sizes))
}

/// Concat with a value that differs along one axis at most.
pub(crate) fn concat(net: &mut Net, x: &Value, c: &mut Choices) -> Option<Value> {
    let axis = c.below(x.rank());
    let fits = |other: &&Value| {
        let same = |i: usize| i == axis || x.sizes[i] == other.sizes[i];
        other.rank() == x.rank() && (0..x.rank()).all(same)
    };
    let others: Vec<Value> = net.values.iter().filter(fits).cloned().collect();
    let other = &others[c.below(others.len())];
    let mut sizes = x.sizes.clone();
    sizes[axis] += other.sizes[axis];
    let ports = if c.flag() { [x.port, other.port] } else { [other.port, x.port] };
    Some(net.op(("Concat", "opset1"), &[("axis", &*axis.to_string())], &ports, &sizes))
}

pub(crate) fn pad(net: &mut Net, x: &Value, c: &mut Choices) -> Option<Value> {
    let mode = c.of(&["constant", "edge", "reflect"]);
    let from = x.rank().saturating_sub(2);
    let mut side = || -> Vec<usize> {
        let most = |size: usize| if mode == "reflect" { size.min(3) } else { 3 };
        let along = |axis| if axis < from { 0 } else { c.below(most(x.sizes[axis])) };
        (0..x.rank()).map(along).collect()
    };
    let pads = [side(), side()];
    let sizes: Vec<usize> =
        (0..x.rank()).map(|axis| x.sizes[axis] + pads[0][axis] + pads[1][axis]).collect();
    let [begin, end] = pads.map(|pads| net.list(&pads));
    let value = c.of(&[0.0, 0.5]);
    let value = net.constant(&[], vec![value]);
    Some(net.op(("Pad", "opset12"), &[("pad_mode", mode)], &[x.port, begin, end, value], &sizes))
}

pub(crate) fn gather(net: &mut Net, x: &Value, c: &mut Choices) -> Option<Value> {
    let axis = c.below(x.rank());
    let indices: Vec<usize> = (0..1 + c.below(5)).map(|_| c.below(x.sizes[axis])).collect();
    let mut sizes = x.sizes.clone();
    let indices = match indices[..] {
        [one] if x.rank() > 1 => {
            sizes.remove(axis);
            net.number(one as i64)
        }
        _ => {
            sizes[axis] = indices.len();
            net.list(&indices)
        }
    };
    let at = net.number(axis as i64);
    Some(net.op(("Gather", "opset8"), &[("batch_dims", "0")], &[x.port, indices, at], &sizes))
}

/// An axis of size 1 is added or removed.
pub(crate) fn squeeze(net: &mut Net, x: &Value, c: &mut Choices) -> Option<Value> {
    let axis = c.below(x.rank());
    let mut sizes = x.sizes.clone();
    let axes = net.list(&[axis]);
    if sizes[axis] == 1 && sizes.len() > 1 {
        sizes.remove(axis);
        return Some(net.op(("Squeeze", "opset1"), &[], &[x.port, axes], &sizes));
    }
    if sizes.len() > 5 {
        return None;
    }
    sizes.insert(axis, 1);
    Some(net.op(("Unsqueeze", "opset1"), &[], &[x.port, axes], &sizes))
}

pub(crate) fn repeat(net: &mut Net, x: &Value, c: &mut Choices) -> Option<Value> {
    let mut sizes = x.sizes.clone();
    let axis = c.below(x.rank());
    if sizes[axis] == 1 && c.flag() {
        sizes[axis] = 2 + c.below(4);
        let target = net.list(&sizes);
        let mode = [("mode", "numpy")];
        return Some(net.op(("Broadcast", "opset3"), &mode, &[x.port, target], &sizes));
    }
    let mut repeats = vec![1; x.rank()];
    repeats[axis] = 2;
    sizes[axis] *= 2;
    let repeats = net.list(&repeats);
    Some(net.op(("Tile", "opset1"), &[], &[x.port, repeats], &sizes))
}

pub(crate) fn reduce(net: &mut Net, x: &Value, c: &mut Choices) -> Option<Value> {
    let kind = c.of(&["ReduceMean", "ReduceSum", "ReduceMax", "ReduceL2"]);
    let axes: Vec<usize> = match c.below(3) {
        0 => vec![x.rank() - 1],
        1 if x.rank() > 2 => (2..x.rank()).collect(),
        _ => vec![c.below(x.rank())],
    };
    // Values of rank 0 are of no use to later steps.
    let keep = axes.len() == x.rank() || c.flag();
    Some(net.reduce(kind, x, &axes, keep))
}

/// A mean, subtracted from its input or multiplied with it.
pub(crate) fn centred(net: &mut Net, x: &Value, c: &mut Choices) -> Option<Value> {
    let maps = c.flag() && x.rank() > 2;
    let axes = if maps { (2..x.rank()).collect() } else { vec![c.below(x.rank())] };
    if axes.iter().all(|axis| x.sizes[*axis] == 1) {
        return None;
    }
    let mean = net.reduce("ReduceMean", x, &axes, true);
    Some(net.binary(c.of(&["Subtract", "Multiply"]), x, mean.port))
}

pub(crate) fn softmax(net: &mut Net, x: &Value, c: &mut Choices) -> Option<Value> {
    let axis = if c.flag() { x.rank() - 1 } else { c.below(x.rank()) };
    Some(net.op(("Softmax", "opset8"), &[("axis", &*axis.to_string())], &[x.port], &x.sizes))
}

pub(crate) fn cumulative(net: &mut Net, x: &Value, c: &mut Choices) -> Option<Value> {
    let axis = net.number(c.below(x.rank()) as i64);
    let flags = [("exclusive", c.of(&["false", "true"])), ("reverse", c.of(&["false", "true"]))];
    Some(net.op(("CumSum", "opset3"), &flags, &[x.port, axis], &x.sizes))
}

/// Some elements of a value, and a number in place of the others.
pub(crate) fn select(net: &mut Net, x: &Value, c: &mut Choices) -> Option<Value> {
    let sizes = beside(x, c);
    let (a, b) = (net.between(&sizes, -1.0, 1.0), net.constant(&[], vec![0.2]));
    let numpy = [("auto_broadcast", "numpy")];
    let condition = net.op(("Less", "opset1"), &numpy, &[a, b], &sizes);
    let other = net.constant(&[], vec![c.of(&[0.0, -2.0])]);
    let ports =
        if c.flag() { [condition.port, x.port, other] } else { [condition.port, other, x.port] };
    Some(net.op(("Select", "opset1"), &numpy, &ports, &x.sizes))
}

/// An Einsum with weights: each axis is summed, kept by both operands, or kept by the data alone.
pub(crate) fn einsum(net: &mut Net, x: &Value, c: &mut Choices) -> Option<Value> {
    let own: Vec<char> = ('a'..'g').take(x.rank()).collect();
    let fates: Vec<usize> = own.iter().map(|_| c.below(3)).collect();
    let size = |label: char| own.iter().position(|l| *l == label).map_or(5, |axis| x.sizes[axis]);
    let with =
        |fate: usize| own.iter().zip(&fates).filter(move |(_, f)| **f == fate).map(|(l, _)| *l);
    let mut right: Vec<char> = with(0).chain(with(1)).chain(['x']).collect();
    let mut result: Vec<char> = with(1).chain(with(2)).chain(['x']).collect();
    for labels in [&mut right, &mut result] {
        (0..labels.len()).for_each(|i| labels.swap(i, c.below(i + 1)));
    }
    let sizes = |labels: &[char]| labels.iter().map(|l| size(*l)).collect::<Vec<usize>>();
    if result.len() > 5 || sizes(&result).iter().product::<usize>() > 1 << 14 {
        return None;
    }
    let text = |labels: &[char]| labels.iter().collect::<String>();
    let equation = format!("{},{}->{}", text(&own), text(&right), text(&result));
    let weights = net.weights(&sizes(&right), with(0).map(size).product());
    let equation = [("equation", &*equation)];
    Some(net.op(("Einsum", "opset7"), &equation, &[x.port, weights], &sizes(&result)))
}
