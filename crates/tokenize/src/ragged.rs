//! Ragged tensors: rows of different lengths.

use crate::error::TextError;
use crate::strings::Rows;

/// Rows of elements of several bytes each.
#[derive(Clone, Copy, Debug)]
pub struct Ragged<'a> {
    rows: Rows<'a>,
    elements: &'a [u8],
    size: usize,
}

impl<'a> Ragged<'a> {
    /// Rows of elements of `size` bytes each.
    ///
    /// # Errors
    /// When a row is out of range.
    pub fn new(
        begins: &'a [i32],
        ends: &'a [i32],
        elements: &'a [u8],
        size: usize,
    ) -> Result<Ragged<'a>, TextError> {
        let rows = Rows::new(begins, ends, elements.len() / size.max(1))?;
        Ok(Ragged { rows, elements, size })
    }

    fn row(&self, index: usize) -> &'a [u8] {
        let row = self.rows.get(index);
        &self.elements[row.start * self.size..row.end * self.size]
    }
}

/// Concatenated rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Combined {
    /// The begin of each row.
    pub begins: Vec<i32>,
    /// The end of each row.
    pub ends: Vec<i32>,
    /// The bytes of the elements.
    pub elements: Vec<u8>,
    /// The segment of each element.
    pub segments: Vec<usize>,
}

/// Concatenates the rows of several segments. A segment with a single row is added to each row.
///
/// # Errors
/// When the numbers of rows differ, or the result is too long.
pub fn combine(segments: &[Ragged<'_>]) -> Result<Combined, TextError> {
    let count = segments.iter().map(|s| s.rows.len()).max().unwrap_or(0);
    if segments.iter().any(|s| s.rows.len() != 1 && s.rows.len() != count) {
        return Err(TextError::new("the segments have different numbers of rows"));
    }
    let mut all = Combined::default();
    for row in 0..count {
        all.begins.push(all.segments.len() as i32);
        for (i, segment) in segments.iter().enumerate() {
            let elements = segment.row(if segment.rows.len() == 1 { 0 } else { row });
            all.elements.extend_from_slice(elements);
            let more = elements.len() / segment.size.max(1);
            all.segments.resize(all.segments.len() + more, i);
        }
        if i32::try_from(all.segments.len()).is_err() {
            return Err(TextError::new("the rows have more elements than i32 can count"));
        }
        all.ends.push(all.segments.len() as i32);
    }
    Ok(all)
}

/// Rows of equal length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dense {
    /// The bytes of the elements.
    pub elements: Vec<u8>,
    /// 1 for elements of a row, 0 for padding.
    pub mask: Vec<u8>,
}

/// Rows truncated and padded to `len` elements, at their right or left end.
///
/// # Errors
/// When it does not fit in memory.
pub fn to_dense(
    ragged: &Ragged<'_>,
    len: usize,
    padding: &[u8],
    right: bool,
) -> Result<Dense, TextError> {
    let total = ragged.rows.len().checked_mul(len);
    let bytes = total.and_then(|total| total.checked_mul(ragged.size));
    let mut dense = Dense::default();
    let reserved = bytes.zip(total).is_some_and(|(bytes, total)| {
        dense.elements.try_reserve_exact(bytes).is_ok()
            && dense.mask.try_reserve_exact(total).is_ok()
    });
    if !reserved {
        let message = format!("{} rows of {len} do not fit into memory", ragged.rows.len());
        return Err(TextError::new(message));
    }
    for row in 0..ragged.rows.len() {
        let row = ragged.row(row);
        let kept = len.min(row.len() / ragged.size.max(1));
        let fill = |dense: &mut Dense| {
            (kept..len).for_each(|_| dense.elements.extend_from_slice(padding));
            dense.mask.resize(dense.mask.len() + len - kept, 0);
        };
        if !right {
            fill(&mut dense);
        }
        dense.elements.extend_from_slice(&row[..kept * ragged.size]);
        dense.mask.resize(dense.mask.len() + kept, 1);
        if right {
            fill(&mut dense);
        }
    }
    Ok(dense)
}

/// Which end of a row is truncated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Its end.
    Right,
    /// Its beginning.
    Left,
}

/// Which of two rows is truncated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The first.
    OnlyFirst,
    /// The second.
    OnlySecond,
    /// The longer one, or both to halves.
    LongestFirst,
}

