//! Splitting of texts: at special tokens, and by patterns.

use crate::regex::{Pattern, Text};

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

/// A rule that splits texts.
#[derive(Debug)]
pub struct Splitter {
    pattern: Pattern,
    behaviour: Behaviour,
    invert: bool,
    max_splits: Option<usize>,
}

impl Splitter {
    /// Splits by a pattern; `invert` swaps the roles of matches and the text in between.
    pub fn new(
        pattern: &str,
        behaviour: Behaviour,
        invert: bool,
        max_splits: Option<usize>,
    ) -> Splitter {
        let pattern = if behaviour == Behaviour::Contiguous && !pattern.ends_with('+') {
            Pattern::new(&format!("({pattern})+"))
        } else {
            Pattern::new(pattern)
        };
        Splitter { pattern, behaviour, invert, max_splits }
    }

    /// Calls `piece` with the range of each piece of a text. The first empty match ends the search.
    pub fn split(&self, text: &[u8], piece: impl FnMut(usize, usize)) {
        let found = Text::new(text);
        let mut pieces = Pieces { splitter: self, len: text.len(), count: 0, pending: None, piece };
        let mut start = 0;
        while let Some((begin, end)) = self.pattern.find(&found, start).filter(|(b, e)| b < e) {
            if begin != start {
                pieces.add(start, begin, self.invert);
            }
            pieces.add(begin, end, !self.invert);
            start = end;
        }
        if start < text.len() {
            pieces.add(start, text.len(), self.invert);
        } else if self.behaviour == Behaviour::MergedWithNext && pieces.pending != Some(text.len())
        {
            pieces.add(pieces.pending.unwrap_or(0), text.len(), self.invert);
        }
    }
}

struct Pieces<'s, F> {
    splitter: &'s Splitter,
    len: usize,
    count: usize,
    /// The begin of a piece that waits for its other half. Not cleared when that comes.
    pending: Option<usize>,
    piece: F,
}

impl<F: FnMut(usize, usize)> Pieces<'_, F> {
    fn add(&mut self, mut begin: usize, mut end: usize, is_match: bool) {
        match (self.splitter.behaviour, is_match) {
            (Behaviour::Remove, true) => return,
            (Behaviour::MergedWithPrevious, false) if end != self.len => {
                self.pending = Some(begin);
                return;
            }
            (Behaviour::MergedWithPrevious, true) => begin = self.pending.unwrap_or(0),
            (Behaviour::MergedWithNext, true) => {
                self.pending = Some(begin);
                return;
            }
            (Behaviour::MergedWithNext, false) => begin = self.pending.unwrap_or(begin),
            _ => {}
        }
        // The piece with this index is extended to the end of the text; later pieces follow
        // nevertheless.
        if self.splitter.max_splits == Some(self.count) {
            end = self.len;
        }
        self.count += 1;
        (self.piece)(begin, end);
    }
}

/// Special tokens in texts.
#[derive(Debug)]
pub struct SpecialTokens {
    pattern: Pattern,
}

impl SpecialTokens {
    /// Special tokens by a pattern. If it has a group, only the group is the token.
    pub fn new(pattern: &str) -> SpecialTokens {
        SpecialTokens { pattern: Pattern::new(pattern) }
    }

    /// Calls `piece` with the range of each piece, and whether it is a special token.
    pub fn split(&self, text: &[u8], mut piece: impl FnMut(usize, usize, bool)) {
        let found = Text::new(text);
        let mut start = 0;
        while let Some(((begin, end), group)) = self.pattern.find_with_group(&found, start) {
            if begin == end {
                break;
            }
            if start < begin {
                piece(start, begin, false);
            }
            let (from, to) = group.filter(|(from, to)| from < to).unwrap_or((begin, end));
            piece(from, to, true);
            start = end;
        }
        if start < text.len() {
            piece(start, text.len(), false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Behaviour::*;

    fn split(behaviour: Behaviour, invert: bool, max: Option<usize>, text: &str) -> Vec<String> {
        let mut pieces = Vec::new();
        let splitter = Splitter::new("-", behaviour, invert, max);
        splitter.split(text.as_bytes(), |begin, end| pieces.push(text[begin..end].to_owned()));
        pieces
    }

    #[test]
    fn behaviours() {
        let text = "the-final--countdown";
        assert_eq!(split(Remove, false, None, text), ["the", "final", "countdown"]);
        assert_eq!(split(Remove, true, None, text), ["-", "-", "-"]);
        assert_eq!(split(Isolate, false, None, "a--b"), ["a", "-", "-", "b"]);
        assert_eq!(split(Contiguous, false, None, "a--b"), ["a", "--", "b"]);
        assert_eq!(split(MergedWithPrevious, false, None, "a-b-"), ["a-", "b-"]);
        assert_eq!(split(MergedWithNext, false, None, "a-b-"), ["a", "-b", "-"]);
        assert_eq!(split(Remove, false, Some(1), "a-b-c"), ["a", "b-c", "c"]);
    }

    #[test]
    fn special_tokens() {
        let mut pieces = Vec::new();
        let text = "a <s> b<s>";
        let tokens = SpecialTokens::new(r"(?:\s*)(<s>)(?:\s*)");
        tokens.split(text.as_bytes(), |b, e, special| pieces.push((&text[b..e], special)));
        assert_eq!(pieces, [("a", false), ("<s>", true), ("b", false), ("<s>", true)]);
    }
}
