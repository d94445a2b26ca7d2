//! Parameters, constants and variables, and layers that move elements.

use super::layer::{Old, axis_of, joined, product};
use super::rewrite::{Cx, Made, Value};
use crate::element::ElementType::{self, Boolean, I32};

pub(super) fn parameter(cx: &mut Cx<'_, '_>) -> Made {
    let (element_type, shape) = (cx.declared(0), joined(&cx.old.dims_out(0)?));
    cx.ops(
        "Parameter",
        "opset1",
        &[("shape", &shape), ("element_type", element_type.name())],
        &[],
        1,
    );
    Ok(vec![cx.port(0, element_type)])
}

/// Its type is that of its port; its blob may have any name.
pub(super) fn constant(cx: &mut Cx<'_, '_>) -> Made {
    let blob = cx.old.extra.and_then(|extra| extra.blobs.first()).ok_or("it has no blob")?;
    let mut blob = blob.clone();
    let declared = cx.declared(0).name();
    let own = ElementType::from_attribute(declared).map(|t| t.precision().to_owned());
    blob.precision = blob.precision.or(own);
    let shape = cx.old.dims_out(0)?;
    Ok(vec![cx.stored(&blob, &shape)?])
}

/// A variable: one layer reads it; the other, without outputs, sets it for the next run.
pub(super) fn memory(cx: &mut Cx<'_, '_>) -> Made {
    let id = cx.old.text(&["id"]).ok_or("it has no id")?;
    let data = [("variable_id", id)];
    if cx.old.layer.outputs.is_empty() {
        let value = cx.any(0)?;
        cx.ops("Assign", "opset3", &data, &[value], 0);
        return Ok(Vec::new());
    }
    let (zero, shape) = (cx.reals(&[0.0], &[]), cx.ints(&cx.old.dims_out(0)?));
    let zeros = cx.op("Broadcast", "opset1", &[("mode", "numpy")], &[zero, shape]);
    Ok(vec![cx.op("ReadValue", "opset3", &data, &[zeros])])
}

fn reshaped(cx: &mut Cx<'_, '_>, x: Value, pattern: Value) -> Value {
    cx.op("Reshape", "opset1", &[("special_zero", "true")], &[x, pattern])
}

/// Reshape to a second input, to `dim`, or to the declared dims.
///
/// The old inference engine read `dim` only when a program changed the shapes; otherwise it took
/// the declared dims. Model Optimizer of 2018 wrote other dims for detectors of TensorFlow.
pub(super) fn reshape(cx: &mut Cx<'_, '_>) -> Made {
    let x = cx.any(0)?;
    let pattern = match cx.old.ints("dim")? {
        _ if cx.inputs() > 1 => cx.index(1)?,
        Some(dim) if !is_overruled(cx.old, &dim)? => cx.ints(&dim),
        _ => cx.ints(&cx.old.dims_out(0)?),
    };
    Ok(vec![reshaped(cx, x, pattern)])
}

/// Whether a pattern does not give the declared output, which has as many elements as the input.
fn is_overruled(old: Old<'_>, pattern: &[i64]) -> Result<bool, String> {
    let (from, to) = (old.dims_in(0)?, old.dims_out(0)?);
    let (Ok(count), Ok(declared)) = (product(&from), product(&to)) else { return Ok(false) };
    Ok(count == declared && count > 0 && matched(pattern, &from, count) != Some(to))
}

/// The dims that a pattern gives for `count` elements: 0 copies a dim, -1 is what remains.
fn matched(pattern: &[i64], from: &[i64], count: i64) -> Option<Vec<i64>> {
    let copied = |(i, dim): (usize, &i64)| if *dim == 0 { from.get(i) } else { Some(dim) }.copied();
    let dims: Vec<i64> = pattern.iter().enumerate().map(copied).collect::<Option<_>>()?;
    let known: Vec<i64> = dims.iter().copied().filter(|dim| *dim != -1).collect();
    let rest = count.checked_div(product(&known).ok()?)?;
    Some(dims.iter().map(|dim| if *dim == -1 { rest } else { *dim }).collect())
}

