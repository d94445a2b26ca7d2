//! Ragged tensors: rows of different lengths.

use crate::kernel::text::{TextCx, at, converted, tensor, tensor_as, text_kernel};
use crate::prelude::*;
use infer::ops::ragged::{Kind, Ragged};
use tokenize::ragged::{self, Mode, Side};

impl Lower for Ragged {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let (right, whole) = (self.pad_right(), self.pad_whole());
        Ok(match self.kind() {
            Kind::Combine => text_kernel(cx, "combine segments", combine),
            Kind::Truncate => text_kernel(cx, "truncate", truncate),
            Kind::ToDense => {
                text_kernel(cx, "ragged to dense", move |cx| to_dense(cx, right, whole))
            }
            Kind::ToSparse => text_kernel(cx, "ragged to sparse", |cx| {
                let positions = ragged::positions(cx.rows(0, i32::MAX as usize)?);
                Ok(vec![tensor(&[positions.len() / 2, 2], positions)?])
            }),
            Kind::ToRagged => text_kernel(cx, "row numbers to ragged", |cx| {
                let count = cx.int(1)?;
                let negative = |_| KernelError::at(1, format!("{count} is no number of rows"));
                let count = usize::try_from(count).map_err(negative)?;
                let (begins, ends) = at(0, ragged::of_row_ids(cx.i32s(0), count))?;
                Ok(vec![tensor(&[count], begins)?, tensor(&[count], ends)?])
            }),
            Kind::Pack => text_kernel(cx, "ragged elements", |cx| Ok(vec![cx.tensor(2).clone()])),
            Kind::Fuze => text_kernel(cx, "join rows", fuze),
        })
    }
}

/// The ragged tensor at an input, with elements of any type of whole bytes.
fn ragged_at<'r>(
    cx: &TextCx<'_, 'r>,
    input: usize,
    inner: usize,
) -> Result<(ragged::Ragged<'r>, usize), KernelError> {
    let data = cx.tensor(input + 2);
    let unsupported = || KernelError::at(input + 2, format!("{data:?} has no whole bytes"));
    let size = data.element_type().byte_size().ok_or_else(unsupported)?;
    let rows = (cx.i32s(input), cx.i32s(input + 1));
    let own = at(input, ragged::Ragged::new(rows.0, rows.1, data.bytes(), size * inner))?;
    Ok((own, size))
}

fn combine(cx: &TextCx<'_, '_>) -> Result<Vec<Tensor>, KernelError> {
    let last = cx.input_count() - 1;
    let segments: Result<Vec<_>, _> =
        (0..last).step_by(3).map(|input| ragged_at(cx, input, 1).map(|found| found.0)).collect();
    let all = ragged::combine(&segments?).map_err(|e| KernelError::new(e.0))?;
    let numbers = cx.ints(last);
    let missing = || KernelError::at(last, "has fewer numbers than there are segments");
    let number = |segment: &usize| numbers.get(*segment).copied().ok_or_else(missing);
    let numbers: Result<Vec<i64>, _> = all.segments.iter().map(number).collect();
    let count = all.segments.len();
    let numbers = converted(&tensor(&[count], numbers?)?, cx.tensor(last).element_type())?;
    // Rows have the shape of a segment with more than a scalar, if there is one.
    let ranked = (0..last).step_by(3).find(|input| !cx.sizes(*input).is_empty());
    let sizes = ranked.map_or(&[][..], |input| cx.sizes(input));
    let (begins, ends) = (tensor(sizes, all.begins)?, tensor(sizes, all.ends)?);
    let elements = tensor_as(cx.tensor(2).element_type(), &[count], all.elements)?;
    Ok(vec![begins.clone(), ends.clone(), elements, begins, ends, numbers])
}

