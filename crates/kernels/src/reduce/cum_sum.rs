//! Cumulative sums along an axis: one chain of additions in the wide type for each line.

use crate::base::num::{Stored, Wide as _};
use crate::base::par::{Slice, Threads};
use crate::base::slices::AlongAxis;
use crate::math::arithmetic::Arithmetic;

/// Lines that are summed together, as lanes.
const TILE: usize = 64;

/// Contiguous lines whose sums are interleaved.
const LINES: usize = 8;

/// Additions that are worth a second thread.
const GRAIN: usize = 16 << 10;

/// The options of a cumulative sum along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CumSum {
    /// The tensor, along the axis.
    pub along: AlongAxis,
    /// Whether an element is left out of its own sum.
    pub exclusive: bool,
    /// Whether sums start at the end.
    pub reverse: bool,
}

impl CumSum {
    /// Sums `from` into `to`; integers wrap.
    ///
    /// # Panics
    /// When a slice does not have these sizes.
    pub fn run<T: Stored>(&self, threads: &Threads, from: &[T], to: &mut [T])
    where
        T::Wide: Arithmetic,
    {
        let AlongAxis { outer, size, inner } = self.along;
        assert!(from.len() == self.along.count() && to.len() == from.len());
        if inner == 1 {
            return threads.par_chunks_mut(to, size * LINES, GRAIN, |first, part| {
                let from = &from[first * size * LINES..][..part.len()];
                let groups = part.chunks_mut(size * LINES).zip(from.chunks(size * LINES));
                groups.for_each(|(to, from)| self.lines(from, to));
            });
        }
        let (tiles, to) = (inner.div_ceil(TILE), Slice::new(to));
        let grain = GRAIN.div_ceil(size.max(1) * TILE.min(inner.max(1)));
        threads.par_ranges(outer * tiles, grain, |range| {
            for tile in range {
                let (line, first) = (tile / tiles * size, tile % tiles * TILE);
                let width = TILE.min(inner - first);
                let mut sums = [T::Wide::default(); TILE];
                for step in 0..size {
                    let row = if self.reverse { size - 1 - step } else { step };
                    let at = (line + row) * inner + first;
                    // SAFETY: tiles are disjoint parts of the output.
                    let to = unsafe { to.part(at, width) };
                    self.step(&from[at..at + width], &mut sums, to);
                }
            }
        });
    }

    /// Sums contiguous lines. [`LINES`] of them are interleaved, since one alone is bound by the
    /// latency of additions.
    fn lines<T: Stored>(&self, from: &[T], to: &mut [T])
    where
        T::Wide: Arithmetic,
    {
        let size = self.along.size;
        let mut sums = [T::Wide::default(); LINES];
        let count = from.len() / size;
        let lines = sums.iter_mut().take(count);
        if count < LINES {
            for ((sum, from), to) in lines.zip(from.chunks(size)).zip(to.chunks_mut(size)) {
                for step in 0..size {
                    let at = if self.reverse { size - 1 - step } else { step };
                    let own = std::slice::from_mut(sum);
                    self.step(&from[at..=at], own, &mut to[at..=at]);
                }
            }
            return;
        }
        for step in 0..size {
            let at = if self.reverse { size - 1 - step } else { step };
            for line in 0..LINES {
                let at = line * size + at;
                let next = sums[line].add(from[at].widen());
                to[at] = if self.exclusive { sums[line] } else { next }.narrow();
                sums[line] = next;
            }
        }
    }

    /// Adds a row to the sums.
    #[inline(always)]
    fn step<T: Stored>(&self, from: &[T], sums: &mut [T::Wide], to: &mut [T])
    where
        T::Wide: Arithmetic,
    {
        for ((to, x), sum) in to.iter_mut().zip(from).zip(sums) {
            let next = sum.add(x.widen());
            *to = if self.exclusive { *sum } else { next }.narrow();
            *sum = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_lines() {
        let from: Vec<i32> = (0..2 * 3 * 70).map(|i| i * i % 101).collect();
        for (exclusive, reverse) in [(false, false), (true, false), (false, true), (true, true)] {
            for sizes in [[2, 3, 70], [6, 70, 1], [20, 21, 1], [1, 420, 1], [1, 5, 84]] {
                let along = AlongAxis::new(&sizes, 1);
                let mut to = vec![0; from.len()];
                CumSum { along, exclusive, reverse }.run(&Threads::new(2), &from, &mut to);
                let [_, size, inner] = sizes;
                for (i, sum) in to.iter().enumerate() {
                    let (own, first) = (i / inner % size, i - i / inner % size * inner);
                    let counts = |k: &usize| {
                        if reverse {
                            *k > own || *k == own && !exclusive
                        } else {
                            *k < own || *k == own && !exclusive
                        }
                    };
                    let expected: i32 =
                        (0..size).filter(counts).map(|k| from[first + k * inner]).sum();
                    assert_eq!(*sum, expected, "{sizes:?} {i}");
                }
            }
        }
    }

    #[test]
    fn integers_wrap() {
        let mut to = [0u8; 2];
        let along = AlongAxis { outer: 1, size: 2, inner: 1 };
        let plan = CumSum { along, exclusive: false, reverse: false };
        plan.run(Threads::single(), &[200, 100], &mut to);
        assert_eq!(to, [200, 44]);
    }
}
