//! The model file, in Protocol Buffers format.

use crate::bytes::of_token;
use crate::charsmap::{Normalizer, Spaces};
use crate::error::TextError;
use crate::trie::Trie;
use foldhash::HashMap;

/// A model.
#[derive(Debug)]
pub struct Model {
    pub(super) pieces: Vec<Piece>,
    /// The ids of normal pieces.
    pub(super) normal: HashMap<Box<[u8]>, i32>,
    /// The same as a trie, for unigram models.
    pub(super) tree: Trie,
    /// User-defined pieces, which match verbatim.
    pub(super) defined: Option<Trie>,
    pub(super) bytes: Box<[i32; 256]>,
    pub(super) normalizer: Normalizer,
    pub(super) denormalizer: Option<Normalizer>,
    pub(super) trainer: Trainer,
    pub(super) spaces: Spaces,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Piece {
    pub(super) text: Box<[u8]>,
    pub(super) score: f32,
    pub(super) kind: Kind,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    #[default]
    Normal,
    Unknown,
    Control,
    UserDefined,
    Unused,
    Byte,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    Unigram,
    Bpe,
    Word,
    Char,
}

#[derive(Debug)]
pub(super) struct Trainer {
    pub(super) algorithm: Algorithm,
    pub(super) as_suffix: bool,
    pub(super) byte_fallback: bool,
    pub(super) unknown_surface: Vec<u8>,
    pub(super) unknown: i32,
    pub(super) begin: Vec<u8>,
    pub(super) end: Vec<u8>,
}

impl Model {
    /// Reads a model.
    ///
    /// # Errors
    /// When it is malformed.
    pub fn new(file: &[u8]) -> Result<Model, TextError> {
        let (mut pieces, mut trainer) = (Vec::new(), Trainer::default());
        let (mut normalizer, mut denormalizer) = (Rules::default(), None);
        for field in Fields(file) {
            match field? {
                (1, Value::Bytes(own)) => pieces.push(piece(own)?),
                (2, Value::Bytes(own)) => trainer = Trainer::new(own)?,
                (3, Value::Bytes(own)) => normalizer = Rules::new(own)?,
                (5, Value::Bytes(own)) => denormalizer = Some(Rules::new(own)?),
                _ => {}
            }
        }
        trainer.unknown = number_of(&pieces, |piece| piece.kind == Kind::Unknown).unwrap_or(0);
        Model::of(pieces, trainer, normalizer, denormalizer)
    }

    fn of(
        pieces: Vec<Piece>,
        trainer: Trainer,
        normalizer: Rules<'_>,
        denormalizer: Option<Rules<'_>>,
    ) -> Result<Model, TextError> {
        let numbered = || (0..).zip(&pieces);
        let is_normal =
            |piece: &Piece| matches!(piece.kind, Kind::Normal | Kind::UserDefined | Kind::Unused);
        let normal = numbered().filter(|(_, piece)| is_normal(piece));
        let normal: HashMap<Box<[u8]>, i32> =
            normal.map(|(id, piece)| (piece.text.clone(), id)).collect();
        let defined = numbered().filter(|(_, piece)| piece.kind == Kind::UserDefined);
        let defined: Vec<(&[u8], i32)> = defined.map(|(id, piece)| (&*piece.text, id)).collect();
        let defined = (!defined.is_empty()).then(|| Trie::new(defined));
        let mut bytes = Box::new([trainer.unknown; 256]);
        for (id, piece) in numbered().filter(|(_, piece)| piece.kind == Kind::Byte) {
            if let Some(byte) = of_token(&piece.text) {
                bytes[usize::from(byte)] = id;
            }
        }
        let spaces = Spaces { as_suffix: trainer.as_suffix, ..normalizer.spaces };
        let denormalizer = denormalizer.filter(|rules| !rules.map.is_empty());
        let denormalizer = denormalizer.map(|r| Normalizer::precompiled(r.map, Spaces::default()));
        Ok(Model {
            tree: Trie::new(normal.iter().map(|(text, id)| (&**text, *id))),
            normalizer: Normalizer::precompiled(normalizer.map, spaces)?.keeping(defined.clone()),
            denormalizer: denormalizer.transpose()?,
            pieces,
            normal,
            defined,
            bytes,
            trainer,
            spaces,
        })
    }

    /// Number of pieces.
    pub fn len(&self) -> usize {
        self.pieces.len()
    }

    /// Whether there are no pieces.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    pub(super) fn piece(&self, id: i32) -> Option<&Piece> {
        self.pieces.get(usize::try_from(id).ok()?)
    }

