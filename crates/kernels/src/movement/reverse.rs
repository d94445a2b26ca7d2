//! ReverseSequence: reverses the beginning of sequences.

use crate::base::num::Pod;
use crate::base::par::Threads;

/// The layout of the sequences of a tensor: `[outer, first, middle, second, inner]`. One of `first`
/// and `second` is the batch, the other the sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequences {
    /// Size of the outer of the two axes.
    pub first: usize,
    /// Size of the axes between them.
    pub middle: usize,
    /// Size of the inner of the two axes.
    pub second: usize,
    /// Size of the axes behind them.
    pub inner: usize,
    /// Whether the outer one is the batch.
    pub batch_first: bool,
}

/// Bytes that are worth a second thread.
const GRAIN: usize = 64 << 10;

impl Sequences {
    /// Reverses the first `lengths[i]` elements of the sequences of batch `i`.
    ///
    /// # Panics
    /// When the slices do not have the sizes of the sequences, or a length exceeds a sequence.
    pub fn reverse<T: Pod>(&self, threads: &Threads, lengths: &[usize], from: &[T], to: &mut [T]) {
        let Sequences { first, middle, second, inner, batch_first } = *self;
        threads.par_chunks_mut(to, inner, GRAIN / size_of::<T>(), |start, part| {
            for (i, run) in part.chunks_exact_mut(inner).enumerate() {
                let place = start + i;
                let (b, a) = (place % second, place / second / middle % first);
                // Stride along the sequence.
                let (batch, at, step) =
                    if batch_first { (a, b, 1) } else { (b, a, second * middle) };
                let source = match lengths[batch] {
                    length if at < length => place - at * step + (length - 1 - at) * step,
                    _ => place,
                };
                run.copy_from_slice(&from[source * inner..][..inner]);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginnings_are_turned_round() {
        let from: Vec<u8> = (0..12).collect();
        let mut to = [0; 12];
        let rows = Sequences { first: 2, middle: 1, second: 3, inner: 2, batch_first: true };
        rows.reverse(Threads::single(), &[2, 3], &from, &mut to);
        assert_eq!(to, [2, 3, 0, 1, 4, 5, 10, 11, 8, 9, 6, 7]);
        let columns = Sequences { first: 3, middle: 2, second: 2, inner: 1, batch_first: false };
        columns.reverse(&Threads::new(2), &[1, 3], &from, &mut to);
        assert_eq!(to, [0, 9, 2, 11, 4, 5, 6, 7, 8, 1, 10, 3]);
    }
}
