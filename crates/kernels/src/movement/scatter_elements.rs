//! ScatterElements with indices in random order. Each thread has rows or columns of indices of its
//! own, which name no element of another thread: updates of an element stay in order.

use crate::base::num::{Pod, Stored, Wide};
use crate::base::par::{Slice, Threads};
use crate::math::arithmetic::Arithmetic;
use crate::movement::indices::{IndexRows, Indices, OutOfRange, Row, normal};
use crate::movement::scatter_indices::are_scattered;
use Indices::{I32, I64};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// Updates that are worth a second thread.
const GRAIN: usize = 16 << 10;

/// Columns of a thread, so that two threads hardly ever write one cache line.
const COLUMNS: usize = 16;

/// Positions that are computed at a time.
const BLOCK: usize = 128;

/// Elements of a tensor, each of which replaces one coordinate of its own position by an index.
pub struct Elements<'a> {
    rows: IndexRows,
    indices: Indices<'a>,
    /// Elements of the data.
    data: usize,
}

impl<'a> Elements<'a> {
    /// The elements that `indices` of `sizes` along `axis` name in data of sizes `data`. Nothing if
    /// the first of them lie one behind the other: then [`Places::along`] does better.
    ///
    /// # Errors
    /// Naming the first index that is out of range.
    ///
    /// # Panics
    /// When another axis of `sizes` is longer than that of the data, or there are too few indices.
    ///
    /// [`Places::along`]: crate::scatter_indices::Places::along
    pub fn scattered(
        threads: &Threads,
        (data, axis): (&[usize], usize),
        sizes: &[usize],
        indices: Indices<'a>,
    ) -> Result<Option<Elements<'a>>, OutOfRange> {
        let mut pairs = sizes.iter().zip(data).enumerate();
        assert!(pairs.all(|(i, (size, all))| i == axis || size <= all));
        let rows = IndexRows::new((data, axis), sizes);
        let count = sizes.iter().product();
        let found = match indices {
            I32(indices) => is_scattered(threads, &rows, &indices[..count]),
            I64(indices) => is_scattered(threads, &rows, &indices[..count]),
        };
        let data = data.iter().product();
        Ok(found?.then_some(Elements { rows, indices, data }))
    }

    /// Replaces elements by their updates.
    ///
    /// # Panics
    /// When the data have other sizes, or there are too few updates.
    pub fn replace<T: Pod>(&self, threads: &Threads, data: &mut [T], updates: &[T]) {
        self.each(threads, data, updates, |old, new| *old = new);
    }

    /// Adds their updates to elements, in the order of the indices.
    ///
    /// # Panics
    /// As [`Self::replace`].
    pub fn add<T: Stored>(&self, threads: &Threads, data: &mut [T], updates: &[T])
    where
        T::Wide: Arithmetic + Stored<Wide = T::Wide>,
    {
        let add = |old: &mut T, new: T| *old = old.widen().add(new.widen()).narrow();
        self.each(threads, data, updates, add);
    }

    /// Calls `f` with each element and its update.
    fn each<T: Pod>(
        &self,
        threads: &Threads,
        data: &mut [T],
        updates: &[T],
        f: impl Fn(&mut T, T) + Sync,
    ) {
        assert_eq!(data.len(), self.data);
        let data = Slice::new(data);
        let write = |positions: &[usize], first: usize| {
            for (at, update) in positions.iter().zip(&updates[first..][..positions.len()]) {
                // SAFETY: the position is within the data, since each of its coordinates is within
                // its axis. Elements of other threads have another coordinate.
                f(unsafe { &mut *data.at(*at) }, *update);
            }
        };
        match self.indices {
            I32(indices) => positions(threads, &self.rows, indices, &write),
            I64(indices) => positions(threads, &self.rows, indices, &write),
        }
    }
}

/// Checks all indices, unless the first are a run. Returns whether they are none.
fn is_scattered<I: Copy + Sync + Into<i64>>(
    threads: &Threads,
    rows: &IndexRows,
    indices: &[I],
) -> Result<bool, OutOfRange> {
    if indices.is_empty() {
        return Ok(false);
    }
    let first = rows.row(0);
    if !are_scattered(first, indices) {
        return Ok(false);
    }
    let size = first.size as u64;
    // From -size to size - 1.
    let outside = |index: &I| (*index).into().cast_unsigned().wrapping_add(size) >= 2 * size;
    let wrong = AtomicBool::new(false);
    threads.par_ranges(indices.len(), GRAIN, |range| {
        if indices[range].iter().fold(false, |any, index| any | outside(index)) {
            wrong.store(true, Ordering::Relaxed);
        }
    });
    if wrong.into_inner() {
        indices.iter().try_for_each(|i| normal((*i).into(), first.size).map(|_| ()))?;
    }
    Ok(true)
}

