//! RegexNormalization, CharsMapNormalization, NormalizeUnicode, CaseFold, UTF8Validate and
//! ByteFallback of OpenVINO Tokenizers: each string becomes another string.
//!
//! <https://github.com/openvinotoolkit/openvino_tokenizers>

use crate::rule::prelude::*;
use crate::rules::strings;

/// The operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// RegexNormalization.
    Regex,
    /// CharsMapNormalization.
    CharsMap,
    /// NormalizeUnicode.
    Unicode,
    /// CaseFold.
    CaseFold,
    /// UTF8Validate.
    Validate,
    /// ByteFallback.
    ByteFallback,
}

/// A Unicode normalization form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// None.
    Identity,
    /// Composed.
    Nfc,
    /// Decomposed.
    Nfd,
    /// Composed after compatibility decomposition.
    Nfkc,
    /// Decomposed, compatibility characters too.
    Nfkd,
}

/// The change of each string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Matches of a pattern are replaced.
    Replace {
        /// Whether all matches are, or only the first.
        everywhere: bool,
    },
    /// It is rewritten by a normalization form, or by a precompiled map.
    Rewrite {
        /// The form; `None` if a map is an input.
        form: Option<Form>,
        /// Whether case is folded too.
        fold: bool,
        /// Whether a space is added before the text.
        dummy_prefix: bool,
        /// Whether leading, trailing and repeated spaces are removed.
        remove_extra_spaces: bool,
        /// Whether spaces are written as U+2581.
        escape_spaces: bool,
    },
    /// ASCII letters become lower or upper case.
    AsciiCase {
        /// Whether they become lower case.
        lower: bool,
    },
    /// Invalid UTF-8 is replaced or dropped.
    Validate {
        /// Whether it is replaced.
        replace: bool,
    },
    /// Tokens such as `<0x0A>` become bytes.
    ByteFallback,
}

/// One of the operations.
#[derive(Debug)]
pub struct TextNormalize {
    kind: Kind,
    change: Change,
}

const FORMS: [(&str, Option<Form>); 6] = [
    ("", None),
    ("identity", Some(Form::Identity)),
    ("nfc", Some(Form::Nfc)),
    ("nfd", Some(Form::Nfd)),
    ("nfkc", Some(Form::Nfkc)),
    ("nfkd", Some(Form::Nfkd)),
];

fn rewrite(form: Option<Form>, fold: bool) -> Change {
    let (dummy_prefix, remove_extra_spaces, escape_spaces) = (false, false, false);
    Change::Rewrite { form, fold, dummy_prefix, remove_extra_spaces, escape_spaces }
}

impl Parse for TextNormalize {
    type Kind = Kind;

    fn parse(kind: Kind, attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        let change = match kind {
            Kind::Regex => Change::Replace { everywhere: attrs.bool_or("global_replace", true) },
            Kind::CharsMap => {
                attrs.ignore(&["nmt"]);
                Change::Rewrite {
                    form: attrs.choice_or("normalization_form", &FORMS, None)?,
                    fold: attrs.bool_or("case_fold", false),
                    dummy_prefix: attrs.bool_or("add_dummy_prefix", false),
                    remove_extra_spaces: attrs.bool_or("remove_extra_whitespaces", true),
                    escape_spaces: attrs.bool_or("escape_whitespaces", false),
                }
            }
            Kind::Unicode => {
                let forms = &FORMS[2..];
                rewrite(attrs.choice_or("normalization_form", forms, Some(Form::Nfd))?, false)
            }
            Kind::CaseFold => {
                let lower = attrs.bool_or("lower", true);
                let utf_8 = attrs.choice_or("encoding", &[("utf-8", true), ("", false)], true)?;
                if utf_8 && !lower {
                    return Err(AttrError::new("lower", "is false, which utf-8 does not allow"));
                }
                if utf_8 {
                    rewrite(Some(Form::Identity), true)
                } else {
                    Change::AsciiCase { lower }
                }
            }
            Kind::Validate => Change::Validate { replace: attrs.bool_or("replace_mode", false) },
            Kind::ByteFallback => Change::ByteFallback,
        };
        Ok(TextNormalize { kind, change })
    }
}

impl TextNormalize {
    /// The change of each string.
    pub fn change(&self) -> Change {
        self.change
    }

    /// Inputs after the strings and their skip flags: patterns and maps.
    fn parameters(&self) -> usize {
        match self.change {
            Change::Replace { .. } => 2,
            Change::Rewrite { form: None, .. } => 1,
            _ => 0,
        }
    }

    /// Whether one of `inputs` inputs flags strings that are not changed.
    pub fn has_skips(&self, inputs: usize) -> bool {
        inputs > 3 + self.parameters()
    }
}

impl Op for TextNormalize {
    fn input_names(&self) -> &'static [&'static str] {
        &["begins", "ends", "chars"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        let parameters = self.parameters();
        let skips = !matches!(self.kind, Kind::Validate | Kind::ByteFallback);
        cx.expect_inputs(3 + parameters..=3 + parameters + usize::from(skips))?;
        strings::expect_strings(cx, 0)?;
        let has_skips = self.has_skips(cx.input_count());
        if has_skips {
            cx.expect_boolean(3)?;
            cx.set(3, ElementType::Boolean, cx.shape(3).clone());
        }
        for parameter in 3 + usize::from(has_skips)..cx.input_count() {
            strings::expect_bytes(cx, parameter)?;
        }
        strings::set_strings(cx, 0, cx.shape(0).clone());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    fn case(kind: &'static str, more: &[(ir::ElementType, &str)]) -> Case {
        let own = [(I32, "2"), (I32, "2"), (U8, "?")];
        let inputs = own.iter().chain(more).map(|(t, shape)| Input::shape(*t, shape));
        Case::of(kind, "extension").inputs(inputs)
    }

    #[test]
    fn rule() {
        let out = [Ok("i32[2]"), Ok("i32[2]"), Ok("u8[?]")];
        case("UTF8Validate", &[]).expect(&out);
        case("RegexNormalization", &[(U8, "3"), (U8, "0")]).expect(&out);
        case("CharsMapNormalization", &[(U8, "9")]).expect(&out);
        case("CaseFold", &[(Boolean, "2")]).expect(&[&out[..], &[Ok("boolean[2]")]].concat());
        case("CaseFold", &[]).attr("lower", "false").expect(&[Err("lower: is false")]);
        case("RegexNormalization", &[(I8, "3"), (U8, "0")]).expect(&[Err("must be u8, not i8")]);
        case("NormalizeUnicode", &[]).attr("normalization_form", "x").expect(&[Err("x")]);
    }
}
