//! Decoding: pieces to text.

use super::model::{Kind, Model};
use crate::bytes::{REPLACEMENT, fall_back, first_char, of_token};
use crate::charsmap::SPACE_SYMBOL;

impl Model {
    /// Appends the text of pieces; invalid ids are dropped.
    pub fn decode(&self, ids: &[i32], out: &mut Vec<u8>) {
        let mut text = Vec::new();
        let mut bytes = Vec::new();
        let (mut at_begin, mut seen_space) = (true, false);
        for (id, piece) in ids.iter().filter_map(|id| Some((id, self.piece(*id)?))) {
            if piece.kind == Kind::Byte {
                bytes.extend(of_token(&piece.text));
                continue;
            }
            flush(&mut bytes, &mut text);
            at_begin &= !seen_space && text.is_empty();
            seen_space = self.append(*id, at_begin, &mut text);
        }
        flush(&mut bytes, &mut text);
        match &self.denormalizer {
            Some(rules) => rules.apply(&text, out),
            None => out.extend_from_slice(&text),
        }
    }

    /// Appends a piece. Returns whether the space that encoding adds before a text was removed from
    /// it.
    fn append(&self, id: i32, at_begin: bool, text: &mut Vec<u8>) -> bool {
        let Some(piece) = self.piece(id) else { return false };
        match piece.kind {
            Kind::Control => return false,
            Kind::Unknown => {
                text.extend_from_slice(&self.trainer.unknown_surface);
                return false;
            }
            _ => {}
        }
        let strips = at_begin && (self.spaces.dummy_prefix || self.spaces.remove_extra);
        let stripped = piece.text.strip_prefix(SPACE_SYMBOL).filter(|_| strips);
        unescape(stripped.unwrap_or(&piece.text), text);
        stripped.is_some() && !self.spaces.remove_extra
    }

    /// Appends pieces unchanged; byte pieces as bytes.
    pub fn decode_stream(&self, ids: &[i32], out: &mut Vec<u8>) {
        for piece in ids.iter().filter_map(|id| self.piece(*id)) {
            fall_back(&piece.text, out);
        }
    }
}

fn unescape(piece: &[u8], text: &mut Vec<u8>) {
    let mut rest = piece;
    while let Some(first) = rest.first() {
        match rest.strip_prefix(SPACE_SYMBOL) {
            Some(behind) => {
                text.push(b' ');
                rest = behind;
            }
            None => {
                text.push(*first);
                rest = &rest[1..];
            }
        }
    }
}

/// Appends bytes as characters, with a replacement character for each that is not valid UTF-8.
fn flush(bytes: &mut Vec<u8>, text: &mut Vec<u8>) {
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let (own, used) = first_char(rest).map_or((REPLACEMENT, 1), |own| (own, own.len()));
        text.extend_from_slice(own);
        rest = &rest[used..];
    }
    bytes.clear();
}
