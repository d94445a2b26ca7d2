//! TopK: the largest or smallest elements along an axis, with their positions. Of equal elements
//! the first ones are taken, in order.

use crate::base::num::Stored;
use crate::base::par::{Slice, Threads};
use crate::base::simd::opaque_index;
use crate::multiversion;
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

/// The same if only the best element of each is wanted: what is known of them stays in L1, and
/// their elements are read in long runs.
const MANY_LANES: usize = 512;

/// The most elements of each line that are found in neighbouring lines at once.
const FEW: usize = 16;

/// Neighbouring lines for which that is worth it.
const FEW_LANES: usize = 16;

/// Elements of a line that are compared at once.
const GROUP: usize = 16;

/// One element of each of some neighbouring lines: their costs, and their positions.
#[derive(Clone, Copy)]
struct Entries {
    costs: [u32; LANES],
    positions: [u32; LANES],
}

impl Entries {
    /// Takes the new elements that are better.
    #[inline(always)]
    fn enter(&mut self, costs: &[u32; LANES], position: u32) {
        for i in 0..LANES {
            let enters = costs[i] < self.costs[i];
            self.positions[i] = if enters { position } else { self.positions[i] };
            self.costs[i] = if enters { costs[i] } else { self.costs[i] };
        }
    }

    /// The same, where these are the next best behind `above`: an element of those moves down if
    /// the new one is better than it.
    #[inline(always)]
    fn enter_below(&mut self, above: &Entries, costs: &[u32; LANES], position: u32) {
        self.enter(costs, position);
        for i in 0..LANES {
            let moves = costs[i] < above.costs[i];
            self.positions[i] = if moves { above.positions[i] } else { self.positions[i] };
            self.costs[i] = if moves { above.costs[i] } else { self.costs[i] };
        }
    }

    /// Whether one of these costs is lower.
    #[inline(always)]
    fn any_enters(&self, costs: &[u32; LANES]) -> bool {
        let mut any = false;
        for i in 0..LANES {
            any |= costs[i] < self.costs[i];
        }
        any
    }
}

/// Tells the costs of neighbouring elements from an offset on.
type Costs<'f> = dyn Fn(usize, &mut [u32]) + Sync + 'f;

