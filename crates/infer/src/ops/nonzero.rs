//! NonZero-3: the positions of the elements that are not 0.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/condition/nonzero-3.html>
//!
//! A scalar is taken as a list of one element, as OpenVINO and ONNX do.

use crate::rule::prelude::*;

/// NonZero-3.
#[derive(Debug)]
pub struct NonZero {
    output_type: ElementType,
}

impl Parse for NonZero {
    type Kind = ();

    fn parse((): (), attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        Ok(NonZero { output_type: attrs.index_type_or("output_type", ElementType::I64)? })
    }
}

impl Op for NonZero {
    fn input_names(&self) -> &'static [&'static str] {
        &["data"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(1..=1)?;
        let numeric = |t: ElementType| t.is_integral() || t.is_real() || t == ElementType::Boolean;
        cx.expect_type(0, "boolean or a numeric type", numeric)?;
        let rank = cx.rank(0).map_or(Dim::any(), |rank| Dim::of(rank.max(1)));
        let count = Dim::range(0, cx.shape(0).volume().max());
        cx.because("how many elements are not 0 is known only when running");
        cx.set(0, self.output_type, [rank, count]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    #[test]
    fn rule() {
        let case = |t, shape| Case::of("NonZero", "opset3").inputs([Input::shape(t, shape)]);
        case(F32, "3,4").expect(&[Ok("i64[2,..12]")]);
        case(Boolean, "2..4,3,2").attr("output_type", "i32").expect(&[Ok("i32[3,..24]")]);
        case(F32, "?,4").expect(&[Ok("i64[2,?]")]);
        case(F32, "0,?").expect(&[Ok("i64[2,0]")]);
        case(U8, "[]").expect(&[Ok("i64[1,..1]")]);
        case(F32, "...").expect(&[Ok("i64[?,?]")]);
        case(F32, "2").attr("output_type", "f32").expect(&[Err("must be i32 or i64, not f32")]);
    }
}
