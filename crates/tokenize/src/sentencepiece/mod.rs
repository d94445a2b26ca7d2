//! SentencePiece models: reading, encoding and decoding.

mod decode;
mod encode;
mod model;

pub use model::Model;

use crate::regex::{Pattern, Text};
use crate::strings::Strings;
use foldhash::HashMap;

/// What is added to the tokens of a text.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ends {
    /// The begin-of-text token.
    pub begin: bool,
    /// The end-of-text token.
    pub end: bool,
    /// The order of all tokens is reversed, including these.
    pub reverse: bool,
}

/// Encodes texts by a model.
#[derive(Debug)]
pub struct Encoder {
    model: Model,
    special: Option<Special>,
    ends: Ends,
}

/// Special tokens, which are found before the model sees the text.
#[derive(Debug)]
struct Special {
    pattern: Pattern,
    ids: HashMap<Box<[u8]>, i32>,
}

impl Special {
    fn new(tokens: Strings<'_>, ids: &[i32]) -> Special {
        let texts: Vec<String> = tokens.iter().map(pattern_of).collect();
        let ids = tokens.iter().zip(ids).map(|(token, id)| (token.into(), *id)).collect();
        Special { pattern: Pattern::new(&texts.join("|")), ids }
    }
}

/// The pattern of a special token. A token of letters only does not match inside of a longer word.
fn pattern_of(token: &[u8]) -> String {
    let text = String::from_utf8_lossy(token);
    let meta = |c: char| ".^$*+?()[]{}|\\".contains(c);
    let quote = |c: char| if meta(c) { vec!['\\', c] } else { vec![c] };
    let quoted: String = text.chars().flat_map(quote).collect();
    if token.iter().all(u8::is_ascii_alphabetic) {
        format!("\\b{quoted}|{quoted}\\b")
    } else {
        quoted
    }
}

impl Encoder {
    /// An encoder with a model, and special tokens with their ids.
    pub fn new(model: Model, special: Option<(Strings<'_>, &[i32])>, ends: Ends) -> Encoder {
        let special = special.map(|(tokens, ids)| Special::new(tokens, ids));
        Encoder { model, special, ends }
    }

    /// Appends the tokens of a text.
    pub fn encode(&self, text: &[u8], out: &mut Vec<i32>) {
        let first = out.len();
        match &self.special {
            None => self.part(text, out),
            Some(special) => self.parts(special, text, out),
        }
        if self.ends.end {
            out.push(self.model.end());
        }
        if self.ends.reverse {
            out[first..].reverse();
        }
    }

    /// Encodes text without special tokens; each such part begins with the begin-of-text token.
    fn part(&self, text: &[u8], out: &mut Vec<i32>) {
        if self.ends.begin {
            out.push(self.model.begin());
        }
        self.model.encode(text, out);
    }

    fn parts(&self, special: &Special, text: &[u8], out: &mut Vec<i32>) {
        let (found, mut start) = (Text::new(text), 0);
        while let Some((begin, end)) = special.pattern.find(&found, start).filter(|(b, e)| b < e) {
            if start < begin {
                self.part(&text[start..begin], out);
            }
            out.extend(special.ids.get(&text[begin..end]));
            start = end;
        }
        if start < text.len() {
            self.part(&text[start..], out);
        }
    }
}
