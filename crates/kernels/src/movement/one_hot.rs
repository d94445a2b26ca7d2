//! OneHot and Eye: tensors of one value in which some elements have another.

use crate::base::num::Pod;
use crate::base::par::Threads;
use crate::base::slices::AlongAxis;

/// Elements that are worth a second thread.
const GRAIN: usize = 16 << 10;

/// Bytes that are filled before places in them are set, so that these are in the cache.
const FILLED: usize = 8 << 10;

/// A tensor of `off`. Each of `[outer, inner]` places sets one of the `size` elements along the
/// axis to `on`, or none if it is `None` or out of range.
pub fn one_hot<T: Pod>(
    threads: &Threads,
    place: &(dyn Fn(usize) -> Option<usize> + Sync),
    along: AlongAxis,
    (on, off): (T, T),
    out: &mut [T],
) {
    let AlongAxis { size: depth, inner, .. } = along;
    let slice = depth * inner;
    let some = (FILLED / size_of::<T>() / slice.max(1)).max(1);
    threads.par_chunks_mut(out, slice, GRAIN, |first, part| {
        for (block, part) in part.chunks_mut(slice * some).enumerate() {
            part.fill(off);
            let first = (first + block * some) * inner;
            for (i, slice) in part.chunks_exact_mut(slice).enumerate() {
                for j in 0..inner {
                    if let Some(place) = place(first + i * inner + j).filter(|p| *p < depth) {
                        slice[place * inner + j] = on;
                    }
                }
            }
        }
    });
}

/// Matrices with ones on a diagonal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Eye {
    /// Rows of each matrix.
    pub rows: usize,
    /// Columns of each matrix.
    pub columns: usize,
    /// The column that the diagonal begins at or, if negative, minus the row.
    pub diagonal: i64,
}

impl Eye {
    /// Writes as many matrices as fit, with `one` on the diagonal.
    pub fn run<T: Pod>(self, threads: &Threads, one: T, out: &mut [T]) {
        out_slices(threads, self.rows * self.columns, out, |_, part| {
            part.fill(T::default());
            for (row, part) in part.chunks_exact_mut(self.columns).enumerate() {
                let column = usize::try_from((row as i64).saturating_add(self.diagonal));
                if let Some(place) = column.ok().and_then(|column| part.get_mut(column)) {
                    *place = one;
                }
            }
        });
    }
}

/// Calls `f` with each slice of `size` elements and its index.
fn out_slices<T: Pod>(
    threads: &Threads,
    size: usize,
    out: &mut [T],
    f: impl Fn(usize, &mut [T]) + Sync,
) {
    threads.par_chunks_mut(out, size, GRAIN, |first, part| {
        for (i, slice) in part.chunks_exact_mut(size).enumerate() {
            f(first + i, slice);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_marked() {
        let mut out = [0u8; 12];
        let places = [Some(0), Some(1), None, Some(2), Some(9), Some(0)];
        let along = AlongAxis { outer: 2, size: 2, inner: 3 };
        one_hot(Threads::single(), &|i| places[i], along, (7, 1), &mut out);
        assert_eq!(out, [7, 1, 1, 1, 7, 1, 1, 1, 7, 1, 1, 1]);
        let along = AlongAxis { outer: 0, size: 0, inner: 3 };
        one_hot(Threads::single(), &|_| None, along, (7, 1), &mut out[..0]);
    }

    /// Slices that are filled in blocks, by several threads.
    #[test]
    fn many_places_are_marked() {
        let place = |i: usize| (i % 7 != 3).then_some(i * 31 % 12);
        let mut out = vec![0u16; 50_000 * 10];
        let along = AlongAxis { outer: 25_000, size: 10, inner: 2 };
        one_hot(&Threads::new(3), &place, along, (7, 1), &mut out);
        let expected = (0..out.len()).map(|at| {
            let i = at / 20 * 2 + at % 2;
            if place(i) == Some(at % 20 / 2) { 7 } else { 1 }
        });
        assert!(out.iter().copied().eq(expected));
    }

    #[test]
    fn diagonals_shift() {
        let eye = |diagonal: i64| {
            let mut out = [9u8; 12];
            Eye { rows: 2, columns: 3, diagonal }.run(Threads::single(), 1, &mut out);
            assert_eq!(out[..6], out[6..]);
            out[..6].to_vec()
        };
        assert_eq!(eye(0), [1, 0, 0, 0, 1, 0]);
        assert_eq!(eye(2), [0, 0, 1, 0, 0, 0]);
        assert_eq!(eye(-1), [0, 0, 0, 1, 0, 0]);
        assert_eq!(eye(i64::MIN), [0; 6]);
        assert_eq!(eye(i64::MAX), [0; 6]);
    }
}