/// Takes the positions of an element of each of some lines: the slice and the first line, and where
/// the first of these elements goes.
type Put<'f> = dyn Fn((usize, usize), usize, &[u32]) + Sync + 'f;

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
        // The element at a position of a line becomes element `at` of the results.
        let emit = |(slice, lane): (usize, usize), at: usize, position: usize| {
            // SAFETY: below the length asserted above, and no other line writes here.
            unsafe {
                *out.0.at(at) = data[(slice * size + position) * inner + lane];
                *out.1.at(at) = I::from_i64(position as i64);
            }
        };
        if k == 1 && u32::try_from(size).is_ok() {
            let grain = GRAIN.div_ceil(size * inner.min(MANY_LANES));
            if inner == 1 {
                return threads.par_ranges(outer, grain, |slices| {
                    for slice in slices {
                        let best = best_of_line(&data[slice * size..][..size], self.largest);
                        emit((slice, 0), slice, best as usize);
                    }
                });
            }
            let blocks = inner.div_ceil(MANY_LANES);
            return threads.par_ranges(outer * blocks, grain, |range| {
                let mut positions = [[0; MANY_LANES]; 2];
                let mut costs = [cost(T::default(), self.largest); MANY_LANES];
                for block in range {
                    let (slice, lane) = (block / blocks, block % blocks * MANY_LANES);
                    let count = MANY_LANES.min(inner - lane);
                    let data = &data[slice * size * inner + lane..];
                    let both = positions.each_mut().map(|positions| &mut positions[..count]);
                    best_of_lines(data, self, &mut costs[..count], both);
                    for (lane, position) in (lane..).zip(&positions[0][..count]) {
                        emit((slice, lane), slice * inner + lane, *position as usize);
                    }
                }
            });
        }
        let has_short_ranks = size_of::<<T::Wide as Order>::Rank>() == size_of::<u32>();
        if k <= FEW && inner >= FEW_LANES && has_short_ranks && u32::try_from(size).is_ok() {
            let costs = |at: usize, to: &mut [u32]| {
                costs_of(&data[at..][..to.len()], self.largest, to);
            };
            let put = |(slice, lane): (usize, usize), at: usize, positions: &[u32]| {
                for (i, position) in positions.iter().enumerate() {
                    emit((slice, lane + i), at + i, *position as usize);
                }
            };
            return self.few(threads, &costs, &put);
        }
        threads.par_ranges(outer * inner, GRAIN.div_ceil(size), |lines| {
            let mut entries = Vec::with_capacity(size);
            for line in lines {
                let (slice, lane) = (line / inner, line % inner);
                self.sorted(data, line, &mut entries);
                for (j, entry) in entries.iter().enumerate() {
                    emit((slice, lane), (slice * k + j) * inner + lane, position(*entry));
                }
            }
        });
    }

    /// At most [`FEW`] elements of each line, in blocks of neighbouring lines. Compiled once for
    /// all types.
    fn few(&self, threads: &Threads, costs: &Costs<'_>, put: &Put<'_>) {
        let TopK { outer, size, inner, k, .. } = *self;
        let (blocks, grain) = (inner.div_ceil(LANES), GRAIN.div_ceil(size * inner.min(LANES)));
        threads.par_ranges(outer * blocks, grain, |range| {
            let mut best = [Entries { costs: [0; LANES], positions: [0; LANES] }; FEW];
            for block in range {
                let (slice, lane) = (block / blocks, block % blocks * LANES);
                let count = LANES.min(inner - lane);
                let row = |position: usize, to: &mut [u32; LANES]| {
                    costs((slice * size + position) * inner + lane, &mut to[..count]);
                };
                few_of_lines(self, &row, &mut best[..k]);
                for (j, best) in best[..k].iter().enumerate() {
                    put((slice, lane), (slice * k + j) * inner + lane, &best.positions[..count]);
                }
            }
        });
    }

    /// The selected entries of a line, in order; the low half of each is its position.
    fn sorted<T: Stored>(&self, data: &[T], line: usize, entries: &mut Vec<u128>)
    where
        T::Wide: Order,
    {
        let first = line / self.inner * self.size * self.inner + line % self.inner;
        let values = data[first..].iter().step_by(self.inner).take(self.size);
        let entry = |(i, v): (usize, &T)| key(cost(*v, self.largest).into(), i);
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

/// A number that is smaller for better elements.
#[inline(always)]
fn cost<T: Stored<Wide: Order>>(value: T, largest: bool) -> <T::Wide as Order>::Rank {
    let rank = value.widen().rank();
    if largest { !rank } else { rank }
}

multiversion! {
    vectors if size_of::<T>() <= size_of::<f32>();
    /// Writes the positions of the best elements of neighbouring lines to the first of two slices.
    /// The first line begins with `data`; there is a cost for each.
    fn best_of_lines<T: Stored<Wide: Order>>(
        data: &[T],
        plan: &TopK,
        costs: &mut [<T::Wide as Order>::Rank],
        positions: [&mut [u32]; 2],
    ) {
        let count = costs.len();
        let row = |i: usize| &data[i * plan.inner..][..count];
        // Of a choice that stays where it is, LLVM makes a masked store, which takes some twenty
        // cycles on AMD with AVX2. So positions go from one slice to the other and back.
        let [mut held, mut next] = positions;
        held.fill(0);
        for (known, value) in costs.iter_mut().zip(row(0)) {
            *known = cost(*value, plan.largest);
        }
        for position in 1..plan.size {
            let both = held.iter().zip(&mut *next);
            for ((known, value), (held, next)) in costs.iter_mut().zip(row(position)).zip(both) {
                let new = cost(*value, plan.largest);
                *next = if new < *known { position as u32 } else { *held };
                *known = if new < *known { new } else { *known };
            }
            (held, next) = (next, held);
        }
        if plan.size.is_multiple_of(2) {
            // After an odd number of turns they are in the second slice.
            next.copy_from_slice(held);
        }
    }
}

multiversion! {
    /// The costs of some elements, whose ranks have 32 bits.
    fn costs_of<T: Stored<Wide: Order>>(from: &[T], largest: bool, to: &mut [u32]) {
        for (to, value) in to.iter_mut().zip(from) {
            *to = cost(*value, largest).into() as u32;
        }
    }
}

multiversion! {
    /// Finds the best elements of each of up to [`LANES`] neighbouring lines, given the costs of a
    /// row of elements for each position.
    fn few_of_lines(
        plan: &TopK,
        row: &dyn Fn(usize, &mut [u32; LANES]),
        best: &mut [Entries],
    ) {
        let mut costs = [0; LANES];
        for position in 0..plan.size {
            row(position, &mut costs);
            let (last, number) = (position.min(best.len() - 1), position as u32);
            if position < best.len() {
                best[last] = Entries { costs, positions: [number; LANES] };
            } else if !best[last].any_enters(&costs) {
                continue;
            }
            for j in (1..=last).rev() {
                let (above, below) = best.split_at_mut(j);
                below[0].enter_below(&above[j - 1], &costs, number);
            }
            best[0].enter(&costs, number);
        }
        if plan.by_position {
            sort_positions(best);
        }
    }
}

/// Sorts the positions of each line.
#[inline(always)]
fn sort_positions(entries: &mut [Entries]) {
    for end in (1..entries.len()).rev() {
        for j in 0..end {
            let (first, second) = (entries[j].positions, entries[j + 1].positions);
            for i in 0..LANES {
                entries[j].positions[i] = first[i].min(second[i]);
                entries[j + 1].positions[i] = first[i].max(second[i]);
            }
        }
    }
}

multiversion! {
    vectors if size_of::<T>() <= size_of::<f32>();
    /// The position of the best element of a line; of equal elements the first is the best.
    fn best_of_line<T: Stored<Wide: Order>>(line: &[T], largest: bool) -> u32 {
        if size_of::<<T::Wide as Order>::Rank>() > size_of::<u32>() {
            let key = |(i, value): (usize, &T)| (cost(*value, largest), i as u32);
            return line.iter().enumerate().map(key).min().map_or(0, |(_, position)| position);
        }
        // A cost of 32 bits and the position as one number. Each lane has every sixteenth element.
        let key = |value: T, i: usize| cost(value, largest).into() << 32 | i as u64;
        let mut best = [u64::MAX; GROUP];
        let whole = line.len() - line.len() % GROUP;
        for at in (0..whole).step_by(GROUP) {
            let group = &line[opaque_index(at)..][..GROUP];
            for i in 0..GROUP {
                let new = key(group[i], at + i);
                best[i] = if new < best[i] { new } else { best[i] };
            }
        }
        let mut winner = u64::MAX;
        for i in 0..GROUP {
            winner = if best[i] < winner { best[i] } else { winner };
        }
        for (i, value) in line.iter().enumerate().skip(whole) {
            winner = winner.min(key(*value, i));
        }
        winner as u32
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
            (outer, size, inner) in (0usize..4, 1usize..80, prop_oneof![0usize..4, 63usize..130, 510usize..520]),
            (k, largest, by_position) in (prop_oneof![Just(1), 0usize..40], any::<bool>(), any::<bool>()),
        ) {
            let plan = TopK { outer, size, inner, k: k.min(size), largest, by_position };
            let data: Vec<i8> = (0..outer * size * inner).map(|i| (i * i % 13) as i8 - 5).collect();
            let expected = reference(&plan, &data);
            let count = expected.0.len();
            let (mut values, mut positions) = (vec![0; count], vec![0; count]);
            plan.run(&Threads::new(2), &data, &mut values, &mut positions);
            // Floats are ranked in 32 bits.
            let floats: Vec<f32> = data.iter().map(|x| f32::from(*x)).collect();
            let (mut reals, mut places) = (vec![0.0; count], vec![0i64; count]);
            plan.run(&Threads::new(2), &floats, &mut reals, &mut places);
            let reals: Vec<i8> = reals.into_iter().map(|x| x as i8).collect();
            let places = places.into_iter().map(|p| p as i32).collect();
            prop_assert_eq!((reals, places), (values.clone(), positions.clone()));
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
