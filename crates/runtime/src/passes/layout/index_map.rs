//! An index map: where the elements of a value come from, if it is made by moving those of another.

use crate::graph::net::ValueId;
use crate::kernel::{Kernel, Movement, Reuse};
use kernels::copy::gcd;
use kernels::par::Threads;

/// Runs shorter than this are not worth a table.
const MIN_RUN: usize = 8;

/// The longest table, in entries.
const ENTRIES: usize = 1 << 20;

/// A value as a list of runs of another value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Map {
    /// The value whose elements are moved.
    pub(crate) source: ValueId,
    /// Elements per run.
    pub(crate) run: usize,
    /// For each run of the value, the index of the run in the source.
    pub(crate) runs: Vec<u32>,
    /// How many copies of memory the map replaces.
    pub(crate) copies: usize,
}

impl Map {
    /// The identity map of a value of `count` elements.
    pub(crate) fn whole(source: ValueId, count: usize) -> Map {
        Map { source, run: count, runs: vec![0], copies: 0 }
    }

    /// The same map in shorter runs.
    fn refined(&self, run: usize) -> Vec<u32> {
        let parts = (self.run / run) as u32;
        self.runs.iter().flat_map(|r| (0..parts).map(move |i| r * parts + i)).collect()
    }

    /// The same map in runs as long as possible.
    pub(crate) fn longest(&self) -> Map {
        let breaks = (1..self.runs.len()).filter(|i| self.runs[*i] != self.runs[i - 1] + 1);
        let together = breaks.fold(self.runs.len(), gcd);
        let together =
            self.runs.iter().step_by(together).fold(together, |n, r| gcd(n, *r as usize));
        let runs = self.runs.iter().step_by(together).map(|r| r / together as u32).collect();
        Map { run: self.run * together, runs, ..self.clone() }
    }

    /// The same map in runs of `run` elements, or `None` if its runs are shorter.
    pub(crate) fn in_runs(&self, run: usize) -> Option<Map> {
        let longest = self.longest();
        let whole = longest.run.is_multiple_of(run);
        whole.then(|| Map { run, runs: longest.refined(run), ..self.clone() })
    }

    /// The map of output `output`, of `count` elements, of a kernel that moves this value.
    pub(crate) fn moved_by(&self, kernel: &dyn Kernel, output: usize, count: usize) -> Option<Map> {
        const WIDTH: usize = size_of::<f32>();
        if let Reuse::Views(views) = kernel.reuse() {
            let view = views.get(output).filter(|v| v.input == 0)?;
            let start = view.offset / WIDTH;
            let run = gcd(gcd(self.run, start), count);
            let table = self.table(run, count)?;
            let runs = table[start / run..][..count / run].to_vec();
            return Some(Map { run, runs, ..self.clone() });
        }
        let (run, runs) = match kernel.movement()? {
            Movement::Roll(plan) => {
                let run = gcd(self.run, plan.granularity() / WIDTH);
                let table = self.table(run, count)?;
                let mut bytes = vec![0u8; table.len() * WIDTH];
                let from: Vec<u8> = table.iter().flat_map(|r| r.to_le_bytes()).collect();
                plan.in_runs(run * WIDTH, WIDTH).run(Threads::single(), &from, &mut bytes);
                let word = |b: &[u8]| u32::from_le_bytes([b[0], b[1], b[2], b[3]]);
                (run, bytes.chunks_exact(WIDTH).map(word).collect())
            }
            Movement::Copies(copies) => {
                let own = copies.iter().filter(|copy| copy.output == output);
                let run =
                    own.clone().fold(gcd(self.run, count), |n, c| gcd(n, c.plan.granularity()));
                if own.clone().any(|copy| copy.input != 0) {
                    return None;
                }
                let table = self.table(run, count)?;
                let mut runs = vec![0u32; count / run];
                own.for_each(|c| c.plan.in_runs(run).run(Threads::single(), &table, &mut runs));
                (run, runs)
            }
        };
        Some(Map { source: self.source, run, runs, copies: self.copies + 1 })
    }

