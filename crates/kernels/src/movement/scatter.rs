//! Scatter: writes updates into a tensor. Several updates of one element are applied in order.

use crate::base::num::{Pod, Stored, Wide};
use crate::base::par::Threads;
use crate::math::arithmetic::Arithmetic;
use crate::movement::scatter_indices::Places;
use std::ops::Range;

/// How an element and its update are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// Their sum.
    Sum,
    /// The element minus the update.
    Sub,
    /// Their product.
    Prod,
    /// The smaller of both.
    Min,
    /// The larger of both.
    Max,
    /// The mean of the element and all its updates; integers round down.
    Mean,
}

/// Updates that are worth a second thread.
const GRAIN: usize = 16 << 10;

/// Updates of a run that takes no longer than the search for the next one.
const SHORT: usize = 16;

/// Updates, and their destinations within the data.
#[derive(Clone, Copy, Debug)]
pub struct Runs<'a, T> {
    /// The destinations of runs of updates.
    pub places: &'a Places,
    /// The updates, run after run.
    pub updates: &'a [T],
}

/// Copies runs of updates to their destinations.
///
/// # Panics
/// When there are fewer updates than destinations.
pub fn replace<T: Pod>(threads: &Threads, data: &mut [T], runs: Runs<'_, T>) {
    runs.divide(threads, data, |start, part| {
        runs.within(start, part.len(), |at, updates| match updates {
            // Too few for a call.
            [update] => part[at.start] = *update,
            _ => part[at].copy_from_slice(updates),
        });
    });
}

/// Combines elements with their updates. Unless `initial`, the first update of an element replaces
/// it.
///
/// # Panics
/// As [`replace`].
pub fn reduce<T: Stored>(
    threads: &Threads,
    data: &mut [T],
    runs: Runs<'_, T>,
    (reduction, initial): (Reduction, bool),
) where
    T::Wide: Arithmetic + Stored<Wide = T::Wide>,
{
    // f32 is the wide type of f16 and bf16, which are rounded once at the end. For a mean, sums of
    // small integers must not wrap.
    let half = size_of::<T>() < size_of::<T::Wide>() && size_of::<T::Wide>() == size_of::<f32>();
    let widens = half || (reduction == Reduction::Mean && size_of::<T>() < size_of::<T::Wide>());
    runs.divide(threads, data, |start, part| {
        if !widens {
            return runs.reduce(start, part, (reduction, initial));
        }
        let mut wide: Vec<T::Wide> = part.iter().map(|v| v.widen()).collect();
        runs.reduce(start, &mut wide, (reduction, initial));
        for (value, wide) in part.iter_mut().zip(wide) {
            *value = wide.narrow();
        }
    });
}

impl<T: Copy + Sync> Runs<'_, T> {
    /// Divides the data among threads: `f` gets the offset of a part, and the part. Each thread
    /// goes through all runs, so updates of an element stay in order. That takes longer than short
    /// runs do.
    fn divide<D: Send>(
        &self,
        threads: &Threads,
        data: &mut [D],
        f: impl Fn(usize, &mut [D]) + Sync,
    ) {
        let is_small = self.updates.len() < GRAIN.max(SHORT * self.places.count());
        let parts = if is_small { 1 } else { threads.count() };
        threads.par_chunks_mut(data, 1, data.len().div_ceil(parts), f);
    }

    /// Calls `f` with the portion of each run that falls into a part of the data: its range in the
    /// part, and its updates.
    fn within(&self, start: usize, len: usize, mut f: impl FnMut(Range<usize>, &[T])) {
        let mut rest = self.updates;
        for run in self.places.runs() {
            let updates;
            (updates, rest) = rest.split_at(run.len);
            let (first, end) = (run.at.max(start), (run.at + run.len).min(start + len));
            if first < end {
                f(first - start..end - start, &updates[first - run.at..end - run.at]);
            }
        }
    }
}

