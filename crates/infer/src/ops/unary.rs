//! Element-wise functions whose output has the type and shape of the input: rounding, exponential,
//! trigonometric, hyperbolic, activations. Also the tests IsFinite-10, IsInf-10 and IsNaN-10, and
//! LogicalNot-1, BitwiseNot-13.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/arithmetic/abs-1.html>

use crate::lattice::value::{Elements, Interval};
use crate::rule::prelude::*;
use crate::rules::interval::monotone;

/// The function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names of the operations
pub enum Kind {
    Abs,
    Acos,
    Acosh,
    Asin,
    Asinh,
    Atan,
    Atanh,
    BitwiseNot,
    Ceiling,
    Clamp,
    Cos,
    Cosh,
    Elu,
    Erf,
    ErfInv,
    Exp,
    Floor,
    Gelu0,
    Gelu,
    HardSigmoid,
    HSigmoid,
    HSwish,
    Identity,
    IsFinite,
    IsInf,
    IsNaN,
    Log,
    LogicalNot,
    Mish,
    Negative,
    Relu,
    Round,
    Selu,
    Sigmoid,
    Sign,
    Sin,
    Sinh,
    SoftPlus,
    SoftSign,
    Sqrt,
    Swish,
    Tan,
    Tanh,
}

/// The parameters of a function that attributes give.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Form {
    /// None.
    Plain,
    /// Clamp: the bounds.
    Clamp {
        /// Lower bound.
        min: f64,
        /// Upper bound.
        max: f64,
    },
    /// Elu: the factor below 0.
    Elu {
        /// The factor.
        alpha: f64,
    },
    /// Gelu: with tanh instead of erf.
    GeluTanh,
    /// Round: ties away from zero instead of to even.
    RoundAway,
    /// IsInf: which infinities count.
    IsInf {
        /// Minus infinity.
        negative: bool,
        /// Plus infinity.
        positive: bool,
    },
}

/// An element-wise function.
#[derive(Debug)]
pub struct Unary {
    kind: Kind,
    form: Form,
}

impl Parse for Unary {
    type Kind = Kind;

    fn parse(kind: Kind, attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        let form = match kind {
            Kind::Clamp => {
                let (min, max) = (attrs.float("min")?, attrs.float("max")?);
                if let Some((name, _)) = [("min", min), ("max", max)].iter().find(|b| b.1.is_nan())
                {
                    return Err(AttrError::new(name, "is not a number"));
                }
                if min > max {
                    let message = format!("{min} exceeds max, {max}");
                    return Err(AttrError::new("min", message));
                }
                Form::Clamp { min, max }
            }
            Kind::Elu => Form::Elu { alpha: attrs.float("alpha")? },
            Kind::Gelu => {
                let modes = [("erf", Form::Plain), ("tanh", Form::GeluTanh)];
                attrs.choice_or("approximation_mode", &modes, Form::Plain)?
            }
            Kind::Round => {
                let modes =
                    [("half_to_even", Form::Plain), ("half_away_from_zero", Form::RoundAway)];
                attrs.choice_or("mode", &modes, Form::Plain)?
            }
            Kind::IsInf => Form::IsInf {
                negative: attrs.bool_or("detect_negative", true),
                positive: attrs.bool_or("detect_positive", true),
            },
            _ => Form::Plain,
        };
        Ok(Unary { kind, form })
    }
}

impl Unary {
    /// A function without attributes, or with their defaults.
    pub fn plain(kind: Kind) -> Unary {
        Unary { kind, form: Form::Plain }
    }

    /// The function.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The parameters that attributes give.
    pub fn form(&self) -> Form {
        self.form
    }

    /// Names of the inputs other than the data.
    fn parameters(&self) -> &'static [&'static str] {
        match self.kind {
            Kind::HardSigmoid => &["X", "alpha", "beta"],
            Kind::Selu => &["data", "alpha", "lambda"],
            Kind::Swish => &["data", "beta"],
            _ => &["data"],
        }
    }

    fn expect_types(&self, cx: &InferCx<'_>) -> Result<ElementType, RuleError> {
        match self.kind {
            // 0 becomes 1, other numbers become 0.
            Kind::LogicalNot => cx.expect_condition(0),
            Kind::BitwiseNot => cx.expect_type(0, "an integer or boolean type", |t| {
                t.is_integral() || t == ElementType::Boolean
            }),
            Kind::Identity => Ok(cx.element_type(0)),
            Kind::IsFinite
            | Kind::IsInf
            | Kind::IsNaN
            | Kind::Gelu
            | Kind::Gelu0
            | Kind::Mish
            | Kind::SoftPlus
            | Kind::SoftSign
            | Kind::HSwish
            | Kind::HSigmoid
            | Kind::Swish
            | Kind::ErfInv
            | Kind::Selu
            | Kind::HardSigmoid => cx.expect_real(0),
            _ => cx.expect_number(0),
        }
    }
}

