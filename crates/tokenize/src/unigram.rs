//! Unigram: the most likely segmentation of a text, by a score per token.

use crate::bytes::char_len;
use crate::strings::Strings;
use crate::trie::Trie;

/// A vocabulary with a score per token.
#[derive(Debug)]
pub struct Unigram {
    tokens: Trie,
    scores: Vec<f32>,
    unknown: i32,
    unknown_score: f32,
}

/// The score of unknown characters is this much below the lowest score of a token.
pub(crate) const UNKNOWN_PENALTY: f32 = 10.0;

/// The best segmentation up to a position in the text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Best {
    pub(crate) token: i32,
    pub(crate) score: f32,
    /// The begin of its last token; `None` if the position is not reachable.
    pub(crate) begin: Option<usize>,
}

impl Best {
    pub(crate) const NONE: Best = Best { token: -1, score: 0.0, begin: None };
}

impl Unigram {
    /// A tokenizer of tokens and their scores.
    pub fn new(tokens: Strings<'_>, scores: &[f32], unknown: i32) -> Unigram {
        let least = scores.iter().copied().fold(f32::MAX, f32::min);
        // Of equal tokens the first counts.
        let mut numbered: Vec<(&[u8], i32)> = tokens.iter().zip(0..).collect();
        numbered.reverse();
        Unigram {
            tokens: Trie::new(numbered),
            scores: scores.to_vec(),
            unknown,
            unknown_score: (f64::from(least) - f64::from(UNKNOWN_PENALTY)) as f32,
        }
    }

    /// Appends the tokens of a text.
    pub fn tokenize(&self, text: &[u8], scratch: &mut Vec<Place>, out: &mut Vec<i32>) {
        let best = scratch;
        best.clear();
        best.resize(text.len() + 1, Place(Best { token: self.unknown, ..Best::NONE }));
        let mut begin = 0;
        while begin < text.len() {
            let so_far = best[begin].0.score;
            let char_len = char_len(&text[begin..]);
            let mut has_char = false;
            for (len, token) in self.tokens.prefixes(&text[begin..]) {
                let score = self.scores.get(token as usize).copied().unwrap_or(0.0) + so_far;
                best[begin + len].take(Best { token, score, begin: Some(begin) });
                has_char |= len == char_len;
            }
            if !has_char {
                let score = self.unknown_score + so_far;
                let way = Best { token: self.unknown, score, begin: Some(begin) };
                best[begin + char_len].take(way);
            }
            begin += char_len;
        }
        self.trace(best, text.len(), out);
    }

    /// Appends the tokens of the best segmentation; consecutive unknown tokens are merged.
    fn trace(&self, best: &[Place], len: usize, out: &mut Vec<i32>) {
        let (first, mut end, mut last) = (out.len(), len, -1);
        while end > 0 {
            let Place(Best { token, begin, .. }) = best[end];
            end = begin.unwrap_or(0);
            if token != self.unknown || last != self.unknown {
                out.push(token);
                last = token;
            }
        }
        out[first..].reverse();
    }
}

/// A position in a text, for the scratch memory.
#[derive(Clone, Copy, Debug)]
pub struct Place(Best);

impl Place {
    fn take(&mut self, way: Best) {
        if self.0.begin.is_none() || way.score > self.0.score {
            self.0 = way;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strings::Packed;

    #[test]
    fn the_likeliest_way() {
        let vocabulary: Packed = ["?", "a", "b", "ab", "é"].iter().collect();
        let unigram = Unigram::new(vocabulary.strings(), &[0.0, -1.0, -1.0, -3.0, -1.0], 0);
        let tokens = |text: &str| {
            let mut out = Vec::new();
            unigram.tokenize(text.as_bytes(), &mut Vec::new(), &mut out);
            out
        };
        assert_eq!(tokens("ab"), [1, 2]);
        assert_eq!(tokens("éxya"), [4, 0, 1]);
        assert_eq!(tokens(""), []);
    }
}
