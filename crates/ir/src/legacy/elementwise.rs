//! Element-wise layers: Eltwise, Power, ScaleShift and activations.

use super::rewrite::{Cx, Made, Value};
use crate::element::ElementType::{self, Boolean, F32};

/// A function of real numbers.
#[derive(Clone, Copy)]
pub(super) enum Activation {
    /// An operation of that type and opset, without attributes.
    Named(&'static str, &'static str),
    Relu,
    Relu6,
    Clamp,
    Elu,
    Not,
    HardSigmoid,
    Selu,
    Reciprocal,
    Linear,
    Square,
}

/// The activations by `type`.
#[rustfmt::skip]
const ACTIVATIONS: &[(&str, Activation)] = &[
    ("relu", Activation::Relu),
    ("relu6", Activation::Relu6),
    ("clamp", Activation::Clamp),
    ("elu", Activation::Elu),
    ("not", Activation::Not),
    ("linear", Activation::Linear),
    ("square", Activation::Square),
    ("sigmoid", Activation::Named("Sigmoid", "opset1")),
    ("logistic", Activation::Named("Sigmoid", "opset1")),
    ("tanh", Activation::Named("Tanh", "opset1")),
    ("exp", Activation::Named("Exp", "opset1")),
    ("abs", Activation::Named("Abs", "opset1")),
    ("sqrt", Activation::Named("Sqrt", "opset1")),
    ("soft_relu", Activation::Named("SoftPlus", "opset4")),
];

pub(super) fn activation(cx: &mut Cx<'_, '_>) -> Made {
    let name = cx.old.text(&["type"]).unwrap_or_default();
    if name.eq_ignore_ascii_case("prelu") {
        return prelu(cx);
    }
    let found = ACTIVATIONS.iter().find(|row| row.0.eq_ignore_ascii_case(name));
    let (_, function_of) = found.ok_or_else(|| format!("type=\"{name}\" is no activation"))?;
    function(cx, *function_of)
}

pub(super) fn function(cx: &mut Cx<'_, '_>, function: Activation) -> Made {
    if let Activation::Not = function {
        let (value, declared) = (cx.any(0)?, cx.declared(0));
        let value = cx.to(value, Boolean);
        let value = cx.op("LogicalNot", "opset1", &[], &[value]);
        return Ok(vec![cx.to(value, declared)]);
    }
    let x = cx.real(0)?;
    let old = cx.old;
    let y = match function {
        Activation::Named(op_type, version) => cx.op(op_type, version, &[], &[x]),
        Activation::Relu => relu(cx, x, old.float_or("negative_slope", 0.0)?),
        Activation::Relu6 => clamp(cx, x, 0.0, old.float_or("n", 6.0)?),
        Activation::Clamp => clamp(cx, x, old.float_or("min", 0.0)?, old.float_or("max", 1.0)?),
        Activation::Elu => {
            let alpha = old.float_or("alpha", 1.0)?.to_string();
            cx.op("Elu", "opset1", &[("alpha", &alpha)], &[x])
        }
        Activation::HardSigmoid => {
            let [alpha, beta] = [old.float_or("alpha", 0.0)?, old.float_or("beta", 0.0)?];
            let [alpha, beta] = [alpha, beta].map(|value| value_of(cx, value, x));
            cx.op("HardSigmoid", "opset1", &[], &[x, alpha, beta])
        }
        Activation::Selu => {
            // The defaults of ONNX and Model Optimizer.
            let [alpha, gamma] = [("alpha", 1.673_263_2), ("gamma", 1.050_701)];
            let [alpha, gamma] = [old.float_or(alpha.0, alpha.1)?, old.float_or(gamma.0, gamma.1)?];
            let [alpha, gamma] = [alpha, gamma].map(|value| value_of(cx, value, x));
            cx.op("Selu", "opset1", &[], &[x, alpha, gamma])
        }
        Activation::Reciprocal => {
            let one = value_of(cx, 1.0, x);
            cx.op("Divide", "opset1", &[], &[one, x])
        }
        Activation::Linear => {
            let (alpha, beta) = (old.float_or("alpha", 1.0)?, old.float_or("beta", 0.0)?);
            linear(cx, x, alpha, beta)
        }
        Activation::Square => cx.op("Multiply", "opset1", &[], &[x, x]),
        Activation::Not => x,
    };
    Ok(vec![y])
}

/// A scalar in the type of `like`.
fn value_of(cx: &mut Cx<'_, '_>, value: f32, like: Value) -> Value {
    let value = cx.reals(&[value], &[]);
    cx.to(value, like.element_type)
}

