//! WordpieceTokenizer, BPETokenizer, UnigramTokenizer and TrieTokenizer of OpenVINO Tokenizers:
//! words to token ids.
//!
//! <https://github.com/openvinotoolkit/openvino_tokenizers>

use crate::rule::prelude::*;
use crate::rules::strings;

/// The operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// WordpieceTokenizer.
    Wordpiece,
    /// BPETokenizer.
    Bpe,
    /// UnigramTokenizer.
    Unigram,
    /// TrieTokenizer.
    Trie,
}

/// The algorithm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// Greedy longest pieces from left to right.
    Wordpiece {
        /// The prefix of pieces inside a word.
        suffix_indicator: String,
        /// Longer words are unknown.
        max_bytes_per_word: usize,
    },
    /// Byte-pair encoding.
    Bpe {
        /// The token for unknown text.
        unknown: String,
        /// The suffix of each word.
        end_suffix: String,
        /// Whether bytes missing in the vocabulary become tokens such as `<0x0A>`.
        byte_fallback: bool,
    },
    /// The most likely tokens.
    Unigram {
        /// The id for unknown text.
        unknown: i32,
    },
    /// Greedy longest tokens from left to right, with ids of their own.
    Trie,
}

/// One of the operations.
#[derive(Debug)]
pub struct Tokenizer {
    algorithm: Algorithm,
}

impl Parse for Tokenizer {
    type Kind = Kind;

    fn parse(kind: Kind, attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        let text = |attrs: &mut Attrs<'_>, name, default: &str| {
            attrs.text(name).unwrap_or(default).to_owned()
        };
        let algorithm = match kind {
            Kind::Wordpiece => Algorithm::Wordpiece {
                suffix_indicator: text(attrs, "suffix_indicator", "##"),
                max_bytes_per_word: attrs.count_in("max_bytes_per_word", Some(100), 0..)?,
            },
            Kind::Bpe => {
                // The extension ignores these. irrun caches words for as long as they repeat.
                attrs.ignore(&["suffix_indicator", "fuse_unk", "cache_capacity"]);
                Algorithm::Bpe {
                    unknown: text(attrs, "unk_token", ""),
                    end_suffix: text(attrs, "end_suffix", ""),
                    byte_fallback: attrs.bool_or("byte_fallback", false),
                }
            }
            Kind::Unigram => {
                attrs.ignore(&["byte_fallback", "fuse_unk", "min_score"]);
                let unknown = attrs.int_or("unk_token_id", 0)?;
                let range = |_| AttrError::new("unk_token_id", format!("{unknown} is too large"));
                Algorithm::Unigram { unknown: i32::try_from(unknown).map_err(range)? }
            }
            Kind::Trie => Algorithm::Trie,
        };
        Ok(Tokenizer { algorithm })
    }
}

impl Tokenizer {
    /// The algorithm.
    pub fn algorithm(&self) -> &Algorithm {
        &self.algorithm
    }
}

impl Op for Tokenizer {
    fn input_names(&self) -> &'static [&'static str] {
        &["ragged_begins", "ragged_ends", "begins", "ends", "chars"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        strings::expect_ragged_strings(cx, 0)?;
        strings::expect_strings(cx, 5)?;
        match self.algorithm {
            Algorithm::Bpe { .. } => bpe_inputs(cx)?,
            Algorithm::Unigram { .. } => {
                cx.expect_inputs(9..=9)?;
                cx.expect_type(8, "f32", |t| t == ElementType::F32)?;
                cx.expect_rank(8, 1..=1)?;
            }
            Algorithm::Wordpiece { .. } => {
                cx.expect_inputs(9..=9)?;
                cx.expect_integer(8)?;
                cx.expect_one(8, "unknown token")?;
            }
            Algorithm::Trie => {
                cx.expect_inputs(9..=9)?;
                cx.expect_type(8, "i32", |t| t == ElementType::I32)?;
            }
        }
        let rows = cx.shape(0).clone();
        strings::set_ragged(cx, 0, rows, ElementType::I32);
        Ok(())
    }
}

/// Merges are one list of strings with a space between both sides, or two lists. Added tokens are a
/// list of strings with an id each.
fn bpe_inputs(cx: &InferCx<'_>) -> Result<(), RuleError> {
    let count = cx.input_count();
    if ![11, 14, 15, 18].contains(&count) {
        let message = format!("it takes 11, 14, 15 or 18 inputs, not {count}");
        return Err(RuleError::new(message));
    }
    strings::expect_strings(cx, 8)?;
    if count == 14 || count == 18 {
        strings::expect_strings(cx, 11)?;
    }
    if count >= 15 {
        strings::expect_strings(cx, count - 4)?;
        cx.expect_type(count - 1, "i32", |t| t == ElementType::I32)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    fn case(kind: &'static str, more: &[(ir::ElementType, &str)]) -> Case {
        let own = [(I32, "2"), (I32, "2"), (I32, "3"), (I32, "3"), (U8, "?")];
        let words = [(I32, "9"), (I32, "9"), (U8, "30")];
        let inputs = own.iter().chain(&words).chain(more).map(|(t, s)| Input::shape(*t, s));
        Case::of(kind, "extension").inputs(inputs)
    }

    #[test]
    fn rule() {
        let out = [Ok("i32[2]"), Ok("i32[2]"), Ok("i32[?]")];
        case("WordpieceTokenizer", &[(I64, "")]).expect(&out);
        case("UnigramTokenizer", &[(F32, "9")]).expect(&out);
        case("TrieTokenizer", &[(I32, "9")]).expect(&out);
        let words = [(I32, "9"), (I32, "9"), (U8, "30")];
        case("BPETokenizer", &words).expect(&out);
        case("BPETokenizer", &[&words[..], &words, &words, &[(I32, "9")]].concat()).expect(&out);
        case("BPETokenizer", &[]).expect(&[Err("it takes 11, 14, 15 or 18 inputs, not 8")]);
        case("TrieTokenizer", &[(I64, "9")]).expect(&[Err("must be i32, not i64")]);
    }
}
