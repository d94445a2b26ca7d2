//! Reductions along axes.
//!
//! A sum along a row uses sixteen lanes, which are added in a fixed tree. Long rows are cut into
//! parts whose sums are added in pairs. A sum over rows adds row after row; many rows are added in
//! eight blocks, whose sums are added in order, unless they are integers. Sizes and type alone
//! decide which of these runs, so the bits are the same everywhere.

pub mod cum_sum;
mod fold;
mod rows;
pub mod segment;

use crate::base::num::{Bool, Stored, Wide as _};
use crate::base::par::Threads;
use crate::base::slices::{LONG_ROW, PART, Pairs, position};
use crate::math::arithmetic::Arithmetic;
use crate::multiversion;
pub use fold::Scale;
use fold::{And, Fold, L1, L2, Max, Min, Or, Prod, StoredScale, Sum};
use rows::{GRAIN, LANES, over_rows};
pub(crate) use rows::{ReducedRows, add_rows, means};

/// What is computed from the elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// Sum; integers wrap.
    Sum,
    /// Sum divided by the number of elements; integers truncate.
    Mean,
    /// Product; integers wrap.
    Prod,
    /// Maximum.
    Max,
    /// Minimum.
    Min,
    /// Sum of absolute values.
    L1,
    /// Square root of the sum of squares.
    L2,
}

/// What is computed from booleans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Logic {
    /// Whether all are true.
    And,
    /// Whether any is true.
    Or,
}

/// Axes of the input, outermost first: size, and whether it is reduced. Merged, so that reduced
/// axes and others alternate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReducePlan {
    groups: Vec<(usize, bool)>,
}

/// Up to so many elements of rows are reduced by one thread, if there are several such parts.
const WHOLE_PART: usize = 4 * GRAIN;

impl ReducePlan {
    /// The reduction of a tensor of `sizes` along `axes`.
    pub fn new(sizes: &[usize], axes: &[usize]) -> ReducePlan {
        let mut groups: Vec<(usize, bool)> = Vec::new();
        for (axis, &size) in sizes.iter().enumerate() {
            let reduced = axes.contains(&axis);
            match groups.last_mut() {
                _ if size == 1 => {}
                Some((merged, last)) if *last == reduced => *merged *= size,
                _ => groups.push((size, reduced)),
            }
        }
        ReducePlan { groups }
    }

    /// Elements of the output.
    pub fn count(&self) -> usize {
        self.groups.iter().filter(|g| !g.1).map(|g| g.0).product()
    }

    /// Elements that are reduced to one output element.
    pub fn reduced(&self) -> usize {
        self.groups.iter().filter(|g| g.1).map(|g| g.0).product()
    }

    /// Reduces.
    ///
    /// # Panics
    /// When the slices do not have the sizes of the plan.
    pub fn run<T: Stored>(&self, threads: &Threads, reduction: Reduction, from: &[T], to: &mut [T])
    where
        T::Wide: Arithmetic + Scale,
    {
        match reduction {
            Reduction::Sum => self.reduce(threads, Sum(1), from, to),
            Reduction::Mean => self.reduce(threads, Sum(self.reduced()), from, to),
            Reduction::Prod => self.reduce(threads, Prod, from, to),
            Reduction::Max => self.reduce(threads, Max, from, to),
            Reduction::Min => self.reduce(threads, Min, from, to),
            Reduction::L1 => self.reduce(threads, L1, from, to),
            Reduction::L2 => self.reduce(threads, L2, from, to),
        }
    }

    /// As [`ReducePlan::run`], of booleans.
    ///
    /// # Panics
    /// When the slices do not have the sizes of the plan.
    pub fn run_logic(&self, threads: &Threads, logic: Logic, from: &[Bool], to: &mut [Bool]) {
        match logic {
            Logic::And => self.reduce(threads, And, from, to),
            Logic::Or => self.reduce(threads, Or, from, to),
        }
    }