/// Merges the axes from `axis` to `end_axis`.
pub(super) fn flatten(cx: &mut Cx<'_, '_>) -> Made {
    let x = cx.any(0)?;
    let dims = cx.old.dims_in(0)?;
    let first = axis_of(cx.old.int_or("axis", 0)?, dims.len())?;
    let last = axis_of(cx.old.int_or("end_axis", -1)?, dims.len())?;
    let mut pattern = vec![0; first];
    pattern.push(-1);
    pattern.extend(dims.get(last.saturating_add(1)..).unwrap_or_default());
    let pattern = cx.ints(&pattern);
    Ok(vec![reshaped(cx, x, pattern)])
}

pub(super) fn permute(cx: &mut Cx<'_, '_>) -> Made {
    let x = cx.any(0)?;
    let order = cx.ints(&cx.old.needed_ints("order")?);
    Ok(vec![cx.op("Transpose", "opset1", &[], &[x, order])])
}

pub(super) fn concat(cx: &mut Cx<'_, '_>) -> Made {
    let first = cx.any(0)?.element_type;
    let axis = cx.old.int_or("axis", 1)?.to_string();
    let mut inputs = Vec::new();
    for input in 0..cx.inputs() {
        let value = cx.any(input)?;
        inputs.push(cx.to(value, first));
    }
    Ok(vec![cx.op("Concat", "opset1", &[("axis", &axis)], &inputs)])
}

/// The lengths of the outputs are the declared ones.
pub(super) fn split(cx: &mut Cx<'_, '_>) -> Made {
    let x = cx.any(0)?;
    let axis = cx.old.int_or("axis", 1)?;
    let count = cx.old.layer.outputs.len();
    let mut lengths = Vec::new();
    for output in 0..count {
        let dims = cx.old.dims_out(output)?;
        let length = dims.get(axis_of(axis, dims.len())?).copied();
        lengths.push(length.ok_or_else(|| format!("output {output} has no axis {axis}"))?);
    }
    let axis = cx.int(axis);
    if lengths.windows(2).all(|pair| pair.first() == pair.last()) {
        cx.ops("Split", "opset1", &[("num_splits", &count.to_string())], &[x, axis], count);
    } else {
        let lengths = cx.ints(&lengths);
        cx.ops("VariadicSplit", "opset1", &[], &[x, axis, lengths], count);
    }
    Ok((0..count).map(|output| cx.port(output, x.element_type)).collect())
}

/// Crops to the size of a second input, to a given size, or by cropping both ends.
pub(super) fn crop(cx: &mut Cx<'_, '_>) -> Made {
    let x = cx.any(0)?;
    let axes = cx.old.needed_ints("axis")?;
    let begin = match cx.old.ints("offset")? {
        Some(offset) => offset,
        None => cx.old.ints("crop_begin")?.unwrap_or_else(|| vec![0; axes.len()]),
    };
    let sizes = cx.old.ints("dim")?;
    let after = |sizes: &[i64]| {
        begin.iter().zip(sizes).map(|(b, s)| b.saturating_add(*s)).collect::<Vec<_>>()
    };
    let stop = match (cx.inputs(), sizes, cx.old.ints("crop_end")?) {
        (2.., ..) => {
            let other = cx.any(1)?;
            let shape = cx.op("ShapeOf", "opset3", &[("output_type", "i64")], &[other]);
            let [axes, zero, begin] = [cx.ints(&axes), cx.int(0), cx.ints(&begin)];
            let sizes = cx.op("Gather", "opset1", &[], &[shape, axes, zero]);
            let stop = cx.op("Add", "opset1", &[], &[begin, sizes]);
            stop.of_type(ElementType::I64)
        }
        (_, Some(sizes), _) => cx.ints(&after(&sizes)),
        (_, None, Some(end)) => {
            let from_end = |end: &i64| if *end > 0 { -end } else { i64::MAX };
            cx.ints(&end.iter().map(from_end).collect::<Vec<_>>())
        }
        (_, None, None) => {
            // Version 2 gives no sizes; they are the declared ones.
            let dims = cx.old.dims_out(0)?;
            let size =
                |axis: &i64| axis_of(*axis, dims.len()).map(|a| dims.get(a).copied().unwrap_or(0));
            let sizes = axes.iter().map(size).collect::<Result<Vec<_>, _>>()?;
            cx.ints(&after(&sizes))
        }
    };
    let (start, step) = (cx.ints(&begin), cx.ints(&vec![1; axes.len()]));
    let axes = cx.ints(&axes);
    Ok(vec![cx.op("Slice", "opset8", &[], &[x, start, stop, step, axes])])
}

