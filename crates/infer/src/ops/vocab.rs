//! VocabEncoder and VocabDecoder of OpenVINO Tokenizers: strings to ids, and ids to strings.
//!
//! <https://github.com/openvinotoolkit/openvino_tokenizers>

use crate::rule::prelude::*;
use crate::rules::strings;

/// VocabEncoder.
#[derive(Debug)]
pub struct VocabEncoder;

no_attributes!(VocabEncoder);

impl Op for VocabEncoder {
    fn input_names(&self) -> &'static [&'static str] {
        &["begins", "ends", "chars", "key_begins", "key_ends", "key_chars", "values", "default"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(8..=8)?;
        strings::expect_strings(cx, 0)?;
        strings::expect_strings(cx, 3)?;
        cx.expect_index(6)?;
        let element_type = cx.same_type([6, 7])?;
        cx.expect_one(7, "default")?;
        let (keys, values) = (cx.shape(3), cx.shape(6));
        require!(6; keys.is_compatible(values), "is {values}, but keys are {keys}");
        cx.set(0, element_type, cx.shape(0).clone());
        Ok(())
    }
}

/// VocabDecoder.
#[derive(Debug)]
pub struct VocabDecoder {
    skip_tokens: Vec<i32>,
}

impl Parse for VocabDecoder {
    type Kind = ();

    fn parse((): (), attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        Ok(VocabDecoder { skip_tokens: attrs.list_opt("skip_tokens")?.unwrap_or_default() })
    }
}

impl VocabDecoder {
    /// Tokens that are dropped, unless an input gives them.
    pub fn skip_tokens(&self) -> &[i32] {
        &self.skip_tokens
    }
}

impl Op for VocabDecoder {
    fn input_names(&self) -> &'static [&'static str] {
        &["tokens", "begins", "ends", "chars", "skip_tokens"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(4..=5)?;
        cx.expect_type(0, "i32", |t| t == ElementType::I32)?;
        cx.expect_rank(0, 2..=2)?;
        strings::expect_strings(cx, 1)?;
        if cx.input_count() == 5 {
            cx.expect_type(4, "i32", |t| t == ElementType::I32)?;
        }
        let rows = PartialShape::from([cx.shape(0).dim(0)]);
        strings::set_ragged_strings(cx, 0, rows);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Case;
    use ir::ElementType::*;

    #[test]
    fn encoder() {
        let strings = [(I32, "2,?"), (I32, "2,?"), (U8, "?")];
        let keys = [(I32, "4"), (I32, "4"), (U8, "9")];
        let inputs = |values| [&strings[..], &keys, &[(I64, values), (I64, "")]].concat();
        Case::of_shapes("VocabEncoder", &inputs("4")).expect(&[Ok("i64[2,?]")]);
        Case::of_shapes("VocabEncoder", &inputs("5")).expect(&[Err("is [5], but keys are [4]")]);
    }

    #[test]
    fn decoder() {
        let tokens = [(I32, "2,?"), (I32, "4"), (I32, "4"), (U8, "9")];
        let out = [Ok("i32[2]"), Ok("i32[2]"), Ok("i32[?]"), Ok("i32[?]"), Ok("u8[?]")];
        Case::of_shapes("VocabDecoder", &tokens).attr("skip_tokens", "1,2").expect(&out);
        Case::of_shapes("VocabDecoder", &[&tokens[..], &[(I64, "2")]].concat())
            .expect(&[Err("must be i32")]);
    }
}
