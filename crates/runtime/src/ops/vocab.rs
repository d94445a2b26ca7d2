//! Vocabularies: strings to ids, and ids to strings.

use crate::kernel::text::{TextCx, converted, packed, tensor, text_kernel};
use crate::prelude::*;
use infer::ops::vocab::{VocabDecoder, VocabEncoder};
use tokenize::vocab::{Vocabulary, decode};

impl Lower for VocabEncoder {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let element_type = cx.element_type(6);
        Ok(text_kernel(cx, "look up strings", move |cx| encode(cx, element_type)))
    }
}

fn encode(cx: &TextCx<'_, '_>, element_type: ElementType) -> Result<Vec<Tensor>, KernelError> {
    let vocabulary = cx.made_of(3..7, || Ok(Vocabulary::new(cx.strings(3)?, &cx.ints(6))))?;
    let default = cx.int(7)?;
    let strings = cx.strings(0)?;
    let ids = strings.iter().map(|s| vocabulary.get(s).unwrap_or(default)).collect();
    let ids = tensor::<i64>(cx.sizes(0), ids)?;
    Ok(vec![converted(&ids, element_type)?])
}

impl Lower for VocabDecoder {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let skip = self.skip_tokens().to_vec();
        Ok(text_kernel(cx, "look up tokens", move |cx| {
            let skip = if cx.input_count() == 5 { cx.i32s(4) } else { &skip };
            let &[rows, len] = cx.sizes(0) else {
                return Err(KernelError::at(0, "must have rank 2"));
            };
            // An empty row has one empty token.
            let ids = if len == 0 { &vec![-1; rows][..] } else { cx.i32s(0) };
            let tokens = decode(ids, cx.strings(1)?, skip);
            let count = tokens.begins.len();
            let (begins, ends) = crate::kernel::text::rows_of((0..rows).map(|_| len.max(1)));
            let mut outputs = vec![tensor(&[rows], begins)?, tensor(&[rows], ends)?];
            outputs.extend(packed(&[count], tokens)?);
            Ok(outputs)
        }))
    }
}
