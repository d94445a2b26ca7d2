//! Text to tokens and back, by the rules of OpenVINO Tokenizers: slices of bytes in, slices of
//! bytes and numbers out. Knows no graph and no tensor.
//!
//! Strings are contiguous in one byte buffer, [`Strings`]; rows of them are [`Rows`].

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod bpe;
pub mod bytes;
pub mod charsmap;
mod error;
pub mod hash;
pub mod number;
pub mod ragged;
pub mod regex;
pub mod sentencepiece;
pub mod split;
mod strings;
mod trie;
mod unicode;
pub mod unigram;
pub mod vocab;
pub mod wordpiece;

pub use error::TextError;
pub use strings::{Packed, Rows, Strings};
pub use trie::Trie;