fn truncate(cx: &TextCx<'_, '_>) -> Result<Vec<Tensor>, KernelError> {
    let last = cx.input_count() - 1;
    let most = i32::try_from(cx.int(last - 2)?).unwrap_or(i32::MAX);
    let side = match cx.text(last - 1)? {
        "right" => Side::Right,
        "left" => Side::Left,
        other => return Err(KernelError::at(last - 1, format!("{other:?} is not left or right"))),
    };
    let mode = match cx.text(last)? {
        "only_first" => Mode::OnlyFirst,
        "only_second" => Mode::OnlySecond,
        "longest_first" => Mode::LongestFirst,
        other => return Err(KernelError::at(last, format!("the mode {other:?} is unknown"))),
    };
    let rows = |input: usize| (cx.i32s(input).to_vec(), cx.i32s(input + 1).to_vec());
    let mut first = rows(0);
    let mut second = if last == 8 { Some(rows(3)) } else { None };
    for i in 0..first.0.len().min(first.1.len()) {
        let (begin, end) = (&mut first.0[i], &mut first.1[i]);
        let Some(second) = &mut second else {
            ragged::cut(begin, end, most, side);
            continue;
        };
        let (Some(other_begin), Some(other_end)) = (second.0.get_mut(i), second.1.get_mut(i))
        else {
            return Err(KernelError::at(3, "has fewer rows than the first tensor"));
        };
        let (len, other) = ragged::halves(*end - *begin, *other_end - *other_begin, most, mode);
        ragged::cut(begin, end, len, side);
        ragged::cut(other_begin, other_end, other, side);
    }
    let mut outputs = Vec::new();
    for ((begins, ends), input) in [Some(first), second].into_iter().flatten().zip([0, 3]) {
        let sizes = cx.sizes(input);
        outputs.extend([
            tensor(sizes, begins)?,
            tensor(sizes, ends)?,
            cx.tensor(input + 2).clone(),
        ]);
    }
    Ok(outputs)
}

fn to_dense(cx: &TextCx<'_, '_>, pad_right: bool, whole: bool) -> Result<Vec<Tensor>, KernelError> {
    let data = cx.tensor(2);
    let inner = data.sizes().iter().skip(1).product();
    let (own, size) = ragged_at(cx, 0, inner)?;
    let length = cx.int(3)?;
    let length = usize::try_from(length)
        .map_err(|_| KernelError::at(3, format!("{length} is not a length")))?;
    let right = if cx.input_count() == 6 { cx.int(5)? != 0 } else { pad_right };
    let padding = cx.bytes(4).get(..size).ok_or_else(|| KernelError::at(4, "is empty"))?;
    let fits = |row: std::ops::Range<usize>| row.len() >= length;
    if whole && !cx.rows(0, data.sizes().first().copied().unwrap_or(0))?.iter().all(fits) {
        return Err(KernelError::at(0, format!("has a row of less than {length} elements")));
    }
    let dense = at(0, ragged::to_dense(&own, length, &padding.repeat(inner), right))?;
    let mask = dense.mask.iter().flat_map(|one| std::iter::repeat_n(*one, inner)).collect();
    let mut sizes = cx.sizes(0).to_vec();
    sizes.push(length);
    sizes.extend(data.sizes().iter().skip(1));
    Ok(vec![
        tensor_as(data.element_type(), &sizes, dense.elements)?,
        tensor_as(ElementType::Boolean, &sizes, mask)?,
    ])
}

/// Concatenates the strings of each row, which are contiguous. An empty row gets begin and end of
/// the string that follows, as in the extension, or 0 if there is none.
fn fuze(cx: &TextCx<'_, '_>) -> Result<Vec<Tensor>, KernelError> {
    let (begins, ends) = (cx.i32s(2), cx.i32s(3));
    let rows = cx.rows(0, begins.len())?;
    let begin = |row: std::ops::Range<usize>| begins.get(row.start).copied().unwrap_or(0);
    let end = |row: std::ops::Range<usize>| {
        let last = if row.is_empty() { row.end } else { row.end - 1 };
        ends.get(last).copied().unwrap_or(0)
    };
    let fused = (rows.iter().map(begin).collect(), rows.iter().map(end).collect());
    Ok(vec![tensor::<i32>(cx.sizes(0), fused.0)?, tensor::<i32>(cx.sizes(0), fused.1)?])
}
