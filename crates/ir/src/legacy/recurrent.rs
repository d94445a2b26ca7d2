//! Recurrent cells and sequences. The weights of a gate are those of the input followed by those of
//! the state; the order of gates is the current one.

use super::rewrite::{Cx, Made, Value};

/// The properties of a cell type.
struct Cell {
    /// The current type of the cell, and its opset.
    op_type: &'static str,
    version: &'static str,
    gates: i64,
    states: usize,
}

impl Cell {
    fn of(op_type: &str) -> Cell {
        let of = |op_type, version, gates, states| Cell { op_type, version, gates, states };
        match op_type.get(..3).map(str::to_ascii_lowercase).as_deref() {
            Some("lst") => of("LSTM", "opset4", 4, 2),
            Some("gru") => of("GRU", "opset3", 3, 1),
            _ => of("RNN", "opset3", 1, 1),
        }
    }

    /// Input weights, recurrent weights, and biases.
    fn weights(&self, cx: &mut Cx<'_, '_>, hidden: i64, inputs: i64) -> Result<[Value; 3], String> {
        let rows = self.gates.checked_mul(hidden).ok_or("hidden_size is too large")?;
        let next = self.states.saturating_add(1);
        let all = cx.weights("weights", next, &[rows, -1])?.ok_or("it has no weights")?;
        let (axis, lengths) = (cx.int(1), cx.ints(&[inputs, hidden]));
        cx.ops("VariadicSplit", "opset1", &[], &[all, axis, lengths], 2);
        let [data, state] = [0, 1].map(|port| cx.port(port, all.element_type));
        let bias = match cx.weights("biases", next.saturating_add(1), &[-1])? {
            Some(bias) => bias,
            None => {
                let (zero, shape) = (cx.reals(&[0.0], &[]), cx.ints(&[rows]));
                cx.op("Broadcast", "opset1", &[("mode", "numpy")], &[zero, shape])
            }
        };
        Ok([data, state, bias])
    }

    /// The current attributes, from their names in the file.
    fn data<'a>(&self, cx: &Cx<'_, 'a>) -> Vec<(&'static str, &'a str)> {
        let keys = [
            ("hidden_size", "hidden_size"),
            ("activations", "activations"),
            ("activations_alpha", "activation_alpha"),
            ("activations_beta", "activation_beta"),
            ("clip", "clip"),
        ];
        let with_text = |(key, old): &(&'static str, &'static str)| {
            let text = cx.old.text(&[key, old]).filter(|text| !text.is_empty())?;
            Some((*key, text))
        };
        let mut data: Vec<_> = keys.iter().filter_map(with_text).collect();
        if self.op_type == "GRU" {
            data.extend(
                cx.old.text(&["linear_before_reset"]).map(|text| ("linear_before_reset", text)),
            );
        }
        data
    }
}

/// The last dim of an input.
fn width(cx: &Cx<'_, '_>, input: usize) -> Result<i64, String> {
    cx.old.dims_in(input)?.last().copied().ok_or_else(|| format!("input {input} is a scalar"))
}

pub(super) fn cell(cx: &mut Cx<'_, '_>) -> Made {
    let cell = Cell::of(&cx.old.layer.op_type);
    let (hidden, inputs) = (cx.old.needed("hidden_size")?, width(cx, 0)?);
    let mut values = (0..=cell.states).map(|i| cx.real(i)).collect::<Result<Vec<_>, _>>()?;
    values.extend(cell.weights(cx, hidden, inputs)?);
    let element_type = values.first().map_or(cx.real_type(), |x| x.element_type);
    let values: Vec<Value> = values.into_iter().map(|value| cx.to(value, element_type)).collect();
    let data = cell.data(cx);
    cx.ops(&format!("{}Cell", cell.op_type), cell.version, &data, &values, cell.states);
    Ok((0..cell.states).map(|port| cx.port(port, element_type)).collect())
}

/// Sequences of batches, or batches of sequences (`axis`). States have no axis of directions.
pub(super) fn sequence(cx: &mut Cx<'_, '_>) -> Made {
    let cell = Cell::of(&cx.old.layer.op_type);
    let (hidden, inputs) = (cx.old.needed("hidden_size")?, width(cx, 0)?);
    let by_batch = cx.old.int_or("axis", 1)? == 1;
    let dims = cx.old.dims_in(0)?;
    let [batch, steps] = match (by_batch, dims.as_slice()) {
        (true, &[batch, steps, _]) | (false, &[steps, batch, _]) => [batch, steps],
        _ => return Err(format!("its data are {dims:?}, not of rank 3")),
    };
    let mut x = cx.real(0)?;
    if !by_batch {
        x = swapped(cx, x);
    }
    let mut values = vec![x];
    for state in 1..=cell.states {
        let value = if state < cx.inputs() {
            cx.real(state)?
        } else {
            let (zero, shape) = (cx.reals(&[0.0], &[]), cx.ints(&[batch, hidden]));
            cx.op("Broadcast", "opset1", &[("mode", "numpy")], &[zero, shape])
        };
        let axis = cx.ints(&[1]);
        values.push(cx.op("Unsqueeze", "opset1", &[], &[value, axis]));
    }
    let lengths = match cell.states.saturating_add(1) {
        input if input < cx.inputs() => cx.index(input)?,
        _ => {
            let (steps, shape) = (cx.int(steps), cx.ints(&[batch]));
            cx.op("Broadcast", "opset1", &[("mode", "numpy")], &[steps, shape])
        }
    };
    values.push(lengths);
    for weights in cell.weights(cx, hidden, inputs)? {
        let axis = cx.ints(&[0]);
        let weights = cx.to(weights, x.element_type);
        values.push(cx.op("Unsqueeze", "opset1", &[], &[weights, axis]));
    }
    let direction = match cx.old.text(&["direction"]) {
        Some(text) if text.eq_ignore_ascii_case("backward") => "reverse",
        _ => "forward",
    };
    let mut data = cell.data(cx);
    data.push(("direction", direction));
    let outputs = cell.states.saturating_add(1);
    cx.ops(&format!("{}Sequence", cell.op_type), "opset5", &data, &values, outputs);
    let made: Vec<Value> = (0..outputs).map(|port| cx.port(port, x.element_type)).collect();
    let mut squeezed = Vec::new();
    for (i, value) in made.into_iter().take(cx.old.layer.outputs.len()).enumerate() {
        let axis = cx.ints(&[1]);
        let value = cx.op("Squeeze", "opset1", &[], &[value, axis]);
        squeezed.push(if i == 0 && !by_batch { swapped(cx, value) } else { value });
    }
    Ok(squeezed)
}

/// Swaps the first two axes.
fn swapped(cx: &mut Cx<'_, '_>, x: Value) -> Value {
    let order = cx.ints(&[1, 0, 2]);
    cx.op("Transpose", "opset1", &[], &[x, order])
}
