//! Strided copies: the kernel behind every operation that only moves elements.

mod row;

use crate::base::num::Pod;
use crate::base::par::{Slice, Threads};
pub use crate::base::strides::{dense_strides, gcd};
pub use row::Axis;
use row::{copy_long, copy_row, copy_strip, is_row, strips};
use std::ops::Range;

/// A copy between strided arrays, with axes merged as far as possible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyPlan {
    axes: Vec<Axis>,
    from: isize,
    to: isize,
}

/// Elements that are worth a second thread.
const GRAIN: usize = 16 << 10;

impl CopyPlan {
    /// A copy along `axes`, outermost first, from element `from` of the source to element `to` of
    /// the destination. No two steps may write the same element.
    pub fn new(axes: impl IntoIterator<Item = Axis>, from: isize, to: isize) -> CopyPlan {
        let mut merged: Vec<Axis> = Vec::new();
        let mut empty = false;
        for axis in axes {
            empty |= axis.size == 0;
            if axis.size == 1 {
                continue;
            }
            let size = axis.size as isize;
            match merged.last_mut() {
                Some(outer) if outer.from == axis.from * size && outer.to == axis.to * size => {
                    *outer = Axis { size: outer.size * axis.size, ..axis };
                }
                _ => merged.push(axis),
            }
        }
        if empty {
            merged = vec![Axis { size: 0, from: 0, to: 0 }];
        }
        CopyPlan { axes: merged, from, to }
    }

    /// Copies into a dense destination of `sizes` from a source with the given strides.
    pub fn gather(sizes: &[usize], strides: &[isize], from: isize) -> CopyPlan {
        CopyPlan::new(axes(sizes, strides, &dense_strides(sizes)), from, 0)
    }

    /// Copies a dense source of `sizes` into a destination with the given strides.
    pub fn scatter(sizes: &[usize], strides: &[isize], to: isize) -> CopyPlan {
        CopyPlan::new(axes(sizes, &dense_strides(sizes), strides), 0, to)
    }

    /// The transpose of a tensor of `sizes`: output axis `i` is input axis `order[i]`.
    pub fn transpose(sizes: &[usize], order: &[usize]) -> CopyPlan {
        let strides = dense_strides(sizes);
        let sizes: Vec<usize> = order.iter().map(|&axis| sizes[axis]).collect();
        let strides: Vec<isize> = order.iter().map(|&axis| strides[axis]).collect();
        CopyPlan::gather(&sizes, &strides, 0)
    }

    /// The copy from the destination back to the source.
    pub fn reversed(&self) -> CopyPlan {
        let inverse = |a: &Axis| Axis { size: a.size, from: a.to, to: a.from };
        CopyPlan::new(self.axes.iter().map(inverse), self.to, self.from)
    }

    /// Whether the copy is one run from the start of the source to the start of the destination.
    pub fn is_identity(&self) -> bool {
        self.as_run() == Some(0)
    }

    /// The offset in the source, if the copy is one run to the start of the destination.
    pub fn as_run(&self) -> Option<usize> {
        let run = matches!(self.axes[..], [] | [Axis { from: 1, to: 1, .. }]);
        (run && self.to == 0).then(|| usize::try_from(self.from).ok()).flatten()
    }

    /// The copy as a transposition of a dense tensor: the sizes of its axes, and for each axis of
    /// the destination that of the source. `None` for any other copy.
    pub fn as_transposition(&self) -> Option<(Vec<usize>, Vec<usize>)> {
        let dense = |stride: fn(&Axis) -> isize| {
            let mut order: Vec<&Axis> = self.axes.iter().collect();
            order.sort_by_key(|axis| std::cmp::Reverse(stride(axis)));
            let behind = order.iter().rev().try_fold(1, |behind, axis| {
                (stride(axis) == behind).then(|| behind * axis.size as isize)
            });
            behind.map(|_| order)
        };
        let (source, target) = (dense(|axis| axis.from)?, dense(|axis| axis.to)?);
        let place = |axis: &&Axis| source.iter().position(|other| std::ptr::eq(*other, *axis));
        let order = target.iter().map(place).collect::<Option<_>>()?;
        let sizes = source.iter().map(|axis| axis.size).collect();
        ((self.from, self.to) == (0, 0)).then_some((sizes, order))
    }

    /// The same copy of the bytes of elements of `size` bytes.
    pub fn in_bytes(&self, size: usize) -> CopyPlan {
        let size = size as isize;
        let scale = |a: &Axis| Axis { from: a.from * size, to: a.to * size, ..*a };
        let bytes = Axis { size: size as usize, from: 1, to: 1 };
        let axes = self.axes.iter().map(scale).chain([bytes]);
        CopyPlan::new(axes, self.from * size, self.to * size)
    }

