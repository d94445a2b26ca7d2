//! Destinations of a scatter: converts indices to runs of contiguous elements.
//!
//! Indices often count up, or are equal for a whole slice, as in slice assignment or when boxes are
//! put back in order. Such a run costs no more than its copy.

use crate::base::par::Threads;
use crate::base::slices::AlongAxis;
use crate::movement::indices::{IndexRows, OutOfRange, Row, normal};

/// Contiguous elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first element.
    pub at: usize,
    /// Number of elements.
    pub len: usize,
}

/// Runs, in the order of their indices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    lists: Vec<Vec<Run>>,
}

/// Rows of indices, and the size of what each index selects.
#[derive(Clone, Copy)]
struct Table {
    rows: usize,
    /// Indices in a row.
    len: usize,
    /// Elements of the slice that an index selects.
    inner: usize,
}

/// Indices that a thread converts at a time.
const BLOCK: usize = 16 << 10;

/// Indices that are tested for being a run at a time.
const GROUP: usize = 32;

impl Places {
    /// ScatterElements: for each of `indices`, one per element of a tensor of `sizes`, the element
    /// of the data (of sizes `data`) at the same position, with the coordinate along `axis`
    /// replaced by the index. The other `sizes` must not exceed those of the data.
    ///
    /// # Errors
    /// Naming the first index that is out of range.
    pub fn along<I: Copy + Sync + Into<i64>>(
        threads: &Threads,
        (data, axis): (&[usize], usize),
        sizes: &[usize],
        indices: &[I],
    ) -> Result<Places, OutOfRange> {
        let rows = IndexRows::new((data, axis), sizes);
        let count = indices.len().div_ceil(rows.len().max(1));
        let table = Table { rows: count, len: rows.len(), inner: 1 };
        Places::of_rows(threads, indices, table, |i| rows.row(i))
    }

    /// Entries of a tensor along an axis; `indices` selects the same ones in each outer slice.
    ///
    /// # Errors
    /// As [`Places::along`].
    pub fn slices<I: Copy + Sync + Into<i64>>(
        threads: &Threads,
        indices: &[I],
        along: AlongAxis,
    ) -> Result<Places, OutOfRange> {
        let AlongAxis { outer, size, inner } = along;
        let row = |i| Row { base: i * size * inner, step: 0, stride: inner, size };
        Places::of_rows(threads, indices, Table { rows: outer, len: indices.len(), inner }, row)
    }

    /// Slices of `inner` elements at `positions`.
    pub fn at(positions: &[usize], inner: usize) -> Places {
        let mut runs = Vec::new();
        positions.iter().for_each(|at| push(&mut runs, Run { at: *at, len: inner }));
        Places { lists: vec![runs] }
    }

    /// The runs.
    pub fn runs(&self) -> impl Iterator<Item = Run> {
        self.lists.iter().flatten().copied()
    }

    /// The number of runs.
    pub(super) fn count(&self) -> usize {
        self.lists.iter().map(Vec::len).sum()
    }

    /// The slices that a table of indices selects; if there are fewer indices, its rows share them.
    fn of_rows<I: Copy + Sync + Into<i64>>(
        threads: &Threads,
        indices: &[I],
        Table { rows, len, inner }: Table,
        row: impl Fn(usize) -> Row + Sync,
    ) -> Result<Places, OutOfRange> {
        let all = rows * len;
        let mut lists = vec![Ok(Vec::new()); all.div_ceil(BLOCK)];
        let list = |block: usize| {
            let mut runs = Vec::new();
            let (mut at, end) = (block * BLOCK, all.min((block + 1) * BLOCK));
            while at < end {
                let some = (len - at % len).min(end - at);
                let indices = &indices[at % indices.len()..][..some];
                extend(&mut runs, row(at / len).from(at % len), inner, indices)?;
                at += some;
            }
            Ok(runs)
        };
        threads.par_chunks_mut(&mut lists, 1, 1, |first, part| {
            part.iter_mut().enumerate().for_each(|(i, runs)| *runs = list(first + i));
        });
        let lists = lists.into_iter().collect::<Result<_, _>>()?;
        Ok(Places { lists })
    }
}

/// Adds a run; merges it with the last one if they are adjacent.
#[inline(always)]
fn push(runs: &mut Vec<Run>, run: Run) {
    match runs.last_mut() {
        Some(last) if last.at + last.len == run.at => last.len += run.len,
        _ => runs.push(run),
    }
}

/// Adds the slices of `inner` elements that a row of indices selects.
fn extend<I: Copy + Into<i64>>(
    runs: &mut Vec<Run>,
    row: Row,
    inner: usize,
    indices: &[I],
) -> Result<(), OutOfRange> {
    let rise = rise(row, inner);
    for (group, some) in indices.chunks(GROUP).enumerate() {
        let row = row.from(group * GROUP);
        if let (Some(rise), Some(group)) = (rise, some.as_array::<GROUP>())
            && let Some(first) = neighbours(group, rise, row.size)
        {
            push(runs, Run { at: row.base + first * row.stride, len: GROUP * inner });
            continue;
        }
        for (i, index) in some.iter().enumerate() {
            let index = normal((*index).into(), row.size)?;
            push(runs, Run { at: row.at(i, index), len: inner });
        }
    }
    Ok(())
}

/// The difference of successive indices that makes their slices contiguous.
fn rise(row: Row, inner: usize) -> Option<i64> {
    match (row.step, row.stride) {
        (step, _) if step == inner => Some(0),
        (0, stride) if stride == inner => Some(1),
        _ => None,
    }
}

