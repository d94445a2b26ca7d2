//! Text normalization by longest-match rules, as in SentencePiece.

use crate::bytes::{REPLACEMENT, first_char};
use crate::error::TextError;
use crate::trie::Trie;
pub use crate::unicode::Form;
use crate::unicode::UnicodeMap;
use std::sync::Arc;

/// U+2581, which SentencePiece writes for a space.
pub(crate) const SPACE_SYMBOL: &[u8] = "\u{2581}".as_bytes();

/// The rules that rewrite a text.
#[derive(Debug)]
enum Rules {
    None,
    Precompiled(Precompiled),
    Unicode(Arc<UnicodeMap>),
}

impl Rules {
    /// The longest rule at the start of `text`: its replacement, and the length it replaces.
    fn longest<'t>(&'t self, text: &'t [u8]) -> Option<(&'t [u8], usize)> {
        match self {
            Rules::None => None,
            Rules::Precompiled(map) => map.longest(text),
            Rules::Unicode(map) => map.longest(text),
        }
    }

    /// Whether there may be a rule for text with this prefix.
    fn has_prefix(&self, prefix: &[u8]) -> bool {
        match self {
            Rules::None => false,
            Rules::Precompiled(map) => map.has_prefix(prefix),
            Rules::Unicode(map) => map.has_prefix(prefix),
        }
    }
}

/// The treatment of spaces.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spaces {
    /// A space is added before the text.
    pub dummy_prefix: bool,
    /// The space is added after the text instead.
    pub as_suffix: bool,
    /// Spaces at both ends and repeated ones are removed.
    pub remove_extra: bool,
    /// Spaces are written as U+2581.
    pub escape: bool,
}

/// Rewrites texts.
#[derive(Debug)]
pub struct Normalizer {
    rules: Rules,
    spaces: Spaces,
    /// For each ASCII byte its replacement unless a non-ASCII character follows, or 0.
    ascii: Box<[u8; 256]>,
    /// Symbols that are not rewritten.
    kept: Option<Trie>,
}

impl Normalizer {
    /// A normalizer with a precompiled map; an empty map has no rules.
    ///
    /// # Errors
    /// When it is damaged.
    pub fn precompiled(map: &[u8], spaces: Spaces) -> Result<Normalizer, TextError> {
        let rules =
            if map.is_empty() { Rules::None } else { Rules::Precompiled(Precompiled::new(map)?) };
        Ok(Normalizer::new(rules, spaces))
    }

    /// A normalizer for a Unicode form, with or without case folding.
    pub fn unicode(form: Form, fold: bool, spaces: Spaces) -> Normalizer {
        let rules = match (form, fold) {
            (Form::Identity, false) => Rules::None,
            _ => Rules::Unicode(UnicodeMap::get(form, fold)),
        };
        Normalizer::new(rules, spaces)
    }

    fn new(rules: Rules, spaces: Spaces) -> Normalizer {
        let keeps_spaces = !spaces.remove_extra && !spaces.escape;
        let ascii = |byte: usize| {
            let byte = u8::try_from(byte).ok().filter(u8::is_ascii)?;
            let goes_on = (0..128).any(|next| rules.has_prefix(&[byte, next]));
            let to = match rules.longest(&[byte]) {
                None => byte,
                Some(([to], 1)) => *to,
                Some(_) => return None,
            };
            let is_plain = to.is_ascii() && (keeps_spaces || to != b' ');
            (is_plain && !goes_on).then_some(to)
        };
        let ascii = Box::new(std::array::from_fn(|byte| ascii(byte).unwrap_or(0)));
        Normalizer { rules, spaces, ascii, kept: None }
    }

    pub(crate) fn keeping(self, kept: Option<Trie>) -> Normalizer {
        let ascii = if kept.is_some() { Box::new([0; 256]) } else { self.ascii };
        Normalizer { kept, ascii, ..self }
    }

    /// Appends the normalized text.
    pub fn apply(&self, text: &[u8], out: &mut Vec<u8>) {
        let Spaces { dummy_prefix, as_suffix, remove_extra, escape } = self.spaces;
        let (begin, mut rest) = (out.len(), text);
        let space = if escape { SPACE_SYMBOL } else { b" " };
        if remove_extra {
            while let (b" ", used) = self.prefix(rest) {
                rest = &rest[used..];
            }
        }
        if rest.is_empty() {
            return;
        }
        if dummy_prefix && !as_suffix {
            out.extend_from_slice(space);
        }
        let mut after_space = remove_extra;
        while !rest.is_empty() {
            let run = self.ascii_run(rest);
            if run > 0 {
                out.extend(rest[..run].iter().map(|byte| self.ascii[usize::from(*byte)]));
                rest = &rest[run..];
                after_space = false;
                continue;
            }
            let (mut piece, used) = self.prefix(rest);
            rest = &rest[used..];
            while let (true, Some(behind)) = (after_space, piece.strip_prefix(b" ")) {
                piece = behind;
            }
            for byte in piece {
                match byte {
                    b' ' => out.extend_from_slice(space),
                    _ => out.push(*byte),
                }
            }
            if let Some(last) = piece.last() {
                after_space = remove_extra && *last == b' ';
            }
        }
        while remove_extra && out[begin..].ends_with(space) {
            out.truncate(out.len() - space.len());
        }
        if dummy_prefix && as_suffix {
            out.extend_from_slice(space);
        }
    }

    /// The number of leading bytes that are rewritten one by one.
    fn ascii_run(&self, text: &[u8]) -> usize {
        let is_plain = |byte: &&u8| self.ascii[usize::from(**byte)] != 0;
        let len = text.iter().take_while(is_plain).count();
        // The next character may be composed with the last byte.
        len - usize::from(len > 0 && text.get(len).is_some_and(|byte| !byte.is_ascii()))
    }

