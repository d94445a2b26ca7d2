//! Tensors at a glance: least, greatest, mean, first values.

use crate::statistics::{first_of, stretches_of};
use crate::table::table;
use infer::PartialShape;
use ir::ElementType;
use runtime::Tensor;
use schemars::JsonSchema;
use serde::Serialize;

/// What a person wants to know of a tensor at a glance.
pub(crate) struct Statistics {
    /// The least value that is not NaN; infinity where there is none.
    pub min: f64,
    /// The greatest.
    pub max: f64,
    /// The mean; NaN where there is none.
    pub mean: f64,
    /// How many are NaN.
    pub nans: usize,
    /// The first values with the digits that people read.
    pub first: Vec<String>,
}

/// Values shown of each output.
const SHOWN: usize = 6;

impl Statistics {
    /// Those of a tensor.
    pub(crate) fn of(tensor: &Tensor) -> Statistics {
        let mut s = Statistics {
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
            mean: f64::NAN,
            nans: 0,
            first: Vec::new(),
        };
        if let Some(strings) = tensor.as_strings() {
            s.first = strings.iter().take(SHOWN).map(|v| format!("{v:?}")).collect();
            return s;
        }
        s.first = first_of(tensor, SHOWN).iter().map(short).collect();
        let mut sum = 0.0;
        stretches_of(tensor, |values| {
            for &v in values {
                if v.is_nan() {
                    s.nans += 1;
                    continue;
                }
                s.min = s.min.min(v);
                s.max = s.max.max(v);
                sum += v;
            }
        });
        s.mean = sum / (tensor.count() - s.nans) as f64;
        s
    }
}

/// A value for programs: a number with the digits of its type, or a string. JSON has no NaN and no
/// infinities: they are strings too.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Value {
    /// An integer.
    Signed(i64),
    /// An integer that i64 does not hold.
    Unsigned(u64),
    /// A real number.
    Real(f64),
    /// A boolean.
    Boolean(bool),
    /// `NaN`, `inf`, `-inf`, or a string.
    Text(String),
}

impl Value {
    /// A value that f64 holds.
    #[allow(clippy::cast_possible_truncation)] // It came from an integer of 32 bits or less.
    fn new(v: f64, element_type: ElementType) -> Value {
        match own_digits(v, element_type) {
            Some(_) if element_type == ElementType::Boolean => Value::Boolean(v != 0.0),
            Some(_) if element_type.is_integral() => Value::Signed(v as i64),
            Some(number) => Value::Real(number),
            None => Value::Text(v.to_string()),
        }
    }
}

/// The first values of a tensor for programs.
pub(crate) fn first_values(tensor: &Tensor) -> Vec<Value> {
    if let Some(strings) = tensor.as_strings() {
        return strings.iter().take(SHOWN).map(|text| Value::Text(text.to_string())).collect();
    }
    if let Some(values) = tensor.as_slice::<i64>() {
        return values.iter().take(SHOWN).map(|v| Value::Signed(*v)).collect();
    }
    if let Some(values) = tensor.as_slice::<u64>() {
        return values.iter().take(SHOWN).map(|v| Value::Unsigned(*v)).collect();
    }
    let first = first_of(tensor, SHOWN);
    first.into_iter().map(|v| Value::new(v, tensor.element_type())).collect()
}

/// A value with the digits that people read.
pub(crate) fn short(v: &f64) -> String {
    let text = format!("{v:.5}");
    let plain = text.contains('.') && v.abs() < 1e6 && (v.abs() >= 1e-3 || *v == 0.0);
    if plain || v.fract() == 0.0 {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        format!("{v:.4e}")
    }
}

/// A table of tensors with their positions and names; `what` they are.
pub(crate) fn text<'t>(
    what: &str,
    tensors: impl IntoIterator<Item = (usize, &'t str, &'t Tensor)>,
) -> String {
    let head = [what, "name", "type", "shape", "min", "max", "mean", "first values"];
    let mut rows = vec![head.iter().map(|h| (*h).to_owned()).collect::<Vec<String>>()];
    for (i, name, tensor) in tensors {
        let s = Statistics::of(tensor);
        let number = |v: f64| if v.is_finite() { format!("{v:.4}") } else { "-".to_owned() };
        let more = if tensor.count() > SHOWN { " …" } else { "" };
        let nans = if s.nans > 0 { format!(" ({} NaN)", s.nans) } else { String::new() };
        rows.push(vec![
            i.to_string(),
            name.to_owned(),
            tensor.element_type().to_string(),
            PartialShape::fixed(tensor.sizes()).to_string(),
            number(s.min),
            number(s.max),
            number(s.mean),
            format!("{}{more}{nans}", s.first.join(" ")),
        ]);
    }
    table(&rows)
}

/// A value of a type with as many digits as tell it from others of that type: 0.1 of f32 is 0.1,
/// not 0.10000000149011612.
#[allow(clippy::cast_possible_truncation)] // It came from an f32.
pub(crate) fn own_digits(v: f64, element_type: ElementType) -> Option<f64> {
    let is_wide = element_type == ElementType::F64 || !element_type.is_real();
    let shortest = if is_wide { Some(v) } else { (v as f32).to_string().parse().ok() };
    shortest.and_then(finite)
}

/// JSON has no infinities.
pub(crate) fn finite(v: f64) -> Option<f64> {
    Some(v).filter(|v| v.is_finite())
}
