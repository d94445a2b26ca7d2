//! ConvertPromoteTypes-14: converts two tensors to a common type.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/type/convert-promote-types-14.html>

use crate::rule::prelude::*;
use crate::rules::conversion::converted;

/// ConvertPromoteTypes-14.
#[derive(Debug)]
pub struct ConvertPromoteTypes {
    /// Whether the common type may lose values or be wider than both.
    promote_unsafe: bool,
    /// Whether the type of a scalar is ignored.
    scalar_promotion: bool,
    /// The type for u64 together with a signed integer.
    u64_target: ElementType,
}

impl Parse for ConvertPromoteTypes {
    type Kind = ();

    fn parse((): (), attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        Ok(ConvertPromoteTypes {
            promote_unsafe: attrs.bool_or("promote_unsafe", false),
            scalar_promotion: attrs.bool_or("pytorch_scalar_promotion", false),
            u64_target: attrs.element_type_or("u64_integer_promotion_target", ElementType::F32)?,
        })
    }
}

/// Bits of an element; 0 for types without a fixed size.
fn bits(element_type: ElementType) -> u32 {
    element_type.bits().unwrap_or(0)
}

/// The narrowest signed integer with at least this many bits.
fn signed(bits: u32) -> ElementType {
    match bits {
        ..=4 => ElementType::I4,
        5..=8 => ElementType::I8,
        9..=16 => ElementType::I16,
        17..=32 => ElementType::I32,
        _ => ElementType::I64,
    }
}

impl ConvertPromoteTypes {
    /// The common type of both inputs.
    fn common(&self, cx: &InferCx<'_>) -> Result<ElementType, RuleError> {
        let (a, b) = (cx.element_type(0), cx.element_type(1));
        let unsafely = |allowed: bool, message: &str| {
            require!(allowed || self.promote_unsafe, "{a} and {b}: {message}");
            Ok(())
        };
        match (a, b) {
            (ElementType::Dynamic, _) | (_, ElementType::Dynamic) => {
                return Ok(ElementType::Dynamic);
            }
            (ElementType::Boolean, other) | (other, ElementType::Boolean) => return Ok(other),
            _ if a == b => return Ok(a),
            _ => {}
        }
        if a.is_real() != b.is_real() {
            let (real, integer) = if a.is_real() { (a, b) } else { (b, a) };
            let fits = bits(real) >= bits(integer).saturating_mul(2);
            unsafely(fits, "the floating-point type needs twice the bits of the integer")?;
            return Ok(real);
        }
        let (scalar_a, scalar_b) = (cx.rank(0) == Some(0), cx.rank(1) == Some(0));
        if self.scalar_promotion && scalar_a != scalar_b {
            let (target, scalar) = if scalar_a { (b, a) } else { (a, b) };
            unsafely(holds(target, scalar), "the tensor's type may not hold the scalar")?;
            return Ok(target);
        }
        if a.is_unsigned_integral() != b.is_unsigned_integral() {
            let (plain, other) = if a.is_unsigned_integral() { (a, b) } else { (b, a) };
            let needed = bits(plain).saturating_mul(2);
            unsafely(needed <= bits(other), "the signed type needs twice the bits")?;
            return Ok(if needed > 64 { self.u64_target } else { signed(needed.max(bits(other))) });
        }
        if bits(a) != bits(b) {
            return Ok(if bits(a) > bits(b) { a } else { b });
        }
        let wider = match bits(a) {
            8 => ElementType::F16,
            16 => ElementType::F32,
            _ => return Err(RuleError::new(format!("{a} and {b} have no common type"))),
        };
        unsafely(false, "only a wider type holds the values of both")?;
        Ok(wider)
    }
}

/// Whether a type holds the values of another of its kind, judged by sign and bits.
fn holds(target: ElementType, other: ElementType) -> bool {
    match (target.is_unsigned_integral(), other.is_unsigned_integral()) {
        (false, true) => bits(target).saturating_mul(2) >= bits(other),
        (true, false) => false,
        _ => bits(target) >= bits(other),
    }
}