fn relu(cx: &mut Cx<'_, '_>, x: Value, slope: f32) -> Value {
    if slope == 0.0 {
        return cx.op("ReLU", "opset1", &[], &[x]);
    }
    let slope = cx.reals(&[slope], &[1]);
    let slope = cx.to(slope, x.element_type);
    cx.op("PRelu", "opset1", &[], &[x, slope])
}

fn clamp(cx: &mut Cx<'_, '_>, x: Value, min: f32, max: f32) -> Value {
    let (min, max) = (min.to_string(), max.to_string());
    cx.op("Clamp", "opset1", &[("min", &min), ("max", &max)], &[x])
}

/// `scale * x + shift`, with at least one layer.
fn linear(cx: &mut Cx<'_, '_>, x: Value, scale: f32, shift: f32) -> Value {
    let mut y = x;
    if scale != 1.0 || shift == 0.0 {
        let scale = value_of(cx, scale, x);
        y = cx.op("Multiply", "opset1", &[], &[y, scale]);
    }
    if shift != 0.0 {
        let shift = value_of(cx, shift, x);
        y = cx.op("Add", "opset1", &[], &[y, shift]);
    }
    y
}

/// `(shift + scale * x) ^ power`.
pub(super) fn power(cx: &mut Cx<'_, '_>) -> Made {
    let x = cx.real(0)?;
    let old = cx.old;
    let power = old.float_or("power", 1.0)?;
    let (scale, shift) = (old.float_or("scale", 1.0)?, old.float_or("shift", 0.0)?);
    let mut y = x;
    if power == 1.0 || scale != 1.0 || shift != 0.0 {
        y = linear(cx, x, scale, shift);
    }
    if power != 1.0 {
        let power = value_of(cx, power, x);
        y = cx.op("Power", "opset1", &[], &[y, power]);
    }
    Ok(vec![y])
}

/// The functions by `operation`, and their domain.
const OPERATIONS: &[(&str, &str, Domain)] = &[
    ("", "Add", Domain::Numbers),
    ("sum", "Add", Domain::Numbers),
    ("sub", "Subtract", Domain::Numbers),
    ("mul", "Multiply", Domain::Numbers),
    ("prod", "Multiply", Domain::Numbers),
    ("div", "Divide", Domain::Numbers),
    ("max", "Maximum", Domain::Numbers),
    ("min", "Minimum", Domain::Numbers),
    ("pow", "Power", Domain::Numbers),
    ("squared_diff", "SquaredDifference", Domain::Numbers),
    ("floor_mod", "FloorMod", Domain::Numbers),
    ("mean", "Add", Domain::Numbers),
    ("equal", "Equal", Domain::Compared),
    ("not_equal", "NotEqual", Domain::Compared),
    ("less", "Less", Domain::Compared),
    ("less_equal", "LessEqual", Domain::Compared),
    ("greater", "Greater", Domain::Compared),
    ("greater_equal", "GreaterEqual", Domain::Compared),
    ("logical_and", "LogicalAnd", Domain::Truth),
    ("logical_or", "LogicalOr", Domain::Truth),
    ("logical_xor", "LogicalXor", Domain::Truth),
    ("logical_not", "LogicalNot", Domain::Truth),
];

#[derive(Clone, Copy, PartialEq)]
enum Domain {
    Numbers,
    Compared,
    Truth,
}

/// Two or more inputs, each multiplied by its coefficient if there are any.
pub(super) fn eltwise(cx: &mut Cx<'_, '_>) -> Made {
    let name = cx.old.text(&["operation"]).unwrap_or("sum");
    let found = OPERATIONS.iter().find(|row| row.0.eq_ignore_ascii_case(name));
    let (_, op_type, domain) =
        *found.ok_or_else(|| format!("operation=\"{name}\" is not known"))?;
    let common = common_type(cx, domain)?;
    let mut inputs = Vec::new();
    for input in 0..cx.inputs() {
        let value = cx.any(input)?;
        inputs.push(cx.to(value, common));
    }
    if op_type == "Add" {
        for (value, coefficient) in inputs.iter_mut().zip(cx.old.floats("coeff")?) {
            if coefficient != 1.0 {
                let coefficient = value_of(cx, coefficient, *value);
                *value = cx.op("Multiply", "opset1", &[], &[*value, coefficient]);
            }
        }
    }
    let count = inputs.len();
    let mut inputs = inputs.into_iter();
    let first = inputs.next().ok_or("it has no inputs")?;
    let mut y = match (op_type, count) {
        ("LogicalNot", _) => cx.op(op_type, "opset1", &[], &[first]),
        (_, 1) => first,
        _ => inputs.fold(first, |y, x| {
            let y = cx.op(op_type, "opset1", &[("auto_broadcast", "numpy")], &[y, x]);
            if domain == Domain::Compared { y.of_type(Boolean) } else { y }
        }),
    };
    if name.eq_ignore_ascii_case("mean") {
        let number = u8::try_from(count).map_err(|_| format!("{count} inputs are too many"))?;
        let number = value_of(cx, f32::from(number), y);
        y = cx.op("Divide", "opset1", &[], &[y, number]);
    }
    let declared = cx.declared(0);
    Ok(vec![if domain == Domain::Numbers { y } else { cx.to(y, declared) }])
}

