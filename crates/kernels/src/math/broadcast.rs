//! Broadcasting: walks over operands of different shapes as if each had the shape of the result.

use crate::base::par::Threads;
use crate::base::strides::dense_strides;
use std::ops::Range;

/// The axes of a result and, for each of `N` operands, its stride along the axis: 0 if the operand
/// is broadcast. Axes are merged as far as possible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broadcast<const N: usize> {
    /// Outer axes, outermost first.
    outer: Vec<(usize, [usize; N])>,
    /// Elements of a row: the innermost axis.
    row: usize,
    /// Strides along a row: 0 or 1.
    steps: [usize; N],
}

/// Elements that are worth a second thread, for cheap arithmetic.
const GRAIN: usize = 32 << 10;

impl<const N: usize> Broadcast<N> {
    /// Operands of `sizes`, aligned at their last axes and broadcast to the shape of the result.
    ///
    /// # Panics
    /// When an operand cannot be broadcast to the result.
    pub fn new(result: &[usize], sizes: [&[usize]; N]) -> Broadcast<N> {
        let strides = sizes.map(|operand| {
            let missing = result.len() - operand.len();
            let dense = dense_strides(operand);
            let stride = |axis: usize| {
                let inner = axis.checked_sub(missing)?;
                assert!(operand[inner] == 1 || operand[inner] == result[axis], "shapes differ");
                (operand[inner] != 1).then_some(dense[inner] as usize)
            };
            (0..result.len()).map(|axis| stride(axis).unwrap_or(0)).collect::<Vec<usize>>()
        });
        let mut axes: Vec<(usize, [usize; N])> = Vec::new();
        for (axis, &size) in result.iter().enumerate() {
            if size == 1 {
                continue;
            }
            let here = std::array::from_fn(|k| strides[k][axis]);
            let continues = |outer: &[usize; N]| (0..N).all(|k| outer[k] == here[k] * size);
            match axes.last_mut() {
                Some((merged, outer)) if continues(outer) => {
                    (*merged, *outer) = (*merged * size, here);
                }
                _ => axes.push((size, here)),
            }
        }
        // If a stride is neither 0 nor 1, a row is a single element.
        match axes.pop() {
            Some((row, steps)) if steps.iter().all(|s| *s <= 1) => {
                Broadcast { outer: axes, row, steps }
            }
            last => {
                axes.extend(last);
                Broadcast { outer: axes, row: 1, steps: [0; N] }
            }
        }
    }

    /// Elements of the result.
    pub fn count(&self) -> usize {
        self.row * self.outer.iter().map(|(size, _)| size).product::<usize>()
    }

    /// Strides along a row: 0 for an operand that is constant along it, else 1.
    pub fn steps(&self) -> [usize; N] {
        self.steps
    }

    /// Whether operand `k` is read once, from its first element to its last.
    pub fn is_dense(&self, k: usize) -> bool {
        self.outer.is_empty() && (self.steps[k] == 1 || self.row == 1)
    }

    /// Number of elements of operand `k` that the walk reaches; 0 if the result is empty.
    pub fn reach(&self, k: usize) -> usize {
        if self.count() == 0 {
            return 0;
        }
        let last = self.outer.iter().map(|(size, strides)| (size - 1) * strides[k]);
        last.sum::<usize>() + (self.row - 1) * self.steps[k] + 1
    }

    /// Calls `f(first element of the result, elements, first elements of the operands)` for every
    /// row or part of a row, on all threads.
    pub fn rows(&self, threads: &Threads, f: impl Fn(usize, usize, [usize; N]) + Sync) {
        let count = self.count();
        if self.outer.is_empty() {
            threads
                .par_ranges(count, GRAIN, |r| f(r.start, r.len(), self.steps.map(|s| s * r.start)));
            return;
        }
        threads.par_ranges(count / self.row.max(1), GRAIN.div_ceil(self.row.max(1)), |rows| {
            walk(&self.outer, rows, |row, at| f(row * self.row, self.row, at));
        });
    }

    /// Elements of a row, and the operands' strides along the next outer axis; `None` if all is one
    /// row.
    pub fn row(&self) -> Option<(usize, [usize; N])> {
        self.outer.last().map(|(_, strides)| (self.row, *strides))
    }