impl<T: Stored> Runs<'_, T>
where
    T::Wide: Arithmetic + Stored<Wide = T::Wide>,
{
    /// Combines a part of the data, which begins at `start`, with its updates.
    fn reduce<D>(&self, start: usize, part: &mut [D], (reduction, initial): (Reduction, bool))
    where
        D: Stored<Wide = T::Wide>,
    {
        let mut counts =
            if initial && reduction != Reduction::Mean { Vec::new() } else { vec![0; part.len()] };
        let to = (start, &mut *part, &mut counts[..]);
        match reduction {
            Reduction::Sum | Reduction::Mean => self.apply(to, initial, |a, b| a.add(b)),
            Reduction::Sub => self.apply(to, initial, |a, b| a.sub(b)),
            Reduction::Prod => self.apply(to, initial, |a, b| a.mul(b)),
            Reduction::Min => self.apply(to, initial, |a, b| if b < a { b } else { a }),
            Reduction::Max => self.apply(to, initial, |a, b| if b > a { b } else { a }),
        }
        if reduction == Reduction::Mean {
            for (value, count) in part.iter_mut().zip(counts).filter(|(_, count)| *count > 0) {
                let count = (count + u64::from(initial)).narrow();
                *value = value.widen().div(count).narrow();
            }
        }
    }

    /// Applies `f`, and counts the updates of each element if there are `counts`.
    fn apply<D: Stored<Wide = T::Wide>>(
        &self,
        (start, part, counts): (usize, &mut [D], &mut [u64]),
        initial: bool,
        f: impl Fn(T::Wide, T::Wide) -> T::Wide,
    ) {
        let counted = !counts.is_empty();
        self.within(start, part.len(), |at, updates| {
            let first = at.start;
            for (j, (value, update)) in part[at].iter_mut().zip(updates).enumerate() {
                let is_first = counted && counts[first + j] == 0;
                if counted {
                    counts[first + j] += 1;
                }
                *value = if is_first && !initial {
                    update.widen().narrow()
                } else {
                    f(value.widen(), update.widen()).narrow()
                };
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::num::Bool;

    fn reduced<T: Stored>(data: &[T], updates: &[T], how: (Reduction, bool)) -> Vec<T>
    where
        T::Wide: Arithmetic + Stored<Wide = T::Wide>,
    {
        let mut data = data.to_vec();
        let runs = Runs { places: &Places::at(&[1, 0, 0, 2, 3, 2], 1), updates };
        reduce(Threads::single(), &mut data, runs, how);
        data
    }

    /// The examples of ScatterElementsUpdate-12 in the specification, and more like them.
    #[test]
    fn reductions() {
        let data = [2i32, 3, 4, 6, 9];
        let updates = [10, 20, 30, 40, 70, 60];
        let ints = |how| reduced(&data, &updates, how);
        assert_eq!(ints((Reduction::Sum, true)), [52, 13, 104, 76, 9]);
        assert_eq!(ints((Reduction::Sum, false)), [50, 10, 100, 70, 9]);
        assert_eq!(ints((Reduction::Sub, true)), [-48, -7, -96, -64, 9]);
        assert_eq!(ints((Reduction::Prod, false)), [600, 10, 2400, 70, 9]);
        assert_eq!(ints((Reduction::Min, true)), [2, 3, 4, 6, 9]);
        assert_eq!(ints((Reduction::Max, false)), [30, 10, 60, 70, 9]);
        assert_eq!(ints((Reduction::Mean, true)), [17, 6, 34, 38, 9]);
        let floats = data.map(|v| v as f32);
        let mean = reduced(&floats, &updates.map(|v| v as f32), (Reduction::Mean, false));
        assert_eq!(mean, [25.0, 10.0, 50.0, 70.0, 9.0]);
        let below = reduced(&[-7i8; 5], &[0; 6], (Reduction::Mean, true));
        assert_eq!(below, [-3, -4, -3, -4, -7]);
        let large = reduced(&[100i8; 5], &[120; 6], (Reduction::Mean, false));
        assert_eq!(large, [120, 120, 120, 120, 100]);
    }

    /// Sum, sub and prod of booleans are or, xor and and.
    #[test]
    fn booleans() {
        let data = [0, 1, 0, 1, 1].map(Bool);
        let updates = [1, 0, 1, 0, 0, 0].map(Bool);
        let bools = |how| {
            let found = reduced(&data, &updates, (how, true));
            found.into_iter().map(|b| b.0).collect::<Vec<u8>>()
        };
        assert_eq!(bools(Reduction::Sum), [1, 1, 0, 1, 1]);
        assert_eq!(bools(Reduction::Sub), [1, 0, 0, 1, 1]);
        assert_eq!(bools(Reduction::Prod), [0, 1, 0, 0, 1]);
    }

    #[test]
    fn runs_are_replaced() {
        let mut data = [0u8; 6];
        let mut write = |positions: &[usize], updates: &[u8], inner| {
            let places = &Places::at(positions, inner);
            replace(Threads::single(), &mut data, Runs { places, updates });
            data
        };
        assert_eq!(write(&[4, 0, 4], &[1, 2, 3, 4, 5, 6], 2), [3, 4, 0, 0, 5, 6]);
        assert_eq!(write(&[3], &[9], 1), [3, 4, 0, 9, 5, 6]);
        assert_eq!(write(&[0, 0], &[], 0), [3, 4, 0, 9, 5, 6]);
    }

    /// A run that crosses the boundary between the parts of two threads.
    #[test]
    fn threads_share_a_run() {
        let updates: Vec<i32> = (0..50_000).collect();
        let mut data = vec![-1; 50_002];
        let runs = Runs { places: &Places::at(&[1], 50_000), updates: &updates };
        replace(&Threads::new(3), &mut data, runs);
        assert_eq!((data[0], data[50_001]), (-1, -1));
        assert_eq!(data[1..50_001], updates);
        reduce(&Threads::new(3), &mut data, runs, (Reduction::Sum, true));
        assert!(data[1..50_001].iter().zip(updates).all(|(sum, update)| *sum == 2 * update));
    }

    /// Elements with many updates, in data that is divided among threads.
    #[test]
    fn threads_keep_the_order() {
        for inner in [1, 3] {
            let positions: Vec<usize> = (0..40_000).map(|i| i * 7919 % 1000 * inner).collect();
            let updates: Vec<f32> =
                (0..positions.len() * inner).map(|i| (i * 37 % 101) as f32 * 0.37).collect();
            let runs = Runs { places: &Places::at(&positions, inner), updates: &updates };
            let all = |threads: &Threads| {
                let how = [Reduction::Sum, Reduction::Sub, Reduction::Mean];
                let mut found = vec![vec![1.5f32; 1000 * inner]; 4];
                for (data, how) in found.iter_mut().zip(how) {
                    reduce(threads, data, runs, (how, false));
                }
                replace(threads, &mut found[3], runs);
                found
            };
            assert_eq!(all(Threads::single()), all(&Threads::new(3)));
        }
    }
}