    /// The largest number of elements such that the copy moves whole runs of that length, aligned
    /// to it.
    pub fn granularity(&self) -> usize {
        let offsets = gcd(self.from.unsigned_abs(), self.to.unsigned_abs());
        match self.axes.split_last() {
            None => gcd(offsets, 1),
            Some((last, outer)) if last.from == 1 && last.to == 1 => {
                let steps = |a: &Axis| gcd(a.from.unsigned_abs(), a.to.unsigned_abs());
                outer.iter().map(steps).fold(gcd(offsets, last.size), gcd)
            }
            Some(_) => 1,
        }
    }

    /// The same copy in runs of `run` elements; `run` divides [`CopyPlan::granularity`].
    pub fn in_runs(&self, run: usize) -> CopyPlan {
        let by = run as isize;
        let mut axes = self.axes.clone();
        if let Some(last) = axes.pop()
            && run > 1
        {
            for axis in &mut axes {
                (axis.from, axis.to) = (axis.from / by, axis.to / by);
            }
            axes.push(Axis { size: last.size / run, ..last });
            return CopyPlan::new(axes, self.from / by, self.to / by);
        }
        self.clone()
    }

    /// Number of elements copied.
    pub fn count(&self) -> usize {
        self.axes.iter().map(|a| a.size).product()
    }

    /// Copies.
    ///
    /// # Panics
    /// When the plan reaches past the end of either slice.
    pub fn run<T: Pod>(&self, threads: &Threads, from: &[T], to: &mut [T]) {
        run_all(threads, &[(self, from)], to);
    }

    /// Rows of the plan, and strips in each; both are divided among threads.
    fn parts(&self) -> (usize, usize) {
        let (outer, inner) = self.axes.split_at(self.inner_axes());
        (outer.iter().map(|a| a.size).product(), strips(inner))
    }

    /// Copies some of the strips, counted over all rows.
    ///
    /// # Safety
    /// Every position of the plan is within the slices, and no other thread writes those of these
    /// strips.
    unsafe fn run_part<T: Pod>(&self, parts: Range<usize>, from: &[T], to: Slice<T>) {
        let (outer, inner) = self.axes.split_at(self.inner_axes());
        let (rows, strips) = self.parts();
        debug_assert!(parts.end <= rows * strips);
        let mut at = Odometer::new(outer, parts.start / strips);
        for part in parts {
            let (source, target) = (self.from + at.from, self.to + at.to);
            // SAFETY: the caller's promise.
            unsafe {
                let (source, target) = (from.as_ptr().offset(source), to.at(target as usize));
                match *inner {
                    [a, b] => copy_strip([a, b], part % strips, source, target),
                    [axis] if strips > 1 => copy_long(axis, part % strips, source, target),
                    _ => copy_row(inner, source, target),
                }
            }
            if (part + 1).is_multiple_of(strips) {
                at.step(outer);
            }
        }
    }

    /// Number of axes outside of what one call of `copy_row` copies.
    fn inner_axes(&self) -> usize {
        match self.axes[..] {
            [.., a, b] if is_row(a, b) => self.axes.len() - 2,
            _ => self.axes.len().saturating_sub(1),
        }
    }

    /// Whether every step is known to write a different element: each stride exceeds what the axes
    /// with smaller strides reach.
    fn writes_once(&self) -> bool {
        let mut axes: Vec<(usize, usize)> =
            self.axes.iter().map(|axis| (axis.to.unsigned_abs(), axis.size)).collect();
        axes.sort_unstable();
        let beyond = |reach: usize, (stride, size): &(usize, usize)| {
            (*stride > reach).then(|| stride.saturating_mul(size - 1).saturating_add(reach))
        };
        axes.iter().try_fold(0, beyond).is_some()
    }

    fn check(&self, stride: impl Fn(&Axis) -> isize, start: isize, len: usize, what: &str) {
        let (mut low, mut high) = (start, start);
        for axis in &self.axes {
            let last = isize::try_from(axis.size - 1).unwrap_or(isize::MAX);
            let reach = stride(axis).saturating_mul(last);
            low = low.saturating_add(reach.min(0));
            high = high.saturating_add(reach.max(0));
        }
        assert!(low >= 0 && (high as usize) < len, "{low}..={high} of a {what} of {len} elements");
    }
}