impl Op for ConvertPromoteTypes {
    fn input_names(&self) -> &'static [&'static str] {
        &["input_0", "input_1"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(2..=2)?;
        let number = |t: ElementType| t.is_integral() || t.is_real() || t == ElementType::Boolean;
        cx.expect_type(0, "a numeric type", number)?;
        cx.expect_type(1, "a numeric type", number)?;
        let common = self.common(cx)?;
        for i in 0..2 {
            cx.set(i, common, cx.shape(i).clone());
        }
        Ok(())
    }

    fn value(&self, cx: &ValueCx<'_>) -> Option<PartialValue> {
        converted(cx.value(cx.output())?, cx.element_type())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ElementType::*;
    use ir::ElementType;

    fn case(attrs: &[(&str, &str)], a: (ElementType, &str), b: (ElementType, &str)) -> Case {
        let case = Case::of("ConvertPromoteTypes", "opset14");
        let case = attrs.iter().fold(case, |case, (name, value)| case.attr(name, value));
        case.inputs([Input::shape(a.0, a.1), Input::shape(b.0, b.1)])
    }

    #[test]
    fn safe_and_unsafe() {
        let loose = [("promote_unsafe", "true")];
        for (a, b, safe, common) in [
            (I8, F32, true, "f32"),
            (I32, U8, true, "i32"),
            (Boolean, U8, true, "u8"),
            (F16, F32, true, "f32"),
            (U8, U32, true, "u32"),
            (F16, I64, false, "f16"),
            (F64, U64, false, "f64"),
            (I8, U8, false, "i16"),
            (I16, U32, false, "i64"),
            (F16, BF16, false, "f32"),
            (F8E4M3, F8E5M2, false, "f16"),
            (U64, I8, false, "f32"),
            (Dynamic, I8, true, "dynamic"),
        ] {
            for (a, b) in [(a, b), (b, a)] {
                let (first, second) = (format!("{common}[?,3]"), format!("{common}[...]"));
                case(&loose, (a, "?,3"), (b, "...")).expect(&[Ok(&first), Ok(&second)]);
                let (op, message) = (case(&[], (a, "?,3"), (b, "...")), format!("{a} and {b}: "));
                if safe {
                    op.expect(&[Ok(&first), Ok(&second)])
                } else {
                    op.expect(&[Err(&message)])
                }
            }
        }
        let target = [("promote_unsafe", "true"), ("u64_integer_promotion_target", "i64")];
        case(&target, (U64, "2"), (I8, "2")).expect(&[Ok("i64[2]"), Ok("i64[2]")]);
        case(&[], (String, "2"), (I8, "2")).expect(&[Err("(input_0): must be a numeric type")]);
    }

    #[test]
    fn scalars() {
        let safe = [("pytorch_scalar_promotion", "true")];
        let loose = [safe[0], ("promote_unsafe", "true")];
        case(&loose, (I64, "[]"), (U8, "3")).expect(&[Ok("u8[]"), Ok("u8[3]")]);
        case(&safe, (I64, "[]"), (U8, "3")).expect(&[Err("may not hold the scalar")]);
        case(&safe, (U8, "[]"), (I8, "3")).expect(&[Ok("i8[]"), Ok("i8[3]")]);
        case(&safe, (F16, "[]"), (I8, "3")).expect(&[Ok("f16[]"), Ok("f16[3]")]);
        case(&safe, (F64, "3"), (F32, "[]")).expect(&[Ok("f64[3]"), Ok("f64[]")]);
    }

    #[test]
    fn values() {
        let inputs = [Input::ints(I32, &[3]), Input::ints(I64, &[-1, 2])];
        let op = Case::of("ConvertPromoteTypes", "opset14").inputs(inputs);
        op.expect(&[Ok("i64[1] = {3}"), Ok("i64[2] = {-1, 2}")]);
    }
}