/// Calls `f` with the positions of some indices at a time, and the number of the first.
fn positions<I: Copy + Sync + Into<i64>>(
    threads: &Threads,
    rows: &IndexRows,
    indices: &[I],
    f: &(dyn Fn(&[usize], usize) + Sync),
) {
    let len = rows.len();
    let count = indices.len() / len.max(1);
    let part = |all: Range<usize>, columns: Range<usize>| {
        for i in all {
            let (row, first) = (rows.row(i), i * len);
            for start in columns.clone().step_by(BLOCK) {
                let end = columns.end.min(start + BLOCK);
                block(row.from(start), &indices[first + start..first + end], |positions| {
                    f(positions, first + start)
                });
            }
        }
    };
    if rows.row(0).step == 0 {
        // A row of indices is along the axis: its elements may be the same, those of others not.
        threads.par_ranges(count, (GRAIN / len.max(1)).max(1), |rows| part(rows, 0..len));
    } else {
        let columns = (GRAIN / count.max(1)).max(COLUMNS);
        threads.par_ranges(len, columns, |columns| part(0..count, columns));
    }
}

/// Calls `f` with the positions of a few indices of a row.
#[inline(always)]
fn block<I: Copy + Into<i64>>(row: Row, indices: &[I], f: impl FnOnce(&[usize])) {
    let mut positions = [0; BLOCK];
    for (i, (slot, index)) in positions.iter_mut().zip(indices).enumerate() {
        // All have been checked. The minimum keeps writes within the data whatever happens.
        let index: i64 = (*index).into();
        let size = row.size as i64;
        let index = (if index < 0 { index + size } else { index }) as usize;
        *slot = row.at(i, index.min(row.size - 1));
    }
    f(&positions[..indices.len()]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::strides::dense_strides;

    /// Writes updates coordinate by coordinate.
    fn expected(
        (sizes, axis): (&[usize], usize),
        updated: &[usize],
        indices: &[i64],
        mut f: impl FnMut(usize, usize),
    ) {
        let strides = dense_strides(sizes);
        for (i, index) in indices.iter().enumerate() {
            let (mut rest, mut at) = (i, 0);
            for k in (0..sizes.len()).rev() {
                let own = if k == axis {
                    index.rem_euclid(sizes[k] as i64) as usize
                } else {
                    rest % updated[k]
                };
                at += own * strides[k] as usize;
                rest /= updated[k];
            }
            f(at, i);
        }
    }

    #[test]
    fn updates_of_an_element_stay_in_order() {
        let cases: [(&[usize], usize, &[usize]); 6] = [
            (&[50, 700], 0, &[90, 650]),
            (&[300, 200], 1, &[290, 170]),
            (&[1000], 0, &[40_000]),
            (&[9, 40, 90], 1, &[8, 60, 90]),
            (&[9, 40, 90], 0, &[20, 30, 70]),
            (&[40, 30, 20], 2, &[40, 1, 50]),
        ];
        for (data, axis, sizes) in cases {
            let (count, all) = (sizes.iter().product::<usize>(), data.iter().product::<usize>());
            let size = data[axis] as i64;
            let indices: Vec<i64> =
                (0..count as i64).map(|i| i * 7919 % size - size * (i % 2)).collect();
            let narrow: Vec<i32> = indices.iter().map(|i| *i as i32).collect();
            let updates: Vec<f32> = (0..count).map(|i| (i * 37 % 101) as f32 * 0.37).collect();
            let (mut sums, mut last) = (vec![1.5f32; all], vec![1.5f32; all]);
            expected((data, axis), sizes, &indices, |at, i| {
                sums[at] += updates[i];
                last[at] = updates[i];
            });
            for (count, indices) in [(1, I64(&indices)), (3, I32(&narrow)), (2, I64(&indices))] {
                let threads = &Threads::new(count);
                let of = Elements::scattered(threads, (data, axis), sizes, indices);
                let of = of.unwrap().expect("they are scattered");
                let mut found = vec![1.5; all];
                of.add(threads, &mut found, &updates);
                assert!(found == sums, "{data:?} {axis}");
                found.fill(1.5);
                of.replace(threads, &mut found, &updates);
                assert!(found == last, "{data:?} {axis}");
            }
        }
    }

    #[test]
    fn runs_are_left_to_others_and_wrong_indices_named() {
        let threads = &Threads::new(2);
        let find = |indices: &[i64]| {
            let found = Elements::scattered(threads, (&[99_999], 0), &[70_000], I64(indices));
            found.map(|elements| elements.is_some())
        };
        let mut indices: Vec<i64> = (0..70_000).collect();
        assert_eq!(find(&indices), Ok(false));
        indices[3] = 70;
        assert_eq!(find(&indices), Ok(true));
        indices[60_000] = 99_999;
        indices[50_000] = -100_000;
        assert_eq!(find(&indices), Err(OutOfRange { index: -100_000, size: 99_999 }));
        for sizes in [[0, 5, 5], [5, 0, 5], [5, 5, 0]] {
            let none = Elements::scattered(threads, (&[5, 5, 5], 1), &sizes, I64(&[]));
            assert!(none.unwrap().is_none());
        }
    }
}
