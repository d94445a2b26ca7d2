//! TopK: the largest or smallest elements along an axis, with their positions. Of equal elements
//! the first ones are taken, in order.

use crate::base::num::Stored;
use crate::base::par::{Slice, Threads};
use crate::search::order::{Order, key, position};

/// Sizes and options: `outer` times `inner` lines of `size` elements, `inner` elements apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopK {
    /// Size of the axes before the one that is searched.
    pub outer: usize,
    /// Elements of a line.
    pub size: usize,
    /// Size of the axes behind it.
    pub inner: usize,
    /// Elements taken from each line, at most `size`.
    pub k: usize,
    /// Whether the largest are taken; else the smallest.
    pub largest: bool,
    /// Whether results are ordered by position; else by value, best first.
    pub by_position: bool,
}

/// Elements that are worth a second thread.
const GRAIN: usize = 4 << 10;

/// Neighbouring lines that are searched together.
const LANES: usize = 64;

impl TopK {
    /// Writes the elements and their positions.
    ///
    /// # Panics
    /// When a slice does not have the size that the parameters imply.
    pub fn run<T: Stored, I: Stored>(
        &self,
        threads: &Threads,
        data: &[T],
        values: &mut [T],
        positions: &mut [I],
    ) where
        T::Wide: Order,
    {
        let TopK { outer, size, inner, k, .. } = *self;
        assert!(k <= size && data.len() == outer * size * inner);
        assert!(values.len() == outer * k * inner && positions.len() == values.len());
        if values.is_empty() {
            return;
        }
        let out = (Slice::new(values), Slice::new(positions));
        let emit = |line: usize, j: usize, position: usize| {
            let (slice, lane) = (line / inner, line % inner);
            let at = (slice * k + j) * inner + lane;
            // SAFETY: below the length asserted above, and no other line writes here.
            unsafe {
                *out.0.at(at) = data[(slice * size + position) * inner + lane];
                *out.1.at(at) = I::from_i64(position as i64);
            }
        };
        if k == 1 {
            let blocks = inner.div_ceil(LANES);
            threads.par_ranges(outer * blocks, GRAIN / (size * inner.min(LANES)), |range| {
                for block in range {
                    let lane = block % blocks * LANES;
                    let best = self.best(data, block / blocks, lane);
                    for (i, position) in best.into_iter().enumerate().take(inner - lane) {
                        emit(block / blocks * inner + lane + i, 0, position as usize);
                    }
                }
            });
            return;
        }
        threads.par_ranges(outer * inner, GRAIN / size, |lines| {
            let mut entries = Vec::with_capacity(size);
            for line in lines {
                self.sorted(data, line, &mut entries);
                for (j, entry) in entries.iter().enumerate() {
                    emit(line, j, position(*entry));
                }
            }
        });
    }

    /// A number that is smaller for better elements.
    #[inline(always)]
    fn cost<T: Stored>(&self, value: T) -> u64
    where
        T::Wide: Order,
    {
        let rank = value.widen().rank();
        if self.largest { !rank } else { rank }
    }

    /// The positions of the best elements of up to [`LANES`] neighbouring lines.
    fn best<T: Stored>(&self, data: &[T], slice: usize, lane: usize) -> [u64; LANES]
    where
        T::Wide: Order,
    {
        let lanes = LANES.min(self.inner - lane);
        let row = |i: usize| &data[(slice * self.size + i) * self.inner + lane..][..lanes];
        let (mut costs, mut best) = ([u64::MAX; LANES], [0; LANES]);
        for position in 0..self.size {
            let known = costs.iter_mut().zip(&mut best);
            for (value, (cost, best)) in row(position).iter().zip(known) {
                let new = self.cost(*value);
                if new < *cost {
                    (*cost, *best) = (new, position as u64);
                }
            }
        }
        best
    }

    /// The selected entries of a line, in order; the low half of each is its position.
    fn sorted<T: Stored>(&self, data: &[T], line: usize, entries: &mut Vec<u128>)
    where
        T::Wide: Order,
    {
        let first = line / self.inner * self.size * self.inner + line % self.inner;
        let values = data[first..].iter().step_by(self.inner).take(self.size);
        let entry = |(i, v): (usize, &T)| key(self.cost(*v), i);
        entries.clear();
        entries.extend(values.enumerate().map(entry));
        if self.k < self.size {
            entries.select_nth_unstable(self.k);
            entries.truncate(self.k);
        }
        if self.by_position {
            entries.sort_unstable_by_key(|e| position(*e))
        } else {
            entries.sort_unstable()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A stable sort of each line.
    fn reference(plan: &TopK, data: &[i8]) -> (Vec<i8>, Vec<i32>) {
        let TopK { outer, size, inner, k, .. } = *plan;
        let (mut values, mut positions) = (vec![0; outer * k * inner], vec![0; outer * k * inner]);
        for (o, i) in (0..outer).flat_map(|o| (0..inner).map(move |i| (o, i))) {
            let value = |p: usize| data[(o * size + p) * inner + i];
            let mut line: Vec<usize> = (0..size).collect();
            line.sort_by_key(|p| i32::from(value(*p)) * if plan.largest { -1 } else { 1 });
            line.truncate(k);
            if plan.by_position {
                line.sort();
            }
            for (j, p) in line.into_iter().enumerate() {
                values[(o * k + j) * inner + i] = value(p);
                positions[(o * k + j) * inner + i] = p as i32;
            }
        }
        (values, positions)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn agrees_with_a_stable_sort(
            (outer, size, inner) in (0usize..4, 1usize..40, prop_oneof![0usize..4, 63usize..130]),
            (k, largest, by_position) in (0usize..40, any::<bool>(), any::<bool>()),
        ) {
            let plan = TopK { outer, size, inner, k: k.min(size), largest, by_position };
            let data: Vec<i8> = (0..outer * size * inner).map(|i| (i * i % 13) as i8 - 5).collect();
            let expected = reference(&plan, &data);
            let count = expected.0.len();
            let (mut values, mut positions) = (vec![0; count], vec![0; count]);
            plan.run(&Threads::new(2), &data, &mut values, &mut positions);
            prop_assert_eq!((values, positions), expected);
        }
    }

    #[test]
    fn nan_is_the_largest_and_zeros_are_equal() {
        let data = [1.0f32, f32::NAN, -0.0, 0.0, f32::NAN];
        let run = |largest, k: usize| {
            let plan = TopK { outer: 1, size: 5, inner: 1, k, largest, by_position: false };
            let (mut values, mut positions) = (vec![0.0; k], vec![0i64; k]);
            plan.run(Threads::single(), &data, &mut values, &mut positions);
            positions
        };
        assert_eq!(run(true, 5), [1, 4, 0, 2, 3]);
        assert_eq!(run(false, 5), [2, 3, 0, 1, 4]);
        assert_eq!((run(true, 1), run(false, 1)), (vec![1], vec![2]));
    }
}