/// The lengths of two rows that may have `most` elements together.
pub fn halves(first: i32, second: i32, most: i32, mode: Mode) -> (i32, i32) {
    if first.saturating_add(second) <= most {
        return (first, second);
    }
    let (half, odd) = (most / 2, most % 2);
    match mode {
        Mode::OnlyFirst => (first.min(most), second),
        Mode::OnlySecond => (first, second.min(most)),
        Mode::LongestFirst if first >= half + odd && second <= half => (most - second, second),
        Mode::LongestFirst if first < half + odd && second > half => (first, most - first),
        Mode::LongestFirst if first >= second => (half + odd, half),
        Mode::LongestFirst => (half, half + odd),
    }
}

/// Truncates a row to `len` elements.
pub fn cut(begin: &mut i32, end: &mut i32, len: i32, side: Side) {
    let len = len.clamp(0, *end - *begin);
    match side {
        Side::Right => *end = *begin + len,
        Side::Left => *begin = *end - len,
    }
}

/// Row and column of each element, two numbers each.
pub fn positions(rows: Rows<'_>) -> Vec<i32> {
    let of_row = |(row, range): (i32, std::ops::Range<usize>)| {
        (0..range.len() as i32).flat_map(move |at| [row, at])
    };
    (0..).zip(rows.iter()).flat_map(of_row).collect()
}

/// Begins and ends of `count` rows, from the sorted row ids of the elements.
///
/// # Errors
/// When a row id is negative.
pub fn of_row_ids(ids: &[i32], count: usize) -> Result<(Vec<i32>, Vec<i32>), TextError> {
    if let Some(id) = ids.iter().find(|id| **id < 0) {
        return Err(TextError::new(format!("the row {id} is negative")));
    }
    let within = ids.iter().position(|id| *id as usize >= count).unwrap_or(ids.len());
    let (mut begins, mut ends) = (vec![0; count], vec![0; count]);
    let (mut row, mut at) = (0, 0);
    while at < within {
        let id = ids[at] as usize;
        for row in row..id.max(row) {
            (begins[row], ends[row]) = (at as i32, at as i32);
        }
        let begin = at;
        while at < within && ids[at] as usize == id {
            at += 1;
        }
        (begins[id], ends[id]) = (begin as i32, at as i32);
        row = id + 1;
    }
    for row in row..count {
        (begins[row], ends[row]) = (at as i32, at as i32);
    }
    Ok((begins, ends))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn combining() {
        let one = Ragged::new(&[0], &[1], b"<", 1).unwrap();
        let two = Ragged::new(&[0, 2], &[2, 3], b"abc", 1).unwrap();
        let all = combine(&[one, two, one]).unwrap();
        assert_eq!(all.elements, b"<ab<<c<");
        assert_eq!(all.segments, [0, 1, 1, 2, 0, 1, 2]);
        assert_eq!((all.begins, all.ends), (vec![0, 4], vec![4, 7]));
    }

    #[test]
    fn dense() {
        let rows = Ragged::new(&[0, 2], &[2, 5], b"abcde", 1).unwrap();
        let right = to_dense(&rows, 3, b"-", true).unwrap();
        assert_eq!((right.elements, right.mask), (b"ab-cde".to_vec(), vec![1, 1, 0, 1, 1, 1]));
        assert_eq!(to_dense(&rows, 2, b"-", false).unwrap().elements, b"abcd");
        assert!(to_dense(&rows, usize::MAX / 2, b"-", true).is_err());
    }

    #[test]
    fn truncation() {
        let longest = |a, b, most| halves(a, b, most, Mode::LongestFirst);
        assert_eq!(longest(9, 2, 10), (8, 2));
        assert_eq!(longest(2, 9, 10), (2, 8));
        assert_eq!(longest(9, 9, 5), (3, 2));
        assert_eq!(longest(8, 9, 5), (2, 3));
        assert_eq!(halves(9, 2, 5, Mode::OnlyFirst), (5, 2));
        let (mut begin, mut end) = (3, 9);
        cut(&mut begin, &mut end, 2, Side::Left);
        assert_eq!((begin, end), (7, 9));
    }

    #[test]
    fn rows_by_number() {
        let rows = of_row_ids(&[1, 1, 3, 9], 5).unwrap();
        assert_eq!(rows, (vec![0, 0, 2, 2, 3], vec![0, 2, 2, 3, 3]));
        assert_eq!(positions(Rows::new(&[0, 2], &[2, 3], 3).unwrap()), [0, 0, 0, 1, 1, 0]);
    }
}