    fn reduce<T: Stored, F: Fold>(&self, threads: &Threads, f: F, from: &[T], to: &mut [T])
    where
        T::Wide: Arithmetic + Scale,
    {
        assert_eq!(to.len(), self.count());
        assert_eq!(from.len(), self.count() * self.reduced());
        if self.reduced() == 0 {
            to.fill(f.empty::<T::Wide>().narrow());
            return;
        }
        match self.groups[..] {
            // Reduces along rows.
            [(row, true)] | [(_, false), (row, true)] => {
                threads.par_chunks_mut(to, 1, GRAIN.div_ceil(row), |first, part| {
                    for (i, to) in part.iter_mut().enumerate() {
                        *to = along(f, &from[(first + i) * row..][..row]);
                    }
                });
            }
            // Reduces over rows that are as long as the output, or as one of its parts.
            [(rows, true), (len, false)] | [(_, false), (rows, true), (len, false)] if len > 1 => {
                let part = rows * len;
                if part > WHOLE_PART || to.len() == len {
                    for (from, to) in from.chunks(part).zip(to.chunks_mut(len)) {
                        over_rows(threads, f, from, to);
                    }
                    return;
                }
                threads.par_chunks_mut(to, len, GRAIN.div_ceil(part), |first, parts| {
                    let from = from.chunks(part).skip(first);
                    for (from, to) in from.zip(parts.chunks_mut(len)) {
                        over_rows(Threads::single(), f, from, to);
                    }
                });
            }
            _ => self.general(threads, f, from, to),
        }
    }

    /// Sizes and strides of the reduced axes or of the others, innermost first.
    fn axes(&self, reduced: bool) -> Vec<(usize, usize)> {
        let mut stride = 1;
        let mut axes = Vec::new();
        for &(size, is_reduced) in self.groups.iter().rev() {
            if is_reduced == reduced {
                axes.push((size, stride));
            }
            stride *= size;
        }
        axes
    }

    /// Any order of axes, element by element.
    fn general<T: Stored, F: Fold>(&self, threads: &Threads, f: F, from: &[T], to: &mut [T])
    where
        T::Wide: Arithmetic + Scale,
    {
        let (kept, reduced) = (self.axes(false), self.axes(true));
        let count = self.reduced();
        threads.par_chunks_mut(to, 1, GRAIN.div_ceil(count.max(1)), |first, part| {
            for (i, to) in part.iter_mut().enumerate() {
                let base = place(&kept, first + i);
                let mut sum = f.start();
                for k in 0..count {
                    sum = f.step(sum, from[base + place(&reduced, k)].widen());
                }
                *to = f.finish(sum).narrow();
            }
        });
    }
}

/// As [`position`], compiled once for the reductions of all types.
#[inline(never)]
fn place(axes: &[(usize, usize)], i: usize) -> usize {
    position(axes, i)
}

multiversion! {
    wide if !T::Wide::IS_INTEGER, vectors if size_of::<T>() == size_of::<f32>();
    /// Reduces one row; a long one in parts. Not compiled for AVX-512 with integers: the maximum of
    /// a row would take two to five times as long.
    fn along<F: Fold, T: StoredScale>(f: F, row: &[T]) -> T {
        if row.len() <= LONG_ROW {
            return f.finish(in_lanes(f, row)).narrow();
        }
        let (start, meet) = (f.start::<T::Wide>(), |a, b| f.meet(a, b));
        let mut pairs = Pairs::new(start);
        for part in row.chunks(PART) {
            pairs.push(in_lanes(f, part), meet);
        }
        f.finish(pairs.sum(start, meet)).narrow()
    }
}

/// Reduces a row in lanes: one lane for every sixteenth element, then folded in halves. Lanes take
/// two elements at a time, as columns take rows.
#[inline(always)]
fn in_lanes<F: Fold, T: StoredScale>(f: F, row: &[T]) -> T::Wide {
    let mut lanes = [f.start::<T::Wide>(); LANES];
    let (pairs, rest) = row.as_chunks::<{ 2 * LANES }>();
    for pair in pairs {
        for i in 0..LANES {
            lanes[i] = f.step(f.step(lanes[i], pair[i].widen()), pair[LANES + i].widen());
        }
    }
    for group in rest.chunks(LANES) {
        for (lane, x) in lanes.iter_mut().zip(group) {
            *lane = f.step(*lane, x.widen());
        }
    }
    let mut half = LANES / 2;
    while half > 0 {
        for i in 0..half {
            lanes[i] = f.meet(lanes[i], lanes[i + half]);
        }
        half /= 2;
    }
    lanes[0]
}