pub(super) fn tile(cx: &mut Cx<'_, '_>) -> Made {
    let x = cx.any(0)?;
    let mut repeats = vec![1; cx.old.dims_in(0)?.len()];
    let axis = axis_of(cx.old.needed("axis")?, repeats.len())?;
    if let Some(repeat) = repeats.get_mut(axis) {
        *repeat = cx.old.needed("tiles")?;
    }
    let repeats = cx.ints(&repeats);
    Ok(vec![cx.op("Tile", "opset1", &[], &[x, repeats])])
}

pub(super) fn pad(cx: &mut Cx<'_, '_>) -> Made {
    let x = cx.any(0)?;
    let [begin, end] = [cx.old.needed_ints("pads_begin")?, cx.old.needed_ints("pads_end")?];
    let mode = cx.old.text(&["pad_mode"]).unwrap_or("constant");
    let value = cx.reals(&[cx.old.float_or("pad_value", 0.0)?], &[]);
    let value = cx.to(value, x.element_type);
    let [begin, end] = [begin, end].map(|pads| cx.ints(&pads));
    Ok(vec![cx.op("Pad", "opset1", &[("pad_mode", mode)], &[x, begin, end, value])])
}

pub(super) fn squeeze(cx: &mut Cx<'_, '_>) -> Made {
    let mut inputs = vec![cx.any(0)?];
    if cx.inputs() > 1 {
        inputs.push(cx.index(1)?);
    }
    Ok(vec![cx.op("Squeeze", "opset1", &[], &inputs)])
}

pub(super) fn unsqueeze(cx: &mut Cx<'_, '_>) -> Made {
    let inputs = [cx.any(0)?, cx.index(1)?];
    Ok(vec![cx.op("Unsqueeze", "opset1", &[], &inputs)])
}

pub(super) fn gather(cx: &mut Cx<'_, '_>) -> Made {
    let (x, indices) = (cx.any(0)?, cx.index(1)?);
    let axis = cx.int(cx.old.int_or("axis", 0)?);
    Ok(vec![cx.op("Gather", "opset1", &[], &[x, indices, axis])])
}

/// In old masks 0 means that a bound is ignored; in current masks 1 does.
pub(super) fn strided_slice(cx: &mut Cx<'_, '_>) -> Made {
    let mut inputs = vec![cx.any(0)?];
    for input in 1..cx.inputs() {
        inputs.push(cx.index(input)?);
    }
    let count = cx.old.dims_in(1)?.first().and_then(|n| usize::try_from(*n).ok()).unwrap_or(0);
    let mut masks = Vec::new();
    for key in ["begin_mask", "end_mask"] {
        let mask = cx.old.ints(key)?.unwrap_or_default();
        // Missing bits are 1.
        let bit = |i| i64::from(mask.get(i) == Some(&0));
        masks.push((key, (0..count.min(64)).map(bit).collect()));
    }
    for key in ["new_axis_mask", "shrink_axis_mask", "ellipsis_mask"] {
        masks.push((key, cx.old.ints(key)?.unwrap_or_default()));
    }
    // Current masks have one length. Missing bits of the new form are 0.
    let length = masks.iter().map(|(_, mask)| mask.len()).max().unwrap_or_default();
    let padded = |(key, mut mask): (&'static str, Vec<i64>)| {
        mask.resize(length, 0);
        (key, joined(&mask))
    };
    let data: Vec<_> = masks.into_iter().map(padded).collect();
    let data: Vec<_> = data.iter().map(|(key, value)| (*key, value.as_str())).collect();
    Ok(vec![cx.op("StridedSlice", "opset1", &data, &inputs)])
}