/// Makes several copies to different elements of one destination as a single job: each thread has a
/// part of every copy.
///
/// # Panics
/// When a plan reaches past the end of its source or the destination.
pub fn run_all<T: Pod>(threads: &Threads, copies: &[(&CopyPlan, &[T])], to: &mut [T]) {
    let (mut count, mut most) = (0, 0);
    for (plan, from) in copies.iter().filter(|(plan, _)| plan.count() > 0) {
        plan.check(|a| a.from, plan.from, from.len(), "source");
        plan.check(|a| a.to, plan.to, to.len(), "destination");
        debug_assert!(plan.writes_once(), "an element is written twice: {plan:?}");
        let (rows, strips) = plan.parts();
        (count, most) = (count + plan.count(), most.max(rows * strips));
    }
    let to = Slice::new(to);
    // Each part is worth a thread. Of each copy a part has a range of its own.
    let all = count.div_ceil(GRAIN).min(most);
    threads.par_ranges(all, 1, |range| {
        for (plan, from) in copies.iter().filter(|(plan, _)| plan.count() > 0) {
            let (rows, strips) = plan.parts();
            let start = |at: usize| rows * strips / all * at + rows * strips % all * at / all;
            // SAFETY: `check` has shown that every position is within the slices; different parts
            // of one plan, and different plans, write different elements.
            unsafe { plan.run_part(start(range.start)..start(range.end), from, to) };
        }
    });
}

fn axes<'a>(
    sizes: &'a [usize],
    from: &'a [isize],
    to: &'a [isize],
) -> impl Iterator<Item = Axis> + 'a {
    let strides = from.iter().zip(to);
    sizes.iter().zip(strides).map(|(&size, (&from, &to))| Axis { size, from, to })
}

/// The indices along the outer axes, and their offsets.
struct Odometer {
    index: Vec<usize>,
    from: isize,
    to: isize,
}

impl Odometer {
    fn new(axes: &[Axis], row: usize) -> Odometer {
        let mut at = Odometer { index: vec![0; axes.len()], from: 0, to: 0 };
        let mut rest = row;
        for (i, axis) in axes.iter().enumerate().rev() {
            at.index[i] = rest % axis.size;
            rest /= axis.size;
            at.from += at.index[i] as isize * axis.from;
            at.to += at.index[i] as isize * axis.to;
        }
        at
    }

