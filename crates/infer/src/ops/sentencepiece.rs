//! SentencepieceTokenizer, SentencepieceDetokenizer and SentencepieceStreamDetokenizer of OpenVINO
//! Tokenizers: text to tokens and back by a SentencePiece model.
//!
//! <https://github.com/openvinotoolkit/openvino_tokenizers>

use crate::rule::prelude::*;
use crate::rules::strings;

/// The operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// SentencepieceTokenizer.
    Tokenizer,
    /// SentencepieceDetokenizer.
    Detokenizer,
    /// SentencepieceStreamDetokenizer.
    StreamDetokenizer,
}

/// One of the operations.
#[derive(Debug)]
pub struct Sentencepiece {
    kind: Kind,
    add_bos: bool,
    add_eos: bool,
    reverse: bool,
}

impl Parse for Sentencepiece {
    type Kind = Kind;

    fn parse(kind: Kind, attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        if kind == Kind::Tokenizer {
            let nbest = attrs.int_or("nbest_size", 0)?;
            if nbest != 0 && nbest != 1 {
                let message = format!("{nbest} is not supported: tokens would be drawn by chance");
                return Err(AttrError::new("nbest_size", message));
            }
            attrs.ignore(&["alpha"]);
        }
        Ok(Sentencepiece {
            kind,
            add_bos: attrs.bool_or("add_bos", false),
            add_eos: attrs.bool_or("add_eos", false),
            reverse: attrs.bool_or("reverse", false),
        })
    }
}

impl Sentencepiece {
    /// Which of the operations.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether a begin-of-text token is added.
    pub fn add_bos(&self) -> bool {
        self.add_bos
    }

    /// Whether an end-of-text token is added.
    pub fn add_eos(&self) -> bool {
        self.add_eos
    }

    /// Whether the order of tokens is reversed.
    pub fn reverse(&self) -> bool {
        self.reverse
    }
}

impl Op for Sentencepiece {
    fn input_names(&self) -> &'static [&'static str] {
        match self.kind {
            Kind::Tokenizer => &["model", "text"],
            _ => &["model", "tokens"],
        }
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        strings::expect_bytes(cx, 0)?;
        if self.kind != Kind::Tokenizer {
            cx.expect_inputs(2..=2)?;
            cx.expect_integer(1)?;
            cx.expect_rank(1, 2..=2)?;
            let rows = PartialShape::from([cx.shape(1).dim(0)]);
            strings::set_strings(cx, 0, rows);
            return Ok(());
        }
        let count = cx.input_count();
        match count {
            2 | 6 => drop(cx.expect_type(1, "string", |t| t == ElementType::String)?),
            4 | 8 => strings::expect_strings(cx, 1)?,
            _ => {
                let message = format!("it takes 2, 4, 6 or 8 inputs, not {count}");
                return Err(RuleError::new(message));
            }
        }
        if count >= 6 {
            strings::expect_strings(cx, count - 4)?;
            cx.expect_type(count - 1, "i32", |t| t == ElementType::I32)?;
        }
        cx.because("how many tokens there are is known only when running");
        cx.set(0, ElementType::I64, [Dim::any(), Dim::of(2)]);
        cx.set(1, ElementType::I32, PartialShape::of_rank(1));
        cx.set(2, ElementType::I64, [Dim::of(2)]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Case;
    use ir::ElementType::*;

    #[test]
    fn rule() {
        let sparse = [Ok("i64[?,2]"), Ok("i32[?]"), Ok("i64[2]")];
        let strings = [(I32, "?"), (I32, "?"), (U8, "?")];
        Case::of_shapes("SentencepieceTokenizer", &[(U8, "9"), (String, "?")]).expect(&sparse);
        Case::of_shapes("SentencepieceTokenizer", &[&[(U8, "9")], &strings[..]].concat())
            .expect(&sparse);
        let text = [Ok("i32[3]"), Ok("i32[3]"), Ok("u8[?]")];
        Case::of_shapes("SentencepieceDetokenizer", &[(U8, "9"), (I32, "3,?")]).expect(&text);
        Case::of_shapes("SentencepieceStreamDetokenizer", &[(U8, "9"), (I32, "3")])
            .expect(&[Err("rank 2")]);
        Case::of_shapes("SentencepieceTokenizer", &[(U8, "9"), (U8, "?")])
            .expect(&[Err("must be string")]);
        let sampled = Case::of_shapes("SentencepieceTokenizer", &[(U8, "9"), (String, "?")]);
        sampled.attr("nbest_size", "-1").expect(&[Err("drawn by chance")]);
    }
}