    /// The id of the begin-of-text piece.
    pub fn begin(&self) -> i32 {
        self.control(&self.trainer.begin)
    }

    /// The id of the end-of-text piece.
    pub fn end(&self) -> i32 {
        self.control(&self.trainer.end)
    }

    fn control(&self, text: &[u8]) -> i32 {
        let own = |piece: &Piece| piece.kind == Kind::Control && *piece.text == *text;
        number_of(&self.pieces, own).unwrap_or(-1)
    }
}

fn number_of(pieces: &[Piece], wanted: impl Fn(&Piece) -> bool) -> Option<i32> {
    pieces.iter().position(wanted).and_then(|id| i32::try_from(id).ok())
}

fn piece(message: &[u8]) -> Result<Piece, TextError> {
    let mut piece = Piece::default();
    for field in Fields(message) {
        match field? {
            (1, Value::Bytes(text)) => piece.text = text.into(),
            (2, Value::Word(score)) => piece.score = f32::from_bits(score),
            (3, Value::Int(kind)) => {
                piece.kind = match kind {
                    2 => Kind::Unknown,
                    3 => Kind::Control,
                    4 => Kind::UserDefined,
                    5 => Kind::Unused,
                    6 => Kind::Byte,
                    _ => Kind::Normal,
                }
            }
            _ => {}
        }
    }
    Ok(piece)
}

impl Default for Trainer {
    fn default() -> Trainer {
        Trainer {
            algorithm: Algorithm::Unigram,
            as_suffix: false,
            byte_fallback: false,
            unknown_surface: " \u{2047} ".into(),
            unknown: 0,
            begin: b"<s>".to_vec(),
            end: b"</s>".to_vec(),
        }
    }
}

impl Trainer {
    fn new(message: &[u8]) -> Result<Trainer, TextError> {
        let mut trainer = Trainer::default();
        for field in Fields(message) {
            match field? {
                (3, Value::Int(algorithm)) => {
                    trainer.algorithm = match algorithm {
                        2 => Algorithm::Bpe,
                        3 => Algorithm::Word,
                        4 => Algorithm::Char,
                        _ => Algorithm::Unigram,
                    }
                }
                (24, Value::Int(value)) => trainer.as_suffix = value != 0,
                (35, Value::Int(value)) => trainer.byte_fallback = value != 0,
                (44, Value::Bytes(text)) => trainer.unknown_surface = text.to_vec(),
                (46, Value::Bytes(text)) => trainer.begin = text.to_vec(),
                (47, Value::Bytes(text)) => trainer.end = text.to_vec(),
                _ => {}
            }
        }
        Ok(trainer)
    }
}

struct Rules<'f> {
    map: &'f [u8],
    spaces: Spaces,
}

impl Default for Rules<'_> {
    fn default() -> Self {
        let spaces =
            Spaces { dummy_prefix: true, remove_extra: true, escape: true, as_suffix: false };
        Rules { map: b"", spaces }
    }
}

impl<'f> Rules<'f> {
    fn new(message: &'f [u8]) -> Result<Rules<'f>, TextError> {
        let mut rules = Rules::default();
        for field in Fields(message) {
            match field? {
                (2, Value::Bytes(map)) => rules.map = map,
                (3, Value::Int(value)) => rules.spaces.dummy_prefix = value != 0,
                (4, Value::Int(value)) => rules.spaces.remove_extra = value != 0,
                (5, Value::Int(value)) => rules.spaces.escape = value != 0,
                _ => {}
            }
        }
        Ok(rules)
    }
}

enum Value<'f> {
    Int(u64),
    Word(u32),
    Bytes(&'f [u8]),
    Other,
}

/// The fields of a message, with their numbers.
struct Fields<'f>(&'f [u8]);

impl<'f> Iterator for Fields<'f> {
    type Item = Result<(u64, Value<'f>), TextError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.0 = &[];
        }
        Some(field.ok_or_else(|| TextError::new("the SentencePiece model is damaged")))
    }
}

impl<'f> Fields<'f> {
    fn field(&mut self) -> Option<(u64, Value<'f>)> {
        let key = self.int()?;
        let value = match key & 7 {
            0 => Value::Int(self.int()?),
            1 => self.take(8).map(|_| Value::Other)?,
            2 => {
                let len = usize::try_from(self.int()?).ok()?;
                Value::Bytes(self.take(len)?)
            }
            5 => Value::Word(u32::from_le_bytes(*self.take(4)?.first_chunk()?)),
            _ => return None,
        };
        Some((key >> 3, value))
    }

    fn take(&mut self, len: usize) -> Option<&'f [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn int(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= u64::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }
}
