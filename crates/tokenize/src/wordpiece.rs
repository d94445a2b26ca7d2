//! WordPiece: greedy longest pieces from left to right.

use crate::strings::Strings;
use crate::trie::Trie;

/// A vocabulary of pieces at the start of words and of pieces inside of words.
#[derive(Debug)]
pub struct Wordpiece {
    first: Trie,
    following: Trie,
    most_bytes: usize,
}

impl Wordpiece {
    /// A tokenizer with these pieces; those inside of words begin with `suffix_indicator`.
    pub fn new(tokens: Strings<'_>, suffix_indicator: &str, most_bytes: usize) -> Wordpiece {
        let (mut first, mut following) = (Vec::new(), Vec::new());
        for (token, id) in tokens.iter().zip(0..) {
            match token.strip_prefix(suffix_indicator.as_bytes()) {
                Some(rest) => following.push((rest, id)),
                None => first.push((token, id)),
            }
        }
        Wordpiece { first: Trie::new(first), following: Trie::new(following), most_bytes }
    }

    /// Appends the pieces of a word, or the unknown piece if no segmentation is found.
    pub fn tokenize(&self, word: &[u8], unknown: i32, out: &mut Vec<i32>) {
        let begin = out.len();
        if self.pieces(word, out).is_none() {
            out.truncate(begin);
            out.push(unknown);
        }
    }

    fn pieces(&self, word: &[u8], out: &mut Vec<i32>) -> Option<()> {
        (word.len() <= self.most_bytes).then_some(())?;
        let (mut rest, mut pieces) = (word, &self.first);
        loop {
            let (len, token) = pieces.longest(rest)?;
            out.push(token);
            (rest, pieces) = (&rest[len..], &self.following);
            if rest.is_empty() {
                return Some(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strings::Packed;

    #[test]
    fn pieces() {
        let vocabulary: Packed = ["?", "a", "ab", "##c", "##cd"].iter().collect();
        let wordpiece = Wordpiece::new(vocabulary.strings(), "##", 6);
        let tokens = |word: &str| {
            let mut out = Vec::new();
            wordpiece.tokenize(word.as_bytes(), 0, &mut out);
            out
        };
        assert_eq!(tokens("abcd"), [2, 4]);
        assert_eq!(tokens("acc"), [1, 3, 3]);
        assert_eq!(tokens("abx"), [0]);
        assert_eq!(tokens("c"), [0]);
        assert_eq!(tokens("acccccc"), [0]);
    }
}
