//! SentencePiece tokenizer and detokenizer.

use crate::kernel::text::{TextCx, at, in_pieces, packed, tensor, text_kernel};
use crate::prelude::*;
use infer::ops::sentencepiece::{Kind, Sentencepiece};
use std::sync::Arc;
use tokenize::sentencepiece::{Encoder, Ends, Model};
use tokenize::{Packed, Strings};

impl Lower for Sentencepiece {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let ends = Ends { begin: self.add_bos(), end: self.add_eos(), reverse: self.reverse() };
        Ok(match self.kind() {
            Kind::Tokenizer => text_kernel(cx, "sentencepiece", move |cx| encode(cx, ends)),
            Kind::Detokenizer => {
                text_kernel(cx, "sentencepiece to text", |cx| decode(cx, Model::decode))
            }
            Kind::StreamDetokenizer => {
                text_kernel(cx, "sentencepiece to bytes", |cx| decode(cx, Model::decode_stream))
            }
        })
    }
}

fn decode(
    cx: &TextCx<'_, '_>,
    decode: impl Fn(&Model, &[i32], &mut Vec<u8>),
) -> Result<Vec<Tensor>, KernelError> {
    let model = cx.made_of(0..1, || at(0, Model::new(cx.bytes(0))))?;
    let ids: Vec<i32> = cx.ints(1).iter().map(|id| i32::try_from(*id).unwrap_or(-1)).collect();
    let &[rows, len] = cx.sizes(1) else { return Err(KernelError::at(1, "must have rank 2")) };
    let mut text = Packed::default();
    for row in 0..rows {
        text.push_with(|chars| decode(&model, &ids[row * len..(row + 1) * len], chars));
    }
    packed(&[rows], text)
}

fn encode(cx: &TextCx<'_, '_>, ends: Ends) -> Result<Vec<Tensor>, KernelError> {
    let count = cx.input_count();
    let special = count >= 6;
    // The text input lies between the model and the special tokens.
    let encoder = model(cx, special.then(|| count - 4), ends)?;
    let own;
    let strings: Strings<'_> = if count == 2 || count == 6 {
        let strings = cx.tensor(1).as_strings().unwrap_or_default();
        own = strings.iter().map(|s| s.as_bytes()).collect::<Packed>();
        own.strings()
    } else {
        cx.strings(1)?
    };
    let pieces = in_pieces(cx.threads(), strings.len(), strings.total(), |range| {
        let encode = |index| {
            let mut ids = Vec::new();
            encoder.encode(strings.get(index), &mut ids);
            ids
        };
        range.map(encode).collect::<Vec<_>>()
    });
    sparse(pieces.into_iter().flatten().collect())
}

/// The model, and the special tokens that begin at an input, if there are any.
fn model(
    cx: &TextCx<'_, '_>,
    special: Option<usize>,
    ends: Ends,
) -> Result<Arc<Encoder>, KernelError> {
    let fixed = special.map_or(0..1, |_| 0..cx.input_count());
    let make = || {
        let model = at(0, Model::new(cx.bytes(0)))?;
        let special = match special {
            Some(input) => Some((cx.strings(input)?, cx.i32s(input + 3))),
            None => None,
        };
        Ok(Encoder::new(model, special, ends))
    };
    match special {
        // The text is no constant, but the inputs on both sides of it are.
        Some(input) if cx.are_fixed(0..1) => cx.made_of(input..cx.input_count(), make),
        _ => cx.made_of(fixed, make),
    }
}

/// Rows as a sparse tensor: indices, values and dense shape.
fn sparse(rows: Vec<Vec<i32>>) -> Result<Vec<Tensor>, KernelError> {
    let longest = rows.iter().map(Vec::len).max().unwrap_or(0);
    let positions =
        |(row, ids): (i64, &Vec<i32>)| (0..ids.len() as i64).flat_map(move |at| [row, at]);
    let indices: Vec<i64> = (0..).zip(&rows).flat_map(positions).collect();
    let sizes = vec![rows.len() as i64, longest as i64];
    let values: Vec<i32> = rows.into_iter().flatten().collect();
    Ok(vec![
        tensor(&[values.len(), 2], indices)?,
        tensor(&[values.len()], values)?,
        tensor(&[2], sizes)?,
    ])
}
