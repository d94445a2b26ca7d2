//! StringTensorPack-15, StringTensorUnpack-15: strings as runs of bytes, and back.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/type/string-tensor-pack-15.html>
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/type/string-tensor-unpack-15.html>

use crate::prelude::*;

/// StringTensorPack-15.
#[derive(Debug)]
pub struct StringTensorPack;

no_attributes!(StringTensorPack);

impl Op for StringTensorPack {
    fn input_names(&self) -> &'static [&'static str] {
        &["begins", "ends", "symbols"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(3..=3)?;
        for input in [0, 1] {
            cx.expect_index(input)?;
        }
        cx.same_type([0, 1])?;
        cx.expect_type(2, "u8", |t| t == ElementType::U8)?;
        cx.expect_rank(2, 1..=1)?;
        let (begins, ends) = (cx.shape(0), cx.shape(1));
        let message = || format!("is {ends}: it must have the shape of begins, {begins}");
        let shape = begins.meet(ends).ok_or_else(|| RuleError::at(1, message()))?;
        cx.set(0, ElementType::String, shape);
        Ok(())
    }
}

/// StringTensorUnpack-15.
#[derive(Debug)]
pub struct StringTensorUnpack;

no_attributes!(StringTensorUnpack);

impl Op for StringTensorUnpack {
    fn input_names(&self) -> &'static [&'static str] {
        &["data"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(1..=1)?;
        cx.expect_type(0, "string", |t| t == ElementType::String)?;
        cx.because("how long the strings are is known only when running");
        cx.set(0, ElementType::I32, cx.shape(0).clone());
        cx.set(1, ElementType::I32, cx.shape(0).clone());
        cx.set(2, ElementType::U8, PartialShape::of_rank(1));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    #[test]
    fn pack() {
        let case = |begins, ends, symbols| {
            let index = |shape| Input::shape(I32, shape);
            let inputs = [index(begins), index(ends), symbols];
            Case::of("StringTensorPack", "opset15").inputs(inputs)
        };
        let symbols = Input::shape(U8, "?");
        case("2,?", "?,3", symbols.clone()).expect(&[Ok("string[2,3]")]);
        case("...", "...", symbols.clone()).expect(&[Ok("string[...]")]);
        case("2", "3", symbols).expect(&[Err("input 1 (ends): is [3]: it must have the shape of")]);
        case("2", "2", Input::shape(I8, "?")).expect(&[Err("must be u8, not i8")]);
        case("2", "2", Input::shape(U8, "1,1")).expect(&[Err("must have rank 1, not 2")]);
    }

    #[test]
    fn unpack() {
        let case = |t| Case::of("StringTensorUnpack", "opset15").inputs([Input::shape(t, "2,?")]);
        case(String).expect(&[Ok("i32[2,?]"), Ok("i32[2,?]"), Ok("u8[?]")]);
        case(U8).expect(&[Err("input 0 (data): must be string, not u8")]);
    }
}