pub(super) fn shape_of(cx: &mut Cx<'_, '_>) -> Made {
    let x = cx.any(0)?;
    let shape = cx.op("ShapeOf", "opset3", &[("output_type", "i32")], &[x]);
    let declared = cx.declared(0);
    Ok(vec![cx.to(shape.of_type(I32), declared)])
}

pub(super) fn broadcast(cx: &mut Cx<'_, '_>) -> Made {
    let inputs = [cx.any(0)?, cx.index(1)?];
    Ok(vec![cx.op("Broadcast", "opset1", &[("mode", "numpy")], &inputs)])
}

/// A shape, and the value that fills it.
pub(super) fn fill(cx: &mut Cx<'_, '_>) -> Made {
    let inputs = [cx.any(1)?, cx.index(0)?];
    Ok(vec![cx.op("Broadcast", "opset1", &[("mode", "numpy")], &inputs)])
}

/// Old scalars have one dim.
fn scalar(cx: &mut Cx<'_, '_>, value: Value) -> Value {
    let shape = cx.ints(&[]);
    cx.op("Reshape", "opset1", &[("special_zero", "false")], &[value, shape])
}

pub(super) fn range(cx: &mut Cx<'_, '_>) -> Made {
    let declared = cx.declared(0);
    let mut inputs = Vec::new();
    for input in 0..3 {
        let value = cx.any(input)?;
        let value = cx.to(value, declared);
        inputs.push(scalar(cx, value));
    }
    Ok(vec![cx.op("Range", "opset1", &[], &inputs)])
}

pub(super) fn cum_sum(cx: &mut Cx<'_, '_>) -> Made {
    let (x, axis) = (cx.any(0)?, cx.index(1)?);
    let axis = scalar(cx, axis);
    let words = |is_set| if is_set { "true" } else { "false" };
    let exclusive = words(cx.old.flag("exclusive", false)?);
    let reverse = words(cx.old.flag("reverse", false)?);
    Ok(vec![cx.op(
        "CumSum",
        "opset3",
        &[("exclusive", exclusive), ("reverse", reverse)],
        &[x, axis],
    )])
}

pub(super) fn one_hot(cx: &mut Cx<'_, '_>) -> Made {
    let indices = cx.index(0)?;
    let depth = cx.int(cx.old.needed("depth")?);
    let value = |key, default| match cx.old.text(&[key]) {
        Some("True") => Ok(1.0),
        Some("False") => Ok(0.0),
        _ => cx.old.float_or(key, default),
    };
    let [on, off] = [value("on_value", 1.0)?, value("off_value", 0.0)?];
    let declared = cx.declared(0);
    let [on, off] = [on, off].map(|value| {
        let value = cx.reals(&[value], &[]);
        cx.to(value, declared)
    });
    let axis = cx.old.int_or("axis", -1)?.to_string();
    let y = cx.op("OneHot", "opset1", &[("axis", &axis)], &[indices, depth, on, off]);
    Ok(vec![y.of_type(declared)])
}

pub(super) fn shuffle_channels(cx: &mut Cx<'_, '_>) -> Made {
    let x = cx.any(0)?;
    let (axis, group) =
        (cx.old.int_or("axis", 1)?.to_string(), cx.old.int_or("group", 1)?.to_string());
    Ok(vec![cx.op("ShuffleChannels", "opset3", &[("axis", &axis), ("group", &group)], &[x])])
}

pub(super) fn depth_to_space(cx: &mut Cx<'_, '_>) -> Made {
    blocks(cx, "DepthToSpace")
}

pub(super) fn space_to_depth(cx: &mut Cx<'_, '_>) -> Made {
    blocks(cx, "SpaceToDepth")
}

fn blocks(cx: &mut Cx<'_, '_>, op_type: &str) -> Made {
    let x = cx.any(0)?;
    let size = cx.old.int_or("block_size", 1)?.to_string();
    Ok(vec![cx.op(op_type, "opset1", &[("block_size", &size), ("mode", "blocks_first")], &[x])])
}

