//! Strings compared, hashed, printed, joined and split.

use crate::kernel::text::{TextCx, converted, packed, tensor, text_kernel};
use crate::prelude::*;
use infer::ops::text_values::{Kind, TextValues};
use tokenize::{Packed, hash, number};

impl Lower for TextValues {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let buckets = self.buckets() as u64;
        Ok(match self.kind() {
            Kind::Equal => text_kernel(cx, "compare strings", equal),
            Kind::HashBucket => text_kernel(cx, "hash strings", move |cx| {
                let bucket = |s: &[u8]| hash::bucket(s, buckets) as i64;
                let values = cx.strings(0)?.iter().map(bucket).collect();
                Ok(vec![tensor::<i64>(cx.sizes(0), values)?])
            }),
            Kind::OfNumber => text_kernel(cx, "numbers to strings", of_numbers),
            Kind::Join => text_kernel(cx, "join strings", join),
            Kind::Split => text_kernel(cx, "split strings", split),
        })
    }
}

/// A single string is compared with all others; several are compared pairwise, or with the first.
fn equal(cx: &TextCx<'_, '_>) -> Result<Vec<Tensor>, KernelError> {
    let (a, b) = (cx.strings(0)?, cx.strings(3)?);
    let count = if a.is_empty() || b.is_empty() { 0 } else { a.len().max(b.len()) };
    let own = |i: usize, len: usize| if i < len { i } else { 0 };
    let equal = |i| i32::from(a.get(own(i, a.len())) == b.get(own(i, b.len())));
    Ok(vec![tensor(&[count], (0..count).map(equal).collect())?])
}

fn of_numbers(cx: &TextCx<'_, '_>) -> Result<Vec<Tensor>, KernelError> {
    let data = cx.tensor(0);
    let texts: Vec<Box<str>> = match data.element_type() {
        ElementType::F32 | ElementType::F64 => {
            let wide = converted(data, ElementType::F64)?;
            let values = wide.as_slice::<f64>().unwrap_or_default();
            values.iter().map(|v| number::general(*v).into()).collect()
        }
        ElementType::Boolean => {
            let text = |v: &u8| if *v != 0 { "true" } else { "false" };
            data.bytes().iter().map(|v| text(v).into()).collect()
        }
        ElementType::U64 => {
            let values = data.as_slice::<u64>().unwrap_or_default();
            values.iter().map(|v| v.to_string().into()).collect()
        }
        _ => cx.ints(0).iter().map(|v| v.to_string().into()).collect(),
    };
    let strings = Tensor::strings(data.sizes(), texts);
    Ok(vec![strings?])
}

/// Joins the strings along an axis.
fn join(cx: &TextCx<'_, '_>) -> Result<Vec<Tensor>, KernelError> {
    let (strings, separator, sizes) = (cx.strings(0)?, cx.bytes(3), cx.sizes(0));
    let mut text = Packed::default();
    if sizes.is_empty() {
        strings.iter().for_each(|string| text.push(string));
        return packed(&[], text);
    }
    let axis = infer::rules::axes::normalize_of(4, cx.int(4)?, sizes.len());
    let axis = axis.map_err(|e| KernelError::at(4, e.to_string()))?;
    let (outer, inner) = (&sizes[..axis], &sizes[axis + 1..]);
    let inner_count: usize = inner.iter().product();
    for first in 0..outer.iter().product() {
        for last in 0..inner_count {
            text.push_with(|chars| {
                for i in 0..sizes[axis] {
                    if i > 0 {
                        chars.extend_from_slice(separator);
                    }
                    let index = (first * sizes[axis] + i) * inner_count + last;
                    chars.extend_from_slice(strings.get(index));
                }
            });
        }
    }
    packed(&[outer, inner].concat(), text)
}

/// Strings split at a delimiter, or into bytes if it is empty: indices, parts and dense shape.
fn split(cx: &TextCx<'_, '_>) -> Result<Vec<Tensor>, KernelError> {
    let (delimiter, skip_empty, sizes) = (cx.bytes(3), cx.int(4)? != 0, cx.sizes(0));
    let (mut indices, mut parts, mut most) = (Vec::new(), Packed::default(), 0);
    for (index, string) in cx.strings(0)?.iter().enumerate() {
        let own = pieces(string, delimiter);
        most = most.max(own.len());
        for (at, part) in own.into_iter().enumerate().filter(|(_, p)| !skip_empty || !p.is_empty())
        {
            let (mut rest, first) = (index, indices.len());
            for size in sizes.iter().rev() {
                indices.insert(first, (rest % size) as i64);
                rest /= size;
            }
            indices.push(at as i64);
            parts.push(part);
        }
    }
    let (count, rank) = (parts.begins.len(), sizes.len() + 1);
    let mut outputs = vec![tensor(&[count, rank], indices)?];
    outputs.extend(packed(&[count], parts)?);
    let shape = sizes.iter().chain([&most]).map(|size| *size as i64).collect();
    outputs.push(tensor::<i64>(&[rank], shape)?);
    Ok(outputs)
}

fn pieces<'s>(string: &'s [u8], delimiter: &[u8]) -> Vec<&'s [u8]> {
    if delimiter.is_empty() {
        return string.chunks(1).collect();
    }
    let (mut pieces, mut begin, mut at) = (Vec::new(), 0, 0);
    while at < string.len() {
        if string[at..].starts_with(delimiter) {
            pieces.push(&string[begin..at]);
            at += delimiter.len();
            begin = at;
        } else {
            at += 1
        }
    }
    pieces.push(&string[begin..]);
    pieces
}
