//! Bytes as printable characters, and back (byte-level BPE).

use crate::kernel::text::{TextCx, packed, text_kernel};
use crate::prelude::*;
use infer::ops::text_bytes::{Kind, TextBytes};
use tokenize::Packed;

impl Lower for TextBytes {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        Ok(match self.kind() {
            Kind::ToChars => text_kernel(cx, "bytes to characters", to_chars),
            Kind::ToBytes => text_kernel(cx, "characters to bytes", to_bytes),
        })
    }
}

fn to_chars(cx: &TextCx<'_, '_>) -> Result<Vec<Tensor>, KernelError> {
    let strings = cx.strings(2)?;
    let skips = if cx.input_count() == 6 { cx.bytes(5) } else { &[] };
    let mut text = Packed::default();
    for (index, own) in strings.iter().enumerate() {
        text.push_with(|chars| {
            if skips.get(index).is_some_and(|skip| *skip != 0) {
                chars.extend_from_slice(own)
            } else {
                tokenize::bytes::to_chars(own, chars)
            }
        });
    }
    let mut outputs = vec![cx.tensor(0).clone(), cx.tensor(1).clone()];
    outputs.extend(packed(cx.sizes(2), text)?);
    if cx.input_count() == 6 {
        outputs.push(cx.tensor(5).clone());
    }
    Ok(outputs)
}

/// Concatenates the bytes of each row to one string.
fn to_bytes(cx: &TextCx<'_, '_>) -> Result<Vec<Tensor>, KernelError> {
    let strings = cx.strings(2)?;
    let mut text = Packed::default();
    for row in cx.rows(0, strings.len())?.iter() {
        text.push_with(|bytes| {
            row.for_each(|index| tokenize::bytes::from_chars(strings.get(index), bytes));
        });
    }
    packed(cx.sizes(0), text)
}
