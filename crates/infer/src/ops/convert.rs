//! Convert-1, ConvertLike-1: the same values as another element type.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/type/convert-1.html>
//!
//! Floats become integers by truncation, integers wrap, everything else rounds to nearest even;
//! `docs/numerics.md` has the edges.

use crate::lattice::value::{Elements, Interval, f64_to_int, int_to_f64, wrap_int};
use crate::rule::prelude::*;

/// Where the wanted type comes from.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// `destination_type`.
    Convert,
    /// The type of input 1.
    ConvertLike,
}

/// Convert-1 and ConvertLike-1.
#[derive(Debug)]
pub struct Convert {
    /// The wanted type; `None` for that of input 1.
    to: Option<ElementType>,
}

impl Parse for Convert {
    type Kind = Kind;

    fn parse(kind: Kind, attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        let to = match kind {
            Kind::Convert => Some(attrs.element_type("destination_type")?),
            Kind::ConvertLike => None,
        };
        Ok(Convert { to })
    }
}

impl Convert {
    /// A conversion to a type.
    pub fn to(element_type: ElementType) -> Convert {
        Convert { to: Some(element_type) }
    }
}

impl Op for Convert {
    fn input_names(&self) -> &'static [&'static str] {
        &["data", "like"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        let inputs = if self.to.is_some() { 1 } else { 2 };
        cx.expect_inputs(inputs..=inputs)?;
        let to = self.to.unwrap_or_else(|| cx.element_type(1));
        cx.set(0, to, cx.shape(0).clone());
        Ok(())
    }

    fn value(&self, cx: &ValueCx<'_>) -> Option<PartialValue> {
        converted(cx.value(0)?, cx.element_type())
    }
}

/// A value as another type: exact values convert exactly, bounds stay bounds.
pub fn converted(value: &PartialValue, to: ElementType) -> Option<PartialValue> {
    let sizes = &value.sizes;
    let to_int = to.integer_range().is_some();
    Some(match (&value.elements, to_int) {
        (Elements::Int(v), true) => {
            let convert = |v: &Interval| match to {
                ElementType::Boolean if v.lo > 0 || v.hi < 0 => Interval::exact(1),
                ElementType::Boolean if v.value() == Some(0) => Interval::exact(0),
                ElementType::Boolean => Interval::any(to),
                _ => in_range(*v, to),
            };
            PartialValue::ints(to, sizes, v.iter().map(convert).collect())
        }
        (Elements::Int(v), false) if to.is_real() => {
            let bound = |b: i128| match b {
                Interval::INF => f64::INFINITY,
                b => rounded(int_to_f64(b), to),
            };
            let reals = v.iter().map(|v| (bound(v.lo), bound(v.hi))).collect();
            PartialValue::reals(to, sizes, reals)
        }
        (Elements::Real(v), true) => {
            let bound = |b: f64| if b == f64::INFINITY { Interval::INF } else { f64_to_int(b) };
            let convert = |(lo, hi): &(f64, f64)| match lo.is_nan() || hi.is_nan() {
                true => Interval::any(to),
                false => in_range(Interval::between(bound(*lo), bound(*hi)), to),
            };
            PartialValue::ints(to, sizes, v.iter().map(convert).collect())
        }
        (Elements::Real(v), false) if to.is_real() => {
            let reals = v.iter().map(|(lo, hi)| (rounded(*lo, to), rounded(*hi, to))).collect();
            PartialValue::reals(to, sizes, reals)
        }
        _ => return None,
    })
}

/// An exact value wraps; bounds that do not fit the type say nothing.
fn in_range(v: Interval, to: ElementType) -> Interval {
    let any = Interval::any(to);
    if v.lo >= any.lo && v.hi <= any.hi {
        return v;
    }
    match v.value() {
        Some(value) => Interval::exact(wrap_int(value, to)),
        // "Without bound" survives the narrowing that exporters put into shape arithmetic.
        None if v.lo >= 0 && v.hi >= any.hi => {
            Interval { lo: v.lo.min(any.hi), hi: Interval::INF, ..v }
        }
        None => Interval { why: v.why, ..any },
    }
}

fn rounded(value: f64, to: ElementType) -> f64 {
    match to {
        ElementType::F16 => half::f16::from_f64(value).to_f64(),
        ElementType::BF16 => half::bf16::from_f64(value).to_f64(),
        ElementType::F32 => f64::from(narrow(value)),
        _ => value,
    }
}

#[allow(clippy::as_conversions)] // `as` from f64 to f32 rounds to nearest and cannot fail.
fn narrow(value: f64) -> f32 {
    value as f32
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ElementType::*;
    use ir::ElementType;

    #[test]
    fn values_follow_the_conversion() {
        let case = |to: &str| Case::of("Convert", "opset1").attr("destination_type", to);
        for (input, to, expected) in [
            (Input::shape(F32, "1,?,2..3"), "i8", "i8[1,?,2..3]"),
            (Input::ints(I64, &[300, -1]), "u8", "u8[2] = {44, 255}"),
            (Input::ints(I64, &[300, 0]), "boolean", "boolean[2] = {1, 0}"),
            (Input::bounds(I64, &[(1, 8)]), "f32", "f32[1] = {?}"),
            (Input::reals(F32, &[2.9, -2.9]), "i32", "i32[2] = {2, -2}"),
            (Input::bounds(I64, &[(1, 8), (0, i64::MAX)]), "i32", "i32[2] = {1..8, 0..}"),
        ] {
            case(to).inputs([input]).expect(&[Ok(expected)]);
        }
        case("FP32").inputs([Input::shape(F32, "1")]).expect(&[Err("attribute destination_type")]);
        Case::of("ConvertLike", "opset1")
            .inputs([Input::shape(F32, "3"), Input::shape(BF16, "...")])
            .expect(&[Ok("bf16[3]")]);
    }
}