impl Op for Unary {
    fn input_names(&self) -> &'static [&'static str] {
        self.parameters()
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        let most = self.parameters().len();
        let least = if self.kind == Kind::Swish { 1 } else { most };
        cx.expect_inputs(least..=most)?;
        let element_type = self.expect_types(cx)?;
        cx.same_type(0..cx.input_count())?;
        for input in 1..cx.input_count() {
            match self.kind {
                Kind::Selu => cx.expect_one(input, "element")?,
                _ => cx.expect_rank(input, 0..=0)?,
            }
        }
        let output = match self.kind {
            Kind::IsFinite | Kind::IsInf | Kind::IsNaN => ElementType::Boolean,
            _ => element_type,
        };
        cx.set(0, output, cx.shape(0).clone());
        Ok(())
    }

    fn value(&self, cx: &ValueCx<'_>) -> Option<PartialValue> {
        let value = cx.value(0)?;
        Some(match (self.kind, self.form) {
            (Kind::Floor, _) => monotone(value, f64::floor),
            (Kind::Ceiling, _) => monotone(value, f64::ceil),
            (Kind::Round, Form::Plain) => monotone(value, f64::round_ties_even),
            (Kind::Round, _) => monotone(value, f64::round),
            (Kind::Relu, _) => monotone(value, |v| v.max(0.0)),
            (Kind::Clamp, Form::Clamp { min, max }) => monotone(value, |v| v.max(min).min(max)),
            (Kind::Identity, _) => value.clone(),
            (Kind::Sqrt, _) if matches!(value.elements, Elements::Real(_)) => {
                let root = monotone(value, f64::sqrt);
                crate::rules::conversion::converted(&root, value.element_type)?
            }
            (Kind::Negative, _) => {
                let ints = value.intervals()?.iter().map(|v| match v.value() {
                    Some(x) => Interval::exact(-x),
                    None => Interval { why: v.why, ..Interval::any(value.element_type) },
                });
                PartialValue::ints(value.element_type, &value.sizes, ints.collect())
            }
            (Kind::LogicalNot, _) => {
                let ints = value.intervals()?.iter().map(|v| match v.value() {
                    Some(x) => Interval::exact(i64::from(x == 0)),
                    None => *v,
                });
                PartialValue::ints(value.element_type, &value.sizes, ints.collect())
            }
            _ => return None,
        })
    }

    fn traits(&self) -> OpTraits {
        if self.kind == Kind::Identity {
            OpTraits::moving(InputSet::one(0))
        } else {
            OpTraits::PURE
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ElementType::*;
    use ir::ElementType;

    #[test]
    fn types_and_attributes() {
        let f = |t, s| Input::shape(t, s);
        for (kind, version, input, expected) in [
            ("ReLU", "opset1", f(F32, "1,?"), Ok("f32[1,?]")),
            ("Exp", "opset1", f(I32, "..."), Ok("i32[...]")),
            ("IsNaN", "opset10", f(F16, "3"), Ok("boolean[3]")),
            ("LogicalNot", "opset1", f(F32, "3"), Ok("f32[3]")),
            ("Mish", "opset4", f(I32, "3"), Err("must be a floating-point type, not i32")),
            ("Abs", "opset1", f(Boolean, "3"), Err("must be a numeric type, not boolean")),
            ("Elu", "opset1", f(F32, "3"), Err("attribute alpha: is missing")),
        ] {
            Case::of(kind, version).inputs([input]).expect(&[expected]);
        }
        for (min, max, message) in [
            ("3", "2", "attribute min: 3 exceeds max, 2"),
            ("-1", "nan", "attribute max: is not a number"),
        ] {
            let clamp = Case::of("Clamp", "opset1").attr("min", min).attr("max", max);
            clamp.inputs([f(I32, "1")]).expect(&[Err(message)]);
        }
        Case::of("Gelu", "opset7")
            .attr("approximation_mode", "fast")
            .inputs([f(F32, "1")])
            .expect(&[Err("\"fast\" is not one of erf, tanh")]);
        Case::of("Swish", "opset4")
            .inputs([f(F32, "2"), f(F32, "1")])
            .expect(&[Err("input 1 (beta): must have rank 0, not 1")]);
    }

    #[test]
    fn values() {
        let floor = Case::of("Floor", "opset1");
        floor.inputs([Input::reals(F32, &[2.7, -2.1])]).expect(&[Ok("f32[2] = {2, -3}")]);
        let ints = Input::bounds(I64, &[(-3, 5), (7, 7)]);
        Case::of("Relu", "opset1").inputs([ints.clone()]).expect(&[Ok("i64[2] = {0..5, 7}")]);
        Case::of("Negative", "opset1").inputs([ints]).expect(&[Ok("i64[2] = {?, -7}")]);
    }
}