/// Whether the first indices of a row name elements that are no run. The others hardly will either.
pub(super) fn are_scattered<I: Copy + Into<i64>>(row: Row, indices: &[I]) -> bool {
    indices.first_chunk::<GROUP>().is_some_and(|group| {
        rise(row, 1).is_none_or(|rise| neighbours(group, rise, row.size).is_none())
    })
}

/// The first of these indices, if all are in range and each is `rise` more than the one before.
#[inline(always)]
fn neighbours<I: Copy + Into<i64>>(indices: &[I; GROUP], rise: i64, size: usize) -> Option<usize> {
    let first: i64 = indices[0].into();
    let mut expected = first;
    let mut differ = 0;
    for index in indices {
        differ |= (*index).into() ^ expected;
        expected = expected.wrapping_add(rise);
    }
    let last: i64 = indices[GROUP - 1].into();
    normal(last, size).ok()?;
    // Indices that count up through 0 jump from the end of the axis to its beginning.
    let is_run = differ == 0 && (first < 0) == (last < 0);
    normal(first, size).ok().filter(|_| is_run)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All elements of all runs.
    fn elements(places: &Places) -> Vec<usize> {
        places.runs().flat_map(|run| run.at..run.at + run.len).collect()
    }

    /// The expected positions, coordinate by coordinate.
    fn expected(data: &[usize], axis: usize, sizes: &[usize], indices: &[i64]) -> Vec<usize> {
        let position = |(mut rest, index): (usize, &i64)| {
            let (mut position, mut stride) = (0, 1);
            for i in (0..sizes.len()).rev() {
                let own = if i == axis {
                    index.rem_euclid(data[i] as i64) as usize
                } else {
                    rest % sizes[i]
                };
                position += own * stride;
                (rest, stride) = (rest / sizes[i], stride * data[i]);
            }
            position
        };
        indices.iter().enumerate().map(position).collect()
    }

    #[test]
    fn indices_replace_one_coordinate() {
        let cases: [(&[usize], usize, &[usize]); 10] = [
            (&[3, 4], 0, &[2, 3]),
            (&[3, 4], 1, &[2, 3]),
            (&[2, 0], 1, &[2, 0]),
            (&[7], 0, &[1]),
            (&[20], 0, &[20]),
            (&[20], 0, &[99]),
            (&[31, 50, 100], 1, &[30, 30, 100]),
            (&[9, 5, 70], 0, &[40, 5, 70]),
            (&[9, 5, 70], 0, &[40, 5, 1]),
            (&[3, 2, 900], 2, &[3, 1, 700]),
        ];
        for (data, axis, sizes) in cases {
            let (size, count) = (data[axis] as i64, sizes.iter().product::<usize>() as i64);
            let row = sizes[axis + 1..].iter().product::<usize>() as i64;
            // Arbitrary indices, indices that count up through 0, and those of whole slices.
            let patterns: [&dyn Fn(i64) -> i64; 3] = [
                &|i| i * 7919 % size - size * (i % 2),
                &|i| (i + size / 2) % (2 * size) - size,
                &|i| i / row * 7 % size,
            ];
            for pattern in patterns {
                let indices: Vec<i64> = (0..count).map(pattern).collect();
                let found =
                    |threads| Places::along(threads, (data, axis), sizes, &indices).unwrap();
                let one = found(Threads::single());
                assert_eq!(elements(&one), expected(data, axis, sizes, &indices), "{sizes:?}");
                assert_eq!(one, found(&Threads::new(3)));
            }
        }
    }

    #[test]
    fn neighbours_are_one_run() {
        let counting: Vec<i32> = (5..105).collect();
        let along = |outer| AlongAxis { outer, size: 200, inner: 3 };
        let found = Places::slices(Threads::single(), &counting, along(1)).unwrap();
        assert!(found.runs().eq([Run { at: 15, len: 300 }]));
        let found = Places::slices(Threads::single(), &counting[..2], along(2)).unwrap();
        assert!(found.runs().eq([Run { at: 15, len: 6 }, Run { at: 615, len: 6 }]));
        let same: Vec<i32> = (0..300).map(|i| 2 - i / 100).collect();
        let found = Places::along(Threads::single(), (&[4, 10, 10], 0), &[3, 10, 10], &same);
        let runs = [200, 100, 0].map(|at| Run { at, len: 100 });
        assert!(found.unwrap().runs().eq(runs));
        let found = Places::at(&[4, 6, 1], 2);
        assert!(found.runs().eq([Run { at: 4, len: 4 }, Run { at: 1, len: 2 }]));
    }

    #[test]
    fn the_first_index_out_of_range_is_named() {
        let mut indices: Vec<i64> = (0..70_000).collect();
        let along = AlongAxis { outer: 1, size: 69_999, inner: 2 };
        let find = |indices: &[i64]| Places::slices(&Threads::new(3), indices, along);
        assert_eq!(find(&indices), Err(OutOfRange { index: 69_999, size: 69_999 }));
        indices[40_000] = -70_000;
        assert_eq!(find(&indices), Err(OutOfRange { index: -70_000, size: 69_999 }));
        indices[33] = i64::MIN;
        assert_eq!(find(&indices), Err(OutOfRange { index: i64::MIN, size: 69_999 }));
        assert_eq!(find(&[]), Ok(Places::default()));
    }
}