#[cfg(test)]
mod tests {
    use super::rows::LONG_COLUMNS;
    use super::*;
    use proptest::prelude::*;

    /// Sums by index, in f64.
    fn reference(sizes: &[usize], axes: &[usize], from: &[f32]) -> Vec<f64> {
        let kept: Vec<usize> = (0..sizes.len()).filter(|a| !axes.contains(a)).collect();
        let count = kept.iter().map(|a| sizes[*a]).product();
        let mut to = vec![0.0; count];
        for (i, x) in from.iter().enumerate() {
            let (mut rest, mut index) = (i, vec![0; sizes.len()]);
            for axis in (0..sizes.len()).rev() {
                index[axis] = rest % sizes[axis];
                rest /= sizes[axis];
            }
            let target = kept.iter().fold(0, |at, a| at * sizes[*a] + index[*a]);
            to[target] += f64::from(*x);
        }
        to
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn sums_agree_with_the_definition(
            axes in proptest::collection::vec((1usize..9, any::<bool>()), 0..5),
        ) {
            let sizes: Vec<usize> = axes.iter().map(|a| a.0).collect();
            let reduced: Vec<usize> = (0..axes.len()).filter(|i| axes[*i].1).collect();
            let count: usize = sizes.iter().product();
            let from: Vec<f32> = (0..count).map(|i| ((i * 37 % 101) as f32) * 0.25).collect();
            let plan = ReducePlan::new(&sizes, &reduced);
            let mut to = vec![0f32; plan.count()];
            plan.run(&Threads::new(2), Reduction::Sum, &from, &mut to);
            // Multiples of a quarter below 2^22 are added exactly.
            let expected = reference(&sizes, &reduced, &from);
            prop_assert!(to.iter().zip(&expected).all(|(a, b)| f64::from(*a) == *b));
        }
    }

    /// Columns by one cache line, by four, and the rest; rows one by one and in blocks.
    #[test]
    fn sums_of_many_columns_agree_with_the_definition() {
        for (rows, len) in [7, 31, 32, 49, 65]
            .into_iter()
            .flat_map(|rows| [2, 16, 24, 100, 511, 512, 560, 601, 4099].map(|len| (rows, len)))
        {
            for parts in [1, 3] {
                let sizes = [parts, rows, len];
                let count = sizes.iter().product();
                let from: Vec<f32> = (0..count).map(|i| (i * 37 % 101) as f32 * 0.25).collect();
                let mut to = vec![0f32; parts * len];
                let plan = ReducePlan::new(&sizes, &[1]);
                plan.run(&Threads::new(2), Reduction::Sum, &from, &mut to);
                let expected = reference(&sizes, &[1], &from);
                let same = to.iter().zip(&expected).all(|(a, b)| f64::from(*a) == *b);
                assert!(same, "{parts} times {rows} rows of {len}");
            }
        }
    }

    /// The error does not grow with the row, and no element is left out.
    #[test]
    fn long_rows_are_added_in_pairs() {
        for len in [LONG_ROW + 1, 3 * LONG_ROW + PART + 5, 1 << 20] {
            let row: Vec<f32> = (0..len).map(|i| (i * 37 % 1009) as f32 / 1009.0 + 0.1).collect();
            let exact: f64 = row.iter().map(|x| f64::from(*x)).sum();
            let plan = ReducePlan::new(&[1, len], &[1]);
            let mut sum = [0f32];
            plan.run(Threads::single(), Reduction::Sum, &row, &mut sum);
            let error = (f64::from(sum[0]) - exact).abs() / exact;
            assert!(error <= 2f64.powi(-22), "{len}: {error}");
            let row: Vec<i64> = (0..len as i64).collect();
            let mut sum = [0i64];
            plan.run(Threads::single(), Reduction::Sum, &row, &mut sum);
            assert_eq!(sum, [(len as i64 - 1) * len as i64 / 2]);
        }
    }