    /// As [`Self::rows`], for up to `most` rows along one axis at a time: calls
    /// `f(first element of the result, rows, first elements of the operands)`. Does nothing if all
    /// is one row.
    pub fn some_rows(
        &self,
        threads: &Threads,
        most: usize,
        f: impl Fn(usize, usize, [usize; N]) + Sync,
    ) {
        let Some((&(size, strides), outer)) = self.outer.split_last() else { return };
        let count = self.count() / self.row.max(1);
        threads.par_ranges(count, GRAIN.div_ceil(self.row.max(1)), |rows| {
            let runs = rows.start / size.max(1)..rows.end.div_ceil(size.max(1));
            walk(outer, runs, |run, at| {
                let end = size.min(rows.end - run * size);
                let mut i = rows.start.saturating_sub(run * size);
                while i < end {
                    let some = most.min(end - i);
                    let starts = std::array::from_fn(|k| at[k] + i * strides[k]);
                    f((run * size + i) * self.row, some, starts);
                    i += some;
                }
            });
        });
    }
}

/// Calls `f` for a range of indices over some axes, with the offset in each operand.
fn walk<const N: usize>(
    axes: &[(usize, [usize; N])],
    range: Range<usize>,
    mut f: impl FnMut(usize, [usize; N]),
) {
    let mut index = vec![0; axes.len()];
    let mut at = [0; N];
    let mut rest = range.start;
    for (slot, (size, strides)) in index.iter_mut().zip(axes).rev() {
        *slot = rest % size;
        rest /= size;
        (0..N).for_each(|k| at[k] += *slot * strides[k]);
    }
    for i in range {
        f(i, at);
        for (slot, (size, strides)) in index.iter_mut().zip(axes).rev() {
            *slot += 1;
            (0..N).for_each(|k| at[k] += strides[k]);
            if *slot < *size {
                break;
            }
            *slot = 0;
            (0..N).for_each(|k| at[k] -= strides[k] * size);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::Mutex;

    /// Offsets in the operand for each element of the result, by the definition.
    fn reference(result: &[usize], operand: &[usize]) -> Vec<usize> {
        let strides = dense_strides(operand);
        let count: usize = result.iter().product();
        let position = |mut i: usize| {
            let mut at = 0;
            for axis in (0..result.len()).rev() {
                let index = i % result[axis];
                i /= result[axis];
                if let Some(inner) = (axis + operand.len()).checked_sub(result.len())
                    && operand[inner] != 1
                {
                    at += index * strides[inner] as usize;
                }
            }
            at
        };
        (0..count).map(position).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn rows_visit_what_the_definition_says(
            axes in proptest::collection::vec((1usize..5, any::<bool>(), any::<bool>()), 0..5),
            (cut_a, cut_b) in (0usize..3, 0usize..3),
        ) {
            let result: Vec<usize> = axes.iter().map(|a| a.0).collect();
            let pick = |repeat: bool, size: usize| if repeat { 1 } else { size };
            let a: Vec<usize> = axes.iter().map(|x| pick(x.1, x.0)).collect();
            let b: Vec<usize> = axes.iter().map(|x| pick(x.2, x.0)).collect();
            // Leading axes may be missing in operands, where they are broadcast anyway.
            let cut = |v: &[usize], n: usize| {
                let ones = v.iter().take_while(|s| **s == 1).count();
                v[n.min(ones)..].to_vec()
            };
            let (a, b) = (cut(&a, cut_a), cut(&b, cut_b));
            let plan = Broadcast::new(&result, [&a, &b]);
            let found = Mutex::new(vec![(0, 0); plan.count()]);
            plan.rows(Threads::single(), |first, len, at| {
                for i in 0..len {
                    let steps = plan.steps();
                    found.lock().unwrap()[first + i] = (at[0] + i * steps[0], at[1] + i * steps[1]);
                }
            });
            let expected: Vec<(usize, usize)> =
                reference(&result, &a).into_iter().zip(reference(&result, &b)).collect();
            prop_assert_eq!(found.into_inner().unwrap(), &expected[..]);
            let Some((row, strides)) = plan.row() else { return Ok(()) };
            for most in [1, 2, 100] {
                let found = Mutex::new(vec![(9, 9); plan.count()]);
                plan.some_rows(&Threads::new(2), most, |first, rows, starts| {
                    assert!((1..=most).contains(&rows));
                    for i in 0..rows * row {
                        let at = |k: usize| {
                            starts[k] + i / row * strides[k] + i % row * plan.steps()[k]
                        };
                        found.lock().unwrap()[first + i] = (at(0), at(1));
                    }
                });
                prop_assert_eq!(found.into_inner().unwrap(), &expected[..]);
            }
        }
    }

    #[test]
    fn axes_merge() {
        let plan = Broadcast::new(&[2, 3, 4, 5], [&[2, 3, 4, 5], &[4, 5]]);
        assert_eq!((plan.row, plan.steps(), plan.outer.len()), (20, [1, 1], 1));
        let plan = Broadcast::new(&[2, 3], [&[2, 3], &[2, 1]]);
        assert_eq!((plan.row, plan.steps()), (3, [1, 0]));
        assert!(Broadcast::new(&[2, 3], [&[2, 3]]).is_dense(0));
    }
}
