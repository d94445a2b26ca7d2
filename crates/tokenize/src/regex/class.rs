//! Patterns that are a single character class, or a run of one. ASCII bytes are looked up in a
//! table, without an automaton.

use regex_syntax::hir::{Class as Set, ClassUnicode, ClassUnicodeRange, Hir, HirKind};

/// A class of characters.
#[derive(Debug)]
pub(super) struct Class {
    /// For each byte whether a match may begin there; for ASCII whether it does.
    may_match: [bool; 256],
    /// Its characters, as sorted inclusive ranges.
    ranges: Vec<(char, char)>,
    /// Whether a match extends over a run of characters.
    is_run: bool,
}

impl Class {
    /// A class, a run of one, or either in a group; `None` for other patterns.
    pub(super) fn new(pattern: &str) -> Option<Class> {
        let hir = regex_syntax::parse(pattern).ok()?;
        let hir = match hir.kind() {
            HirKind::Capture(group) => &*group.sub,
            _ => &hir,
        };
        let (hir, is_run) = match hir.kind() {
            HirKind::Repetition(run) if (run.min, run.max, run.greedy) == (1, None, true) => {
                (&*run.sub, true)
            }
            _ => (hir, false),
        };
        let set = characters(hir)?;
        let ranges: Vec<_> = set.ranges().iter().map(|r| (r.start(), r.end())).collect();
        let is_in =
            |byte: u8| ranges.iter().any(|(low, high)| (*low..=*high).contains(&(byte as char)));
        let may_match = std::array::from_fn(|byte| match u8::try_from(byte) {
            Ok(byte) if byte.is_ascii() => is_in(byte),
            _ => true,
        });
        Some(Class { may_match, ranges, is_run })
    }

    /// The first match that begins at or after `from`.
    pub(super) fn find(&self, text: &str, from: usize) -> Option<(usize, usize)> {
        let mut at = from;
        loop {
            let rest = text.get(at..)?;
            at += rest.bytes().position(|byte| self.may_match[usize::from(byte)])?;
            let first = text.get(at..)?.chars().next()?;
            let end = at + first.len_utf8();
            if self.contains(first) {
                return Some((at, if self.is_run { self.end(text, end) } else { end }));
            }
            at = end;
        }
    }

    /// The end of the run that reaches `at`.
    fn end(&self, text: &str, at: usize) -> usize {
        let rest = text.get(at..).unwrap_or_default();
        let other = rest.char_indices().find(|(_, c)| !self.contains(*c));
        other.map_or(text.len(), |(len, _)| at + len)
    }

    fn contains(&self, c: char) -> bool {
        if c.is_ascii() {
            return self.may_match[c as usize];
        }
        let behind = self.ranges.partition_point(|(low, _)| *low <= c);
        behind.checked_sub(1).is_some_and(|at| c <= self.ranges[at].1)
    }
}

/// The characters that an expression matches, if it always matches one character.
fn characters(hir: &Hir) -> Option<ClassUnicode> {
    match hir.kind() {
        HirKind::Class(Set::Unicode(set)) => Some(set.clone()),
        HirKind::Class(Set::Bytes(set)) => set.to_unicode_class(),
        HirKind::Literal(literal) => {
            let mut chars = std::str::from_utf8(&literal.0).ok()?.chars();
            let only = chars.next().filter(|_| chars.as_str().is_empty())?;
            Some(ClassUnicode::new([ClassUnicodeRange::new(only, only)]))
        }
        HirKind::Alternation(all) => {
            let mut union = ClassUnicode::empty();
            for hir in all {
                union.union(&characters(hir)?);
            }
            Some(union)
        }
        _ => None,
    }
}