    #[test]
    fn many_rows_are_added_in_blocks() {
        for (rows, len) in [(31, 20), (32, 20), (196, 70), (1000, 3), (50, 4200)] {
            let from: Vec<f32> = (0..rows * len).map(|i| ((i * 37 % 101) as f32).sqrt()).collect();
            let mut expected = vec![0f32; len];
            for block in from.chunks(if rows < 32 { rows } else { rows.div_ceil(8) } * len) {
                for (column, sum) in expected.iter_mut().enumerate() {
                    *sum += block.iter().skip(column).step_by(len).sum::<f32>();
                }
            }
            for threads in 1..4 {
                let mut to = vec![0f32; len];
                let plan = ReducePlan::new(&[rows, len], &[0]);
                plan.run(&Threads::new(threads), Reduction::Sum, &from, &mut to);
                assert_eq!(to, expected, "{rows} rows of {len}, {threads} threads");
            }
        }
    }

    /// The first of equal zeros stays, and NaN never does, in whatever parts rows are read.
    #[test]
    fn maxima_of_long_columns_keep_the_first() {
        let (rows, len) = (67, 2 * LONG_COLUMNS + 1);
        let values = [-3.0, f32::NAN, -0.0, 0.0, -1.0];
        let from: Vec<f32> = (0..rows * len).map(|i| values[i * 7 % 11 % 5]).collect();
        let column = |i: usize| from.iter().skip(i).step_by(len);
        let mut to = vec![0f32; len];
        ReducePlan::new(&[rows, len], &[0]).run(&Threads::new(2), Reduction::Max, &from, &mut to);
        for (i, found) in to.iter().enumerate() {
            let expected = column(i).fold(f32::NEG_INFINITY, |a, x| if a < *x { *x } else { a });
            assert_eq!(found.to_bits(), expected.to_bits(), "column {i}");
        }
    }

    #[test]
    fn each_reduction() {
        let run = |r, v: &[i32]| {
            let mut to = [0];
            ReducePlan::new(&[v.len()], &[0]).run(Threads::single(), r, v, &mut to);
            to[0]
        };
        let v = [3, -4, 0, 5];
        assert_eq!(run(Reduction::Mean, &v), 1);
        assert_eq!(run(Reduction::Prod, &v), 0);
        assert_eq!((run(Reduction::Max, &v), run(Reduction::Min, &v)), (5, -4));
        assert_eq!((run(Reduction::L1, &v), run(Reduction::L2, &[3, -4, 1])), (12, 5));
        let mut root = [0u32];
        let plan = ReducePlan::new(&[4], &[0]);
        plan.run(Threads::single(), Reduction::L2, &[7u32, 3, 2, 1], &mut root);
        assert_eq!(root, [7], "the root of 63 is truncated");
        let truth = |logic, of: [u8; 2]| {
            let mut to = [Bool(7)];
            let plan = ReducePlan::new(&[2], &[0]);
            plan.run_logic(Threads::single(), logic, &of.map(Bool), &mut to);
            to[0].0
        };
        assert_eq!((truth(Logic::And, [1, 0]), truth(Logic::Or, [1, 0])), (0, 1));
        assert_eq!((truth(Logic::And, [1, 1]), truth(Logic::Or, [0, 0])), (1, 0));
        assert_eq!(run(Reduction::Sum, &[i32::MAX, 1]), i32::MIN);
    }

    #[test]
    fn empty_axes_give_the_start() {
        let mut to = [7f32; 2];
        let plan = ReducePlan::new(&[2, 0], &[1]);
        plan.run(Threads::single(), Reduction::Prod, &[], &mut to);
        assert_eq!(to, [1.0, 1.0]);
        plan.run(Threads::single(), Reduction::Max, &[], &mut to);
        assert_eq!(to, [f32::MIN; 2]);
        ReducePlan::new(&[1, 2], &[1]).run(
            Threads::single(),
            Reduction::Max,
            &[f32::NEG_INFINITY; 2],
            &mut to[..1],
        );
        assert_eq!(to[0], f32::NEG_INFINITY);
    }
}
