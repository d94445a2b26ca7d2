//! Streaming detokenization.

use crate::error::Error;

/// Decodes tokens to text one by one. A token may be part of a character, and its text may depend
/// on the token before it, so the last few tokens are decoded together.
#[derive(Default)]
pub(crate) struct StreamDecoder {
    window: Vec<i64>,
    /// Bytes of the window's text that were already returned.
    told: usize,
}

/// The window is cut to this many tokens.
const CONTEXT: usize = 8;
/// From this many tokens on it is cut, if a character ends there.
const CUT_AT_CHARACTER: usize = 16;
/// From this many tokens on it is cut anywhere.
const CUT_ANYWHERE: usize = 64;
/// The most bytes of an incomplete character.
const INCOMPLETE: usize = 3;

impl StreamDecoder {
    /// The text that a token adds, without an incomplete character at the end.
    pub(crate) fn push(
        &mut self,
        token: i64,
        decode: &mut dyn FnMut(&[i64]) -> Result<String, Error>,
    ) -> Result<String, Error> {
        self.window.push(token);
        let text = decode(&self.window)?;
        let certain = complete(&text);
        let piece = text.get(self.told..certain).unwrap_or_default().to_owned();
        let whole = certain == text.len();
        if whole && certain > 0 && certain == self.told {
            // A special token has no text, and would only fill the window.
            self.window.pop();
        }
        self.told = self.told.max(certain);
        if self.window.len() >= CUT_ANYWHERE || whole && self.window.len() >= CUT_AT_CHARACTER {
            self.window.drain(..self.window.len() - CONTEXT);
            self.told = complete(&decode(&self.window)?);
        }
        Ok(piece)
    }

    /// The remaining text, after the last token.
    pub(crate) fn rest(
        &mut self,
        decode: &mut dyn FnMut(&[i64]) -> Result<String, Error>,
    ) -> Result<String, Error> {
        let text = decode(&self.window)?;
        Ok(text.get(self.told..).unwrap_or_default().to_owned())
    }
}

/// Length of a text without an incomplete character at its end: up to three U+FFFD, which stand for
/// its first bytes.
fn complete(text: &str) -> usize {
    let bytes = text.chars().rev().take(INCOMPLETE).take_while(|c| *c == '\u{FFFD}');
    text.len() - bytes.map(char::len_utf8).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each token is a byte.
    fn decode(tokens: &[i64]) -> Result<String, Error> {
        let bytes: Vec<u8> = tokens.iter().map(|t| *t as u8).collect();
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn pieces(text: &[u8]) -> Vec<String> {
        let mut decoder = StreamDecoder::default();
        let tokens = text.iter().map(|byte| i64::from(*byte));
        let mut pieces: Vec<String> =
            tokens.map(|token| decoder.push(token, &mut decode).unwrap()).collect();
        pieces.push(decoder.rest(&mut decode).unwrap());
        pieces
    }

    #[test]
    fn whole_characters() {
        let expected = ["a", "", "é", "", "", "", "😀", "b", ""];
        assert_eq!(pieces("aé😀b".as_bytes()), expected);
    }

    #[test]
    fn the_pieces_are_the_text() {
        let text = "Größe, 你好世界! 😀🚀 and so on. ".repeat(20);
        assert_eq!(pieces(text.as_bytes()).concat(), text);
        // A character that is never completed.
        assert_eq!(pieces(b"ab\xF0\x9F").concat(), "ab\u{FFFD}");
    }

    #[test]
    fn bytes_that_are_no_text_do_not_stop_it() {
        let text = [vec![0x80; 300], b"end".to_vec()].concat();
        let pieces = pieces(&text);
        assert!(pieces[100].contains('\u{FFFD}'), "{pieces:?}");
        assert!(pieces.concat().ends_with("end"));
    }

    /// A decoder that drops special tokens and the space before the first token, as SentencePiece
    /// does.
    #[test]
    fn spaces_between_tokens_stay() {
        let words = ["▁the", "▁", "▁rat", "s", "▁are"];
        let mut decode = |tokens: &[i64]| {
            let plain = tokens.iter().filter(|token| **token % 40 < 20);
            let text: String = plain.map(|t| words[*t as usize % 5]).collect();
            let text = text.replace('▁', " ");
            Ok(text.strip_prefix(' ').unwrap_or(&text).to_owned())
        };
        let mut decoder = StreamDecoder::default();
        let tokens: Vec<i64> = (0..100).collect();
        let text: String =
            tokens.iter().map(|token| decoder.push(*token, &mut decode).unwrap()).collect();
        assert_eq!(text, decode(&tokens).unwrap());
    }
}
