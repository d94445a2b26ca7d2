//! StringTensorPack and StringTensorUnpack. Strings are UTF-8; invalid bytes become U+FFFD.

use crate::kernel::text::{TextCx, at, packed, text_kernel};
use crate::prelude::*;
use infer::ops::string_tensor::{StringTensorPack, StringTensorUnpack};
use tokenize::Strings;

impl Lower for StringTensorPack {
    fn lower(&self, _cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        Ok(Box::new(Pack))
    }
}

struct Pack;

impl Kernel for Pack {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let symbols = cx.input_bytes(2);
        let string = |(begin, end): (&i64, &i64)| {
            let range = usize::try_from(*begin).ok().zip(usize::try_from(*end).ok());
            let bytes = range.and_then(|(begin, end)| symbols.get(begin..end));
            let error = |what| KernelError::at(2, format!("bytes {begin}..{end} {what}"));
            let bytes = bytes.ok_or_else(|| error("are not there"))?;
            Ok(Box::from(&*String::from_utf8_lossy(bytes)))
        };
        let (begins, ends) = (cx.ints(0), cx.ints(1));
        let strings: Result<Vec<Box<str>>, KernelError> =
            begins.iter().zip(&ends).map(string).collect();
        let tensor = Tensor::strings(cx.sizes(0), strings?);
        cx.provide(0, tensor?);
        Ok(())
    }

    fn reuse(&self) -> Reuse {
        Reuse::Provides
    }

    fn name(&self) -> &'static str {
        "pack strings"
    }
}

impl Lower for StringTensorUnpack {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        match cx.element_type(0) {
            ElementType::U8 => Ok(text_kernel(cx, "unpack packed strings", unpack_packed)),
            _ => Ok(Box::new(Unpack)),
        }
    }
}

/// Strings packed in one byte tensor: their number, the start of the first and the end of each, as
/// i32, then the bytes.
fn unpack_packed(cx: &TextCx<'_, '_>) -> Result<Vec<Tensor>, KernelError> {
    let bytes = cx.bytes(0);
    let word = |i: usize| bytes.get(4 * i..)?.first_chunk().map(|own| i32::from_le_bytes(*own));
    let damaged = || KernelError::at(0, "holds no packed strings");
    let count = word(0).and_then(|count| usize::try_from(count).ok()).ok_or_else(damaged)?;
    if bytes.len() / 4 < count.saturating_add(2) {
        return Err(damaged());
    }
    let offsets: Option<Vec<i32>> = (1..count + 2).map(word).collect();
    let offsets = offsets.ok_or_else(damaged)?;
    let chars = &bytes[4 * (count + 2)..];
    let (begins, ends) = (&offsets[..count], &offsets[1..]);
    let strings = at(0, Strings::new(begins, ends, chars))?;
    packed(&[count], strings.iter().collect())
}

struct Unpack;

impl Kernel for Unpack {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let strings = cx.tensor(0).as_strings().unwrap_or_default();
        let total: usize = strings.iter().map(|s| s.len()).sum();
        if i32::try_from(total).is_err() {
            let message = format!("holds {total} bytes, more than i32 can count");
            return Err(KernelError::at(0, message));
        }
        cx.allocate(2, &[total])?;
        let (begins, ends) = (cx.output::<i32>(0), cx.output::<i32>(1));
        let symbols = cx.output::<u8>(2);
        let mut at = 0;
        for ((string, begin), end) in strings.iter().zip(begins).zip(ends) {
            *begin = at as i32;
            symbols[at..at + string.len()].copy_from_slice(string.as_bytes());
            at += string.len();
            *end = at as i32;
        }
        Ok(())
    }

    fn has_data_dependent_shapes(&self) -> bool {
        true
    }

    fn name(&self) -> &'static str {
        "unpack strings"
    }
}
