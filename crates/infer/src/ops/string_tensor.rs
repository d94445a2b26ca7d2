//! StringTensorPack-15, StringTensorUnpack-15: strings as runs of bytes, and back. OpenVINO
//! Tokenizers has versions of its own of both, which have an attribute `mode`, and a u8 tensor with
//! all strings in place of a string tensor.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/type/string-tensor-pack-15.html>
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/type/string-tensor-unpack-15.html>

use crate::rule::prelude::*;
use crate::rules::strings;

/// The versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// That of the opsets.
    V15,
    /// That of OpenVINO Tokenizers.
    Extension,
}

fn read_mode(kind: Kind, attrs: &mut Attrs<'_>) -> Result<(), AttrError> {
    match kind {
        Kind::V15 => Ok(()),
        Kind::Extension => attrs.choice_or("mode", &[("begins_ends", ())], ()),
    }
}

/// StringTensorPack-15.
#[derive(Debug)]
pub struct StringTensorPack;

impl Parse for StringTensorPack {
    type Kind = Kind;

    fn parse(kind: Kind, attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        read_mode(kind, attrs).map(|()| StringTensorPack)
    }
}

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
pub struct StringTensorUnpack {
    kind: Kind,
}

impl Parse for StringTensorUnpack {
    type Kind = Kind;

    fn parse(kind: Kind, attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        read_mode(kind, attrs).map(|()| StringTensorUnpack { kind })
    }
}

impl Op for StringTensorUnpack {
    fn input_names(&self) -> &'static [&'static str] {
        &["data"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(1..=1)?;
        let packed = self.kind == Kind::Extension && cx.element_type(0) == ElementType::U8;
        if packed {
            cx.expect_rank(0, 1..=1)?;
            strings::set_strings(cx, 0, PartialShape::of_rank(1));
            return Ok(());
        }
        cx.expect_type(0, "string", |t| t == ElementType::String)?;
        strings::set_strings(cx, 0, cx.shape(0).clone());
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

    #[test]
    fn of_tokenizers() {
        let case = |t| Case::of("StringTensorUnpack", "extension").inputs([Input::shape(t, "9")]);
        let strings = case(String).attr("mode", "begins_ends");
        strings.expect(&[Ok("i32[9]"), Ok("i32[9]"), Ok("u8[?]")]);
        case(U8).expect(&[Ok("i32[?]"), Ok("i32[?]"), Ok("u8[?]")]);
        case(U8).attr("mode", "x").expect(&[Err("mode")]);
    }
}
