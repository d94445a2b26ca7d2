//! Reductions over segments of slices along the first axis: maximum, and sums of selected slices.

use crate::base::num::{Stored, Wide};
use crate::base::par::Threads;
use crate::math::arithmetic::Arithmetic;
use crate::reduce::Scale;

/// Elements that are worth a second thread.
const GRAIN: usize = 8 << 10;

/// Writes the maximum of each segment: of the slices `starts[s]..starts[s + 1]`, of `inner`
/// elements each. NaN is ignored; an empty segment gives `fill`.
///
/// # Panics
/// When the starts reach past the data, or the output has not `inner` elements per segment.
pub fn segment_max<T: Stored>(
    threads: &Threads,
    (inner, data): (usize, &[T]),
    starts: &[usize],
    fill: T,
    out: &mut [T],
) where
    T::Wide: Scale,
{
    each_segment(threads, inner, starts, out, |slices, row| {
        if slices.is_empty() {
            return row.fill(fill);
        }
        for (lane, slot) in row.iter_mut().enumerate() {
            let values = slices.clone().map(|slice| data[slice * inner + lane].widen());
            let larger = |top, x| if x > top { x } else { top };
            *slot = values.fold(T::Wide::LOWEST, larger).narrow();
        }
    });
}

/// Embedding bags: slices of a table to add up.
#[derive(Clone, Copy, Debug)]
pub struct Bags<'a, T> {
    /// The table, in slices of `inner` elements.
    pub table: &'a [T],
    /// Elements of a slice.
    pub inner: usize,
    /// The slices to add, bag by bag.
    pub entries: &'a [usize],
    /// Factors of the entries, if any.
    pub weights: Option<&'a [T]>,
    /// Bag `b` has entries `starts[b]..starts[b + 1]`.
    pub starts: &'a [usize],
    /// The slice for an empty bag; zeros if `None`.
    pub default: Option<usize>,
    /// Whether sums are divided by the number of entries.
    pub mean: bool,
}

impl<T: Stored> Bags<'_, T>
where
    T::Wide: Scale,
{
    /// Writes the sum or the mean of each bag.
    ///
    /// # Panics
    /// When an entry is outside the table, or the output has not `inner` elements per bag.
    pub fn run(&self, threads: &Threads, out: &mut [T]) {
        let slice = |entry: usize| &self.table[entry * self.inner..][..self.inner];
        each_segment(threads, self.inner, self.starts, out, |entries, row| {
            if entries.is_empty() {
                return match self.default {
                    Some(default) => row.copy_from_slice(slice(default)),
                    None => row.fill(T::default()),
                };
            }
            let count = entries.len();
            let mut sums = vec![T::Wide::ZERO; self.inner];
            for i in entries {
                let weight = self.weights.map_or(T::Wide::ONE, |w| w[i].widen());
                for (sum, x) in sums.iter_mut().zip(slice(self.entries[i])) {
                    *sum = sum.add(x.widen().mul(weight));
                }
            }
            for (slot, sum) in row.iter_mut().zip(sums) {
                *slot = (if self.mean { sum.over(count) } else { sum }).narrow();
            }
        });
    }
}

/// Calls `f(members, output row)` for each segment.
fn each_segment<T: Stored>(
    threads: &Threads,
    inner: usize,
    starts: &[usize],
    out: &mut [T],
    f: impl Fn(std::ops::Range<usize>, &mut [T]) + Sync,
) {
    assert_eq!(out.len(), starts.len().saturating_sub(1) * inner);
    if out.is_empty() {
        return;
    }
    threads.par_chunks_mut(out, inner, GRAIN, |first, rows| {
        for (i, row) in rows.chunks_exact_mut(inner).enumerate() {
            f(starts[first + i]..starts[first + i + 1], row);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::num::f16;

    #[test]
    fn largest_of_segments() {
        let data = [1.0, f32::NAN, 3.0, 2.0, f32::NEG_INFINITY, 9.0];
        let mut out = [0.0; 6];
        segment_max(Threads::single(), (2, &data), &[0, 2, 2, 3], -7.0, &mut out);
        assert_eq!(out, [3.0, 2.0, -7.0, -7.0, f32::NEG_INFINITY, 9.0]);
        segment_max::<u8>(Threads::single(), (0, &[]), &[0, 2], 1, &mut []);
    }

    #[test]
    fn sums_and_means_of_bags() {
        let table = [1i8, 2, 30, 40, 100, 100];
        let plan = Bags {
            table: &table,
            inner: 2,
            entries: &[0, 1, 2, 2],
            weights: None,
            starts: &[0, 2, 2, 4],
            default: Some(1),
            mean: false,
        };
        let run = |plan: &Bags<'_, i8>| {
            let mut out = [0; 6];
            plan.run(&Threads::new(2), &mut out);
            out
        };
        assert_eq!(run(&plan), [31, 42, 30, 40, -56, -56]);
        assert_eq!(run(&Bags { mean: true, default: None, ..plan }), [15, 21, 0, 0, 100, 100]);
        let weighted = run(&Bags { weights: Some(&[2, 0, 1, -1]), ..plan });
        assert_eq!(weighted, [2, 4, 30, 40, 0, 0]);
    }

    #[test]
    fn halves_are_added_in_f32() {
        let table = [2048.0, 1.0].map(f16::from_f32);
        let entries = [0, 1, 1];
        let starts = [0, 3];
        let rest = Bags {
            table: &table,
            inner: 1,
            entries: &entries,
            weights: None,
            starts: &starts,
            default: None,
            mean: false,
        };
        let mut out = [f16::default()];
        rest.run(Threads::single(), &mut out);
        assert_eq!(out[0].to_f32(), 2050.0);
    }
}