    /// The replacement of the start of `text`, and the length it replaces.
    fn prefix<'t>(&'t self, text: &'t [u8]) -> (&'t [u8], usize) {
        if let Some((len, _)) = self.kept.as_ref().and_then(|kept| kept.longest(text)) {
            return (&text[..len], len);
        }
        self.rules.longest(text).unwrap_or_else(|| match first_char(text) {
            Some(own) => (own, own.len()),
            None if text.is_empty() => (text, 0),
            None => (REPLACEMENT, 1),
        })
    }
}

/// A double-array trie compiled by SentencePiece, and the texts that its values point to.
#[derive(Debug)]
struct Precompiled {
    units: Vec<u32>,
    texts: Vec<u8>,
}

/// The most rules with a common prefix; SentencePiece finds no more.
const MOST_RULES: usize = 32;

impl Precompiled {
    fn new(map: &[u8]) -> Result<Precompiled, TextError> {
        let damaged = || TextError::new("the precompiled map is damaged");
        let (size, rest) = map.split_first_chunk::<4>().ok_or_else(damaged)?;
        let size = u32::from_le_bytes(*size) as usize;
        if size > rest.len() || !size.is_multiple_of(4) {
            return Err(damaged());
        }
        let (units, texts) = rest.split_at(size);
        let units = units.as_chunks().0.iter().map(|unit| u32::from_le_bytes(*unit)).collect();
        Ok(Precompiled { units, texts: texts.to_vec() })
    }

    fn unit(&self, at: u32) -> Option<u32> {
        self.units.get(at as usize).copied()
    }

    fn has_prefix(&self, prefix: &[u8]) -> bool {
        let mut at = self.unit(0).map(offset);
        prefix.iter().all(|byte| {
            at = at.and_then(|at| {
                let at = at ^ u32::from(*byte);
                let unit = self.unit(at).filter(|unit| is_of(*unit, *byte))?;
                Some(at ^ offset(unit))
            });
            at.is_some()
        })
    }

    fn longest(&self, text: &[u8]) -> Option<(&[u8], usize)> {
        let mut at = offset(self.unit(0)?);
        let (mut found, mut count) = (None, 0);
        for (len, byte) in (1..).zip(text) {
            at ^= u32::from(*byte);
            let Some(unit) = self.unit(at) else { break };
            if !is_of(unit, *byte) {
                break;
            }
            at ^= offset(unit);
            if unit & 0x100 != 0 && count < MOST_RULES {
                let Some(leaf) = self.unit(at) else { break };
                (found, count) = (Some((leaf & 0x7FFF_FFFF, len)), count + 1);
            }
        }
        let (value, len) = found?;
        let text = self.texts.get(value as usize..)?;
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        Some((&text[..end], len))
    }
}

/// The distance from a unit to its children.
fn offset(unit: u32) -> u32 {
    (unit >> 10) << ((unit & 0x200) >> 6)
}

/// Whether a unit is the child for `byte`.
fn is_of(unit: u32, byte: u8) -> bool {
    unit & 0x8000_00FF == u32::from(byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normalize(form: Form, fold: bool, spaces: Spaces, text: &str) -> String {
        let mut out = Vec::new();
        Normalizer::unicode(form, fold, spaces).apply(text.as_bytes(), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn forms() {
        let plain = Spaces::default();
        for (form, fold, text, expected) in [
            (Form::Nfd, true, "Ä가İ", "a\u{308}\u{1100}\u{1161}i\u{307}"),
            (Form::Nfc, false, "e\u{301}\u{1100}\u{1161}\u{11a8}", "\u{e9}\u{ac01}"),
            (Form::Nfkc, false, "ﬁ①Ａ\u{ff8a}\u{ff9f}", "fi1Aパ"),
            (Form::Nfkd, false, "ﬁé", "fie\u{301}"),
            (Form::Identity, true, "ÀΣẞ", "àσß"),
            // No rule composes characters that are already partly composed.
            (Form::Nfc, false, "â\u{300}", "â\u{300}"),
        ] {
            assert_eq!(normalize(form, fold, plain, text), expected, "{form:?} of {text}");
        }
    }

    /// Runs of ASCII are rewritten like their characters one by one, whatever follows them.
    #[test]
    fn runs_of_ascii() {
        let cut = Spaces { remove_extra: true, ..Spaces::default() };
        for (form, fold, spaces, text, expected) in [
            (Form::Nfc, true, Spaces::default(), "AbC De\u{301}F", "abc d\u{e9}f"),
            (Form::Nfd, true, Spaces::default(), "Ab\u{e9}X", "abe\u{301}x"),
            (Form::Nfc, false, cut, " a  b c ", "a b c"),
            (Form::Identity, true, cut, "A \u{c9}", "a \u{e9}"),
        ] {
            assert_eq!(normalize(form, fold, spaces, text), expected, "{text}");
        }
    }

    #[test]
    fn spaces() {
        let all = Spaces { dummy_prefix: true, remove_extra: true, escape: true, as_suffix: false };
        assert_eq!(normalize(Form::Identity, false, all, "  a   b "), "▁a▁b");
        assert_eq!(normalize(Form::Identity, false, all, "   "), "");
        let suffix = Spaces { as_suffix: true, ..all };
        assert_eq!(normalize(Form::Identity, false, suffix, " a"), "a▁");
    }

    #[test]
    fn damaged_maps() {
        for map in [&b"\x01"[..], b"\xFF\0\0\0", b"\x04\0\0\0\xFF\xFF\xFF\xFFa"] {
            if let Ok(normalizer) = Normalizer::precompiled(map, Spaces::default()) {
                normalizer.apply(b"abc", &mut Vec::new());
            }
        }
    }
}
