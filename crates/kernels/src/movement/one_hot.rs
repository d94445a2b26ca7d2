//! OneHot and Eye: tensors of one value in which some elements have another.

use crate::base::num::Pod;
use crate::base::par::Threads;
use crate::base::slices::AlongAxis;

/// Elements that are worth a second thread.
const GRAIN: usize = 16 << 10;

/// A tensor of `off`. Each of `[outer, inner]` places sets one of the `size` elements along the
/// axis to `on`, or none if it is `None` or out of range.
///
/// # Panics
/// When the number of places is another.
pub fn one_hot<T: Pod>(
    threads: &Threads,
    places: &[Option<usize>],
    along: AlongAxis,
    (on, off): (T, T),
    out: &mut [T],
) {
    let AlongAxis { size: depth, inner, .. } = along;
    out_slices(threads, depth * inner, out, |slice, part| {
        part.fill(off);
        for (i, place) in places[slice * inner..][..inner].iter().enumerate() {
            if let Some(place) = place.filter(|p| *p < depth) {
                part[place * inner + i] = on;
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
        one_hot(
            Threads::single(),
            &places,
            AlongAxis { outer: 2, size: 2, inner: 3 },
            (7, 1),
            &mut out,
        );
        assert_eq!(out, [7, 1, 1, 1, 7, 1, 1, 1, 7, 1, 1, 1]);
        one_hot(
            Threads::single(),
            &[],
            AlongAxis { outer: 0, size: 0, inner: 3 },
            (7, 1),
            &mut out[..0],
        );
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