    fn step(&mut self, axes: &[Axis]) {
        for (i, axis) in axes.iter().enumerate().rev() {
            self.from += axis.from;
            self.to += axis.to;
            self.index[i] += 1;
            if self.index[i] < axis.size {
                return;
            }
            self.from -= axis.from * axis.size as isize;
            self.to -= axis.to * axis.size as isize;
            self.index[i] = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_copied_as_elements_are() {
        // Axes 0 and 1 are swapped; the last one stays.
        let plan = CopyPlan::transpose(&[3, 4, 6], &[1, 0, 2]);
        assert_eq!(plan.granularity(), 6);
        let from: Vec<u32> = (0..72).collect();
        let (mut elements, mut table) = (vec![0; 72], vec![0u32; 24]);
        plan.run(Threads::single(), &from, &mut elements);
        let runs: Vec<u32> = (0..24).collect();
        plan.in_runs(3).run(Threads::single(), &runs, &mut table);
        let spread: Vec<u32> = table.iter().flat_map(|r| (0..3).map(move |i| r * 3 + i)).collect();
        assert_eq!(spread, elements);
        assert_eq!(CopyPlan::transpose(&[3, 4], &[1, 0]).granularity(), 1);
        // Columns 2..4 of 6.
        assert_eq!(CopyPlan::gather(&[5, 2], &[6, 1], 2).granularity(), 2);
    }

    #[test]
    fn transpositions_are_known() {
        let found = CopyPlan::transpose(&[3, 4, 1, 6], &[3, 1, 2, 0]).as_transposition();
        assert_eq!(found, Some((vec![3, 4, 6], vec![2, 1, 0])));
        assert_eq!(
            CopyPlan::transpose(&[3, 4], &[0, 1]).as_transposition(),
            Some((vec![12], vec![0]))
        );
        // A part, repetition, and the order of a flip.
        for (sizes, strides, from) in
            [([3, 2], [4, 1], 0), ([3, 4], [0, 1], 0), ([3, 4], [4, -1], 3)]
        {
            assert_eq!(CopyPlan::gather(&sizes, &strides, from).as_transposition(), None);
        }
    }

    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn transpositions_agree_with_the_definition(
            (sizes, order) in proptest::collection::vec(0usize..20, 0..5).prop_flat_map(|sizes| {
                let order: Vec<usize> = (0..sizes.len()).collect();
                (Just(sizes), Just(order).prop_shuffle())
            }),
        ) {
            let count: usize = sizes.iter().product();
            let from: Vec<u32> = (0..count as u32).collect();
            let mut to = vec![0; count];
            CopyPlan::transpose(&sizes, &order).run(&Threads::new(2), &from, &mut to);
            let strides = dense_strides(&sizes);
            for (i, found) in to.iter().enumerate() {
                let (mut rest, mut source) = (i, 0);
                for &axis in order.iter().rev() {
                    source += (rest % sizes[axis]) * strides[axis] as usize;
                    rest /= sizes[axis];
                }
                prop_assert_eq!(*found, from[source]);
            }
        }
    }

    /// Columns of one destination from several sources, as in Concat.
    #[test]
    fn copies_are_divided_together() {
        let widths = [300, 1, 0, 40, 7];
        let all: usize = widths.iter().sum();
        for rows in [1, 3, 200] {
            let source = |i: usize| -> Vec<u32> {
                (0..rows * widths[i]).map(|at| (i * 1_000_000 + at) as u32).collect()
            };
            let sources: Vec<Vec<u32>> = (0..widths.len()).map(source).collect();
            let start = |i: usize| widths[..i].iter().sum::<usize>();
            let plan = |i: usize| {
                CopyPlan::scatter(&[rows, widths[i]], &[all as isize, 1], start(i) as isize)
            };
            let plans: Vec<CopyPlan> = (0..widths.len()).map(plan).collect();
            let copies: Vec<_> = plans.iter().zip(&sources).map(|(p, s)| (p, &s[..])).collect();
            let row = |r: usize| {
                let own = sources.iter().zip(widths);
                own.flat_map(move |(s, width)| s[r * width..][..width].to_vec())
            };
            let expected: Vec<u32> = (0..rows).flat_map(row).collect();
            for threads in 1..4 {
                let mut to = vec![u32::MAX; rows * all];
                run_all(&Threads::new(threads), &copies, &mut to);
                assert_eq!(to, expected, "{rows} rows, {threads} threads");
            }
        }
    }

    #[test]
    fn transpositions_are_divided() {
        let threads = Threads::new(3);
        for [a, b] in [[500, 301], [7, 3001], [3001, 7], [1, 90]] {
            let from: Vec<u32> = (0..2 * a * b).map(|i| i as u32).collect();
            let mut to = vec![0; from.len()];
            CopyPlan::transpose(&[2, a, b], &[0, 2, 1]).run(&threads, &from, &mut to);
            let source = |i: usize| i / (a * b) * (a * b) + i % a * b + i % (a * b) / a;
            assert!((0..to.len()).all(|i| to[i] == from[source(i)]), "{a} by {b}");
        }
    }

    /// Too large for the caches, with rows that begin at cache lines and with others.
    #[test]
    fn large_transpositions_agree_with_the_definition() {
        let threads = Threads::new(2);
        for [a, b] in [[2064, 2050], [2050, 2064]] {
            let from: Vec<u32> = (0..a * b).map(|i| i as u32).collect();
            let mut to = vec![0u32; a * b + 16];
            let first = to.as_ptr().align_offset(64);
            for first in [first, first ^ 1] {
                let to = &mut to[first..][..a * b];
                CopyPlan::transpose(&[a, b], &[1, 0]).run(&threads, &from, to);
                let source = |i: usize| from[i % a * b + i / a];
                assert!(to.iter().enumerate().all(|(i, x)| *x == source(i)), "{a} by {b}");
            }
        }
    }

    #[test]
    fn strides_repeat_and_reverse() {
        let threads = Threads::new(1);
        let from = [1u8, 2, 3];
        let mut to = [0; 6];
        CopyPlan::gather(&[2, 3], &[0, -1], 2).run(&threads, &from, &mut to);
        assert_eq!(to, [3, 2, 1, 3, 2, 1]);
        CopyPlan::scatter(&[3], &[2], 1).run(&threads, &from, &mut to);
        assert_eq!(to, [3, 1, 1, 2, 2, 3]);
        CopyPlan::gather(&[2, 0], &[9, 9], 0).run(&threads, &from, &mut to);
        assert!(CopyPlan::transpose(&[4, 1, 5], &[1, 0, 2]).is_identity());
    }

    /// Three steps of this stride wrap around to two elements.
    #[test]
    #[should_panic(expected = "of a source of 8 elements")]
    fn plans_beyond_what_can_be_counted_are_refused() {
        let stride = (usize::MAX / 3 + 1) as isize;
        let axis = Axis { size: 4, from: stride, to: 1 };
        CopyPlan::new([axis], 0, 0).run(&Threads::new(1), &[0u8; 8], &mut [0; 4]);
    }

    #[test]
    #[cfg_attr(not(debug_assertions), ignore = "an assertion of development builds")]
    #[should_panic(expected = "an element is written twice")]
    fn plans_that_write_an_element_twice_are_noticed() {
        CopyPlan::scatter(&[2, 3], &[2, 1], 0).run(&Threads::new(1), &[1u8; 6], &mut [0; 6]);
    }

    #[test]
    #[should_panic(expected = "of a source of 3 elements")]
    fn plans_beyond_the_slices_are_refused() {
        CopyPlan::gather(&[4], &[1], 0).run(&Threads::new(1), &[1u8, 2, 3], &mut [0; 4]);
    }
}