    /// The table in runs of `run` elements, for a value of `count`, unless it would be too long.
    fn table(&self, run: usize, count: usize) -> Option<Vec<u32>> {
        let fits = run >= MIN_RUN && count / run <= ENTRIES;
        let own = self.run / run.max(1) * self.runs.len();
        (fits && own <= ENTRIES).then(|| self.refined(run))
    }

    /// The position in the source of an element of the value.
    pub(crate) fn at(&self, element: usize) -> usize {
        self.runs[element / self.run] as usize * self.run + element % self.run
    }

    /// The row stride of a matrix that begins at element `start`, if each row is contiguous in the
    /// source and all rows are evenly apart.
    pub(crate) fn stride(&self, start: usize, rows: usize, columns: usize) -> Option<usize> {
        let whole = |row: usize| {
            let first = start + row * columns;
            let last = first + columns - 1;
            (self.at(last) == self.at(first) + columns - 1 && self.is_run(first, last))
                .then(|| self.at(first))
        };
        let first = whole(0)?;
        let stride = match rows {
            0 | 1 => columns,
            _ => whole(1)?.checked_sub(first)?,
        };
        (1..rows).all(|row| whole(row) == Some(first + row * stride)).then_some(stride)
    }

    /// Whether elements `first..=last` are contiguous in the source.
    fn is_run(&self, first: usize, last: usize) -> bool {
        let (first, last) = (first / self.run, last / self.run);
        (first..last).all(|i| self.runs[i + 1] == self.runs[i] + 1)
    }

    /// The source as runs of the value, if the value holds each of its `count` elements exactly
    /// once.
    pub(crate) fn inverse(&self, count: usize) -> Option<Map> {
        let total = count / self.run;
        if total != self.runs.len() || !count.is_multiple_of(self.run) {
            return None;
        }
        let mut runs = vec![u32::MAX; total];
        for (i, &r) in self.runs.iter().enumerate() {
            *runs.get_mut(r as usize).filter(|slot| **slot == u32::MAX)? = i as u32;
        }
        Some(Map { runs, ..self.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Copy;
    use crate::kernel::movement::movement;
    use ir::ElementType::F32;
    use kernels::copy::CopyPlan;

    fn transposed(sizes: &[usize], order: &[usize]) -> Box<dyn Kernel> {
        let plan = CopyPlan::transpose(sizes, order);
        movement(F32, 1, vec![Copy { input: 0, output: 0, plan }]).unwrap()
    }

    #[test]
    fn two_transpositions_that_undo_each_other_are_the_value_itself() {
        let there = transposed(&[2, 3, 16], &[1, 0, 2]);
        let back = transposed(&[3, 2, 16], &[1, 0, 2]);
        let map = Map::whole(7, 96).moved_by(&*there, 0, 96).unwrap();
        assert_eq!((map.run, &map.runs[..], map.copies), (16, &[0, 3, 1, 4, 2, 5][..], 1));
        assert_eq!((map.at(17), map.stride(0, 2, 16)), (49, Some(48)));
        assert_eq!(map.inverse(96).unwrap().runs, [0, 2, 4, 1, 3, 5]);
        let whole = map.moved_by(&*back, 0, 96).unwrap().longest();
        assert_eq!((whole.run, &whole.runs[..], whole.copies), (96, &[0][..], 2));
    }

    #[test]
    fn short_runs_are_left_alone() {
        let kernel = transposed(&[2, 3, 4], &[0, 2, 1]);
        assert_eq!(Map::whole(0, 24).moved_by(&*kernel, 0, 24), None);
    }

    #[test]
    fn runs_are_joined_where_they_begin_at_a_multiple() {
        let map = Map { source: 0, run: 8, runs: vec![1, 2, 5, 6], copies: 1 };
        assert_eq!(map.longest(), map);
        let map = Map { source: 0, run: 8, runs: vec![2, 3, 6, 7], copies: 1 };
        assert_eq!((map.longest().run, map.longest().runs), (16, vec![1, 3]));
    }
}
