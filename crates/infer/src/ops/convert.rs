//! Convert-1, ConvertLike-1: the same values in another element type.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/type/convert-1.html>
//!
//! Floats become integers by truncation, integers wrap, everything else rounds to nearest even;
//! `docs/numerics.md` has the edges.

use crate::rule::prelude::*;
use crate::rules::conversion::converted;

/// The source of the target type.
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
    /// The target type; `None` for that of input 1.
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
    /// A conversion to this type.
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
            (Input::reals(F32, &[2.0, 0.5, -0.0, -3.0]), "boolean", "boolean[4] = {1, 1, 0, 1}"),
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