pub(super) fn reverse_sequence(cx: &mut Cx<'_, '_>) -> Made {
    let inputs = [cx.any(0)?, cx.index(1)?];
    let (batch, seq) =
        (cx.old.int_or("batch_axis", 0)?.to_string(), cx.old.int_or("seq_axis", 1)?.to_string());
    Ok(vec![cx.op(
        "ReverseSequence",
        "opset1",
        &[("batch_axis", &batch), ("seq_axis", &seq)],
        &inputs,
    )])
}

/// A single output has the values or the indices, depending on its type.
pub(super) fn top_k(cx: &mut Cx<'_, '_>) -> Made {
    let (x, k) = (cx.any(0)?, cx.index(1)?);
    let k = scalar(cx, k);
    let axis = axis_of(cx.old.int_or("axis", -1)?, cx.old.dims_in(0)?.len())?.to_string();
    let mode = cx.old.text(&["mode"]).unwrap_or("max");
    let sort = cx.old.text(&["sort"]).unwrap_or("index");
    let [values, indices] = best(cx, x, k, [&axis, mode, sort]);
    if cx.old.layer.outputs.len() > 1 {
        return Ok(vec![values, indices]);
    }
    Ok(vec![if cx.declared(0).is_real() { values } else { indices }])
}

fn best(cx: &mut Cx<'_, '_>, x: Value, k: Value, [axis, mode, sort]: [&str; 3]) -> [Value; 2] {
    let data = [("axis", axis), ("mode", mode), ("sort", sort), ("index_element_type", "i32")];
    cx.ops("TopK", "opset3", &data, &[x, k], 2);
    [cx.port(0, x.element_type), cx.port(1, I32)]
}

/// Indices as real numbers, or values, or both. Without an axis, over all axes but the first.
pub(super) fn arg_max(cx: &mut Cx<'_, '_>) -> Made {
    let mut x = cx.real(0)?;
    let (k, with_values) = (cx.int(cx.old.needed("top_k")?), cx.old.flag("out_max_val", false)?);
    let axis = cx.old.int("axis")?;
    let rank = cx.old.dims_in(0)?.len();
    let along = match axis {
        Some(axis) => axis_of(axis, rank)?.to_string(),
        None => {
            let pattern = cx.ints(&[0, 1, -1]);
            x = reshaped(cx, x, pattern);
            "2".to_owned()
        }
    };
    let [values, indices] = best(cx, x, k, [&along, "max", "value"]);
    let y = match (with_values, axis) {
        (false, _) => cx.to(indices, x.element_type),
        (true, Some(_)) => values,
        (true, None) => {
            let indices = cx.to(indices, x.element_type);
            cx.op("Concat", "opset1", &[("axis", "1")], &[indices, values])
        }
    };
    let pattern = cx.ints(&cx.old.dims_out(0)?);
    Ok(vec![if axis.is_none() { reshaped(cx, y, pattern) } else { y }])
}

/// Reductions over the axes in the second input.
pub(super) fn reduce(cx: &mut Cx<'_, '_>, op_type: &str) -> Made {
    let axes = cx.index(1)?;
    let keep = if cx.old.flag("keep_dims", true)? { "true" } else { "false" };
    let data = [("keep_dims", keep)];
    let logical = op_type.starts_with("ReduceLogical");
    let mut x = cx.any(0)?;
    if logical {
        x = cx.to(x, Boolean);
    }
    let y = match op_type {
        "ReduceSumSquare" => {
            let squares = cx.op("Multiply", "opset1", &[], &[x, x]);
            cx.op("ReduceSum", "opset1", &data, &[squares, axes])
        }
        "ReduceLogSum" => {
            let sum = cx.op("ReduceSum", "opset1", &data, &[x, axes]);
            cx.op("Log", "opset1", &[], &[sum])
        }
        "ReduceLogSumExp" => {
            let exp = cx.op("Exp", "opset1", &[], &[x]);
            let sum = cx.op("ReduceSum", "opset1", &data, &[exp, axes]);
            cx.op("Log", "opset1", &[], &[sum])
        }
        "ReduceL1" | "ReduceL2" => cx.op(op_type, "opset4", &data, &[x, axes]),
        _ => cx.op(op_type, "opset1", &data, &[x, axes]),
    };
    let declared = cx.declared(0);
    Ok(vec![if logical { cx.to(y, declared) } else { y }])
}