/// The common type of the inputs: their own if it is the same, else that of the output.
fn common_type(cx: &Cx<'_, '_>, domain: Domain) -> Result<ElementType, String> {
    let types = (0..cx.inputs())
        .map(|i| Ok(cx.any(i)?.element_type))
        .collect::<Result<Vec<_>, String>>()?;
    let first = types.first().copied().unwrap_or(F32);
    Ok(match domain {
        Domain::Truth => Boolean,
        _ if types.iter().all(|t| *t == first) => first,
        Domain::Numbers => cx.declared(0),
        Domain::Compared => types.iter().copied().find(|t| t.is_real()).unwrap_or(cx.real_type()),
    })
}

/// Multiplies each channel by its weight, and adds its bias.
pub(super) fn scale_shift(cx: &mut Cx<'_, '_>) -> Made {
    let mut y = cx.real(0)?;
    let rank = cx.old.dims_in(0)?.len();
    // The channels are axis 1, or the only axis; a single weight is for all channels.
    let mut shape = vec![1; rank];
    if let Some(channels) = shape.get_mut(1.min(rank.saturating_sub(1))) {
        *channels = -1;
    }
    for (name, input, op_type) in [("weights", 1, "Multiply"), ("biases", 2, "Add")] {
        let value = cx.weights(name, input, &shape)?;
        if let Some(value) = value {
            let value = cx.to(value, y.element_type);
            y = cx.op(op_type, "opset1", &[], &[y, value]);
        }
    }
    Ok(vec![y])
}

/// `x * sigmoid(beta * x)`; beta is a second input, or `alpha`.
pub(super) fn swish(cx: &mut Cx<'_, '_>) -> Made {
    let x = cx.real(0)?;
    let beta = if cx.inputs() > 1 {
        let (beta, shape) = (cx.real(1)?, cx.ints(&[]));
        let beta = cx.to(beta, x.element_type);
        cx.op("Reshape", "opset1", &[("special_zero", "false")], &[beta, shape])
    } else {
        let alpha = cx.old.float_or("alpha", 1.0)?;
        value_of(cx, alpha, x)
    };
    Ok(vec![cx.op("Swish", "opset4", &[], &[x, beta])])
}

pub(super) fn prelu(cx: &mut Cx<'_, '_>) -> Made {
    let x = cx.real(0)?;
    let slope = cx.weights("weights", 1, &[-1])?.ok_or("it has no weights")?;
    Ok(vec![cx.op("PRelu", "opset1", &[], &[x, slope])])
}

pub(super) fn select(cx: &mut Cx<'_, '_>) -> Made {
    let condition = cx.any(0)?;
    let condition = cx.to(condition, Boolean);
    let (then, other) = (cx.any(1)?, cx.any(2)?);
    let other = cx.to(other, then.element_type);
    let y = cx.op("Select", "opset1", &[("auto_broadcast", "numpy")], &[condition, then, other]);
    Ok(vec![y.of_type(then.element_type)])
}

pub(super) fn fake_quantize(cx: &mut Cx<'_, '_>) -> Made {
    let x = cx.real(0)?;
    let mut inputs = vec![x];
    for input in 1..cx.inputs() {
        let limit = cx.real(input)?;
        inputs.push(cx.to(limit, x.element_type));
    }
    let levels = cx.old.needed("levels")?.to_string();
    let data = [("levels", levels.as_str()), ("auto_broadcast", "numpy")];
    Ok(vec![cx.op("FakeQuantize", "opset1", &data, &inputs)])
}

pub(super) fn convert(cx: &mut Cx<'_, '_>) -> Made {
    let value = cx.any(0)?;
    let text = cx.old.text(&["precision"]).unwrap_or_default();
    let to = ElementType::from_precision(text).filter(|t| t.is_static());
    Ok(vec![cx.to(value, to.unwrap_or(cx.declared(0)))])
}

pub(super) fn copy(cx: &mut Cx<'_, '_>) -> Made {
    Ok(vec![cx.any(0)?])
}
