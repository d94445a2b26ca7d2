//! RegexSplit and SpecialTokensSplit of OpenVINO Tokenizers: splits each string into pieces.
//!
//! <https://github.com/openvinotoolkit/openvino_tokenizers>

use crate::rule::prelude::*;
use crate::rules::strings;

/// The operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// RegexSplit.
    Regex,
    /// SpecialTokensSplit.
    SpecialTokens,
}

/// What happens to the matches of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// They are dropped.
    Remove,
    /// They are pieces of their own.
    Isolate,
    /// Neighbouring matches are one piece.
    Contiguous,
    /// They are appended to the piece before them.
    MergedWithPrevious,
    /// They are put at the start of the next piece.
    MergedWithNext,
}

/// One of the operations.
#[derive(Debug)]
pub struct TextSplit {
    kind: Kind,
    behaviour: Behaviour,
    invert: bool,
    max_splits: Option<usize>,
}

impl Parse for TextSplit {
    type Kind = Kind;

    fn parse(kind: Kind, attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        if kind == Kind::SpecialTokens {
            let (behaviour, invert, max_splits) = (Behaviour::Isolate, false, None);
            return Ok(TextSplit { kind, behaviour, invert, max_splits });
        }
        let behaviours = [
            ("remove", Behaviour::Remove),
            ("isolate", Behaviour::Isolate),
            ("contiguous", Behaviour::Contiguous),
            ("mergedwithprevious", Behaviour::MergedWithPrevious),
            ("mergedwithnext", Behaviour::MergedWithNext),
        ];
        let max_splits = attrs.int_in("max_splits", Some(-1), -1..)?;
        if max_splits == 0 {
            return Err(AttrError::new("max_splits", "must be -1, for no limit, or at least 1"));
        }
        Ok(TextSplit {
            kind,
            behaviour: attrs.choice_or("behaviour", &behaviours, Behaviour::Remove)?,
            invert: attrs.bool_or("invert", false),
            max_splits: usize::try_from(max_splits).ok(),
        })
    }
}

impl TextSplit {
    /// Which of the operations.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// What happens to the matches.
    pub fn behaviour(&self) -> Behaviour {
        self.behaviour
    }

    /// Whether matches and the text in between swap roles.
    pub fn invert(&self) -> bool {
        self.invert
    }

    /// The index of the piece that is extended to the end of the text.
    pub fn max_splits(&self) -> Option<usize> {
        self.max_splits
    }
}

/// Inputs of a RegexSplit that lists strings to keep whole, as in files of 2024.
const WITH_KEPT_STRINGS: usize = 9;

impl Op for TextSplit {
    fn input_names(&self) -> &'static [&'static str] {
        &["ragged_begins", "ragged_ends", "begins", "ends", "chars"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        let kept_strings = cx.input_count() == WITH_KEPT_STRINGS && self.kind == Kind::Regex;
        cx.expect_inputs(if kept_strings { 9..=9 } else { 6..=7 })?;
        strings::expect_ragged_strings(cx, 0)?;
        let has_skips = cx.input_count() == 7;
        strings::expect_bytes(cx, 5 + usize::from(has_skips))?;
        if kept_strings {
            strings::expect_strings(cx, 6)?;
        }
        if has_skips {
            cx.expect_boolean(5)?;
        }
        if has_skips || self.kind == Kind::SpecialTokens {
            cx.set(5, ElementType::Boolean, PartialShape::of_rank(1));
        }
        strings::set_ragged_strings(cx, 0, cx.shape(0).clone());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    fn case(kind: &'static str, more: &[(ir::ElementType, &str)]) -> Case {
        let own = [(I32, "2"), (I32, "2"), (I32, "3"), (I32, "3"), (U8, "?")];
        let inputs = own.iter().chain(more).map(|(t, shape)| Input::shape(*t, shape));
        Case::of(kind, "extension").inputs(inputs)
    }

    #[test]
    fn rule() {
        let out = [Ok("i32[2]"), Ok("i32[2]"), Ok("i32[?]"), Ok("i32[?]"), Ok("u8[?]")];
        let with_skips = [&out[..], &[Ok("boolean[?]")]].concat();
        case("RegexSplit", &[(U8, "4")]).expect(&out);
        case("SpecialTokensSplit", &[(U8, "4")]).expect(&with_skips);
        case("RegexSplit", &[(Boolean, "3"), (U8, "4")]).expect(&with_skips);
        let kept = [(U8, "4"), (I32, "1"), (I32, "1"), (U8, "2")];
        case("RegexSplit", &kept).expect(&out);
        case("RegexSplit", &[(U8, "4")]).attr("max_splits", "0").expect(&[Err("at least 1")]);
        case("RegexSplit", &[(U8, "4")]).attr("behaviour", "x").expect(&[Err("behaviour")]);
        case("RegexSplit", &[]).expect(&[Err("it takes 6 to 7 inputs, not 5")]);
    }
}
