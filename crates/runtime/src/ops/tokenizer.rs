//! Tokenizers of words.

use crate::kernel::text::{TextCx, at, in_pieces, rows_of_strings, tensor, text_kernel};
use crate::prelude::*;
use infer::ops::tokenizer::{Algorithm, Tokenizer};
use std::ops::Range;
use tokenize::bpe::{self, Bpe, Merges};
use tokenize::unigram::Unigram;
use tokenize::wordpiece::Wordpiece;
use tokenize::{Strings, Trie};

impl Lower for Tokenizer {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        Ok(match self.algorithm().clone() {
            Algorithm::Bpe { unknown, end_suffix, byte_fallback } => {
                let options = bpe::Options { unknown, end_suffix, byte_fallback };
                text_kernel(cx, "byte-pair encoding", move |cx| run_bpe(cx, &options))
            }
            Algorithm::Wordpiece { suffix_indicator, max_bytes_per_word } => {
                text_kernel(cx, "wordpiece", move |cx| {
                    let made = cx.made_of(5..8, || {
                        Ok(Wordpiece::new(cx.strings(5)?, &suffix_indicator, max_bytes_per_word))
                    })?;
                    // The extension reads the lower half of an i64.
                    let unknown = cx.int(8)? as i32;
                    tokenize(cx, |words, out| {
                        words.each(out, |word, ids| made.tokenize(word, unknown, ids));
                    })
                })
            }
            Algorithm::Unigram { unknown } => text_kernel(cx, "unigram", move |cx| {
                let made =
                    cx.made_of(5..9, || Ok(Unigram::new(cx.strings(5)?, cx.f32s(8), unknown)))?;
                tokenize(cx, |words, out| {
                    let mut scratch = Vec::new();
                    words.each(out, |word, ids| made.tokenize(word, &mut scratch, ids));
                })
            }),
            Algorithm::Trie => text_kernel(cx, "longest tokens", |cx| {
                let made = cx.made_of(5..9, || {
                    Ok(Trie::new(cx.strings(5)?.iter().zip(cx.i32s(8).iter().copied())))
                })?;
                tokenize(cx, |words, out| words.each(out, |word, ids| longest(&made, word, ids)))
            }),
        })
    }
}

/// Greedy longest matches. The first position without a match ends the word, as in the extension.
fn longest(tokens: &Trie, word: &[u8], out: &mut Vec<i32>) {
    let mut rest = word;
    while let Some((len, token)) = tokens.longest(rest) {
        out.push(token);
        rest = &rest[len..];
    }
}

fn run_bpe(cx: &TextCx<'_, '_>, options: &bpe::Options) -> Result<Vec<Tensor>, KernelError> {
    let count = cx.input_count();
    let made = cx.made_of(5..count, || {
        let merges = match count {
            14 | 18 => Merges::Pairs(cx.strings(8)?, cx.strings(11)?),
            _ => Merges::Joined(cx.strings(8)?),
        };
        let added = match count {
            15 | 18 => Some((cx.strings(count - 4)?, cx.i32s(count - 1))),
            _ => None,
        };
        at(5, Bpe::new(cx.strings(5)?, merges, added, options))
    })?;
    tokenize(cx, |words, out| {
        let mut scratch = (bpe::Scratch::default(), bpe::Cache::default());
        words.each(out, |word, ids| made.tokenize_again(word, &mut scratch, ids));
    })
}

/// Some of the words.
struct Words<'w> {
    strings: Strings<'w>,
    order: &'w [usize],
}

/// Tokens, and their number up to the end of each word.
#[derive(Default)]
struct Tokens {
    ids: Vec<i32>,
    counts: Vec<usize>,
}

impl<'w> Words<'w> {
    fn each(&self, out: &mut Tokens, mut f: impl FnMut(&'w [u8], &mut Vec<i32>)) {
        for &index in self.order {
            f(self.strings.get(index), &mut out.ids);
            out.counts.push(out.ids.len());
        }
    }
}

/// Tokenizes the words of all rows, divided among the threads.
fn tokenize(
    cx: &TextCx<'_, '_>,
    f: impl Fn(&Words<'_>, &mut Tokens) + Sync,
) -> Result<Vec<Tensor>, KernelError> {
    let strings = cx.strings(2)?;
    let rows = cx.rows(0, strings.len())?;
    let order: Vec<usize> = rows.iter().flatten().collect();
    let pieces = in_pieces(cx.threads(), order.len(), strings.total(), |range: Range<usize>| {
        let mut tokens = Tokens::default();
        f(&Words { strings, order: &order[range] }, &mut tokens);
        tokens
    });
    let mut all = Tokens::default();
    for piece in pieces {
        let before = all.ids.len();
        all.counts.extend(piece.counts.iter().map(|count| before + count));
        all.ids.extend(piece.ids);
    }
    let (begins, ends) = rows_of_strings(&rows, &all.counts);
    let count = all.ids.len();
    Ok(vec![tensor(cx.sizes(0), begins)?, tensor(cx.sizes(0), ends)?, tensor(&[count], all.ids)?])
}
