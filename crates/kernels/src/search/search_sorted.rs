//! Binary search in sorted sequences.

use crate::base::num::Stored;
use crate::base::par::Threads;
use crate::search::order::Order;

/// Values that are worth a second thread.
const GRAIN: usize = 2 << 10;

/// Writes the position at which each value would be inserted: before equal ones, or behind them if
/// `right`. There are `rows` sorted sequences, and equally many rows of values.
///
/// # Panics
/// When the slices do not divide into rows, or the numbers of outputs and values differ.
pub fn search<T: Stored, I: Stored>(
    threads: &Threads,
    (rows, sorted): (usize, &[T]),
    values: &[T],
    right: bool,
    out: &mut [I],
) where
    T::Wide: Order,
{
    assert_eq!(values.len(), out.len());
    if values.is_empty() {
        return;
    }
    assert!(sorted.len().is_multiple_of(rows) && values.len().is_multiple_of(rows));
    let (len, per_row) = (sorted.len() / rows, values.len() / rows);
    threads.par_chunks_mut(out, 1, GRAIN, |first, part| {
        for (i, (value, slot)) in values[first..].iter().zip(part).enumerate() {
            let row = &sorted[(first + i) / per_row * len..][..len];
            let rank = value.widen().rank();
            let at = if right {
                row.partition_point(|s| s.widen().rank() <= rank)
            } else {
                row.partition_point(|s| s.widen().rank() < rank)
            };
            *slot = I::from_i64(at as i64);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn before_or_behind_equals() {
        let run = |rows, sorted: &[f32], values: &[f32], right| {
            let mut out = vec![0i32; values.len()];
            search(Threads::single(), (rows, sorted), values, right, &mut out);
            out
        };
        let (sorted, values) = ([-1.0, 0.0, 0.0, 5.0], [-2.0, -0.0, 5.0, 6.0, f32::NAN]);
        assert_eq!(run(1, &sorted, &values, false), [0, 1, 3, 4, 4]);
        assert_eq!(run(1, &sorted, &values, true), [0, 3, 4, 4, 4]);
        assert_eq!(run(2, &sorted, &[0.0; 4], true), [2, 2, 1, 1]);
        assert_eq!(run(1, &[], &values, true), [0; 5]);
    }
}
