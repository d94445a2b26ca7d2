//! Local response normalisation: elements divided by a power of the sum of squares around them. f16
//! and bf16 are computed in f32.

use crate::base::num::Wide;
use crate::base::par::Threads;
use crate::base::slices::AlongAxis;
use crate::math::real::{Real, StoredReal};
use crate::multiversion;

/// Elements that are worth a second thread.
const GRAIN: usize = 8 << 10;

/// Neighbouring elements whose sums stay in L1 until they are divided by.
const BLOCK: usize = 1024;

/// Divides elements by `(bias + alpha * sum of squares)^beta`.
#[derive(Clone, Debug, PartialEq)]
pub struct Lrn {
    /// Sizes of the tensor.
    pub sizes: Vec<usize>,
    /// Axes along which squares are summed, each once.
    pub axes: Vec<usize>,
    /// Elements on each side that are summed.
    pub reach: usize,
    /// Factor of the sum.
    pub alpha: f64,
    /// The power.
    pub beta: f64,
    /// Added to the sum.
    pub bias: f64,
}

impl Lrn {
    /// Numbers of scratch for each element of the tensor: the sums along all axes but the last are
    /// kept.
    pub fn kept(&self) -> usize {
        self.axes.len().saturating_sub(1).min(2)
    }

    /// Normalises `from` into `to`. Of the scratch, the first [`Self::kept`] slices are used.
    ///
    /// # Panics
    /// When a slice does not have these sizes.
    pub fn run<T: StoredReal>(
        &self,
        threads: &Threads,
        from: &[T],
        [mut sums, mut next]: [&mut [T::Wide]; 2],
        to: &mut [T],
    ) {
        assert!(from.len() == self.sizes.iter().product() && to.len() == from.len());
        let along = |axis: &usize| AlongAxis::new(&self.sizes, *axis);
        // Without axes, the square of the element itself is summed.
        let alone = AlongAxis { outer: 1, size: 1, inner: from.len() };
        let (last, others) = self.axes.split_last().unwrap_or((&0, &[]));
        let last = if self.axes.is_empty() { alone } else { along(last) };
        for (i, axis) in others.iter().enumerate() {
            let terms = if i == 0 { Terms::Squares(from) } else { Terms::Sums(&*next) };
            let windows = Windows { terms, along: along(axis), reach: self.reach };
            threads.par_chunks_mut(sums, 1, GRAIN, |first, part| {
                windows.blocks(first, part, |at, sums| windows.sum(at, sums));
            });
            (sums, next) = (next, sums);
        }
        let terms = if others.is_empty() { Terms::Squares(from) } else { Terms::Sums(&*next) };
        let windows = Windows { terms, along: last, reach: self.reach };
        let Lrn { alpha, beta, bias, .. } = *self;
        threads.par_chunks_mut(to, 1, GRAIN, |first, part| {
            let mut sums = [T::Wide::of(0.0); BLOCK];
            windows.blocks(first, part, |at, to| {
                let sums = &mut sums[..to.len()];
                windows.sum(at, sums);
                divide(&from[at..][..to.len()], sums, Curve { alpha, beta, bias }, to);
            });
        });
    }
}

/// What is summed.
enum Terms<'a, T: StoredReal> {
    /// The squares of these.
    Squares(&'a [T]),
    /// Sums along other axes.
    Sums(&'a [T::Wide]),
}

/// Sums of neighbours along an axis.
struct Windows<'a, T: StoredReal> {
    terms: Terms<'a, T>,
    along: AlongAxis,
    /// Neighbours on each side.
    reach: usize,
}

impl<T: StoredReal> Windows<'_, T> {
    /// Calls `f` for blocks of `part`, which begins at element `first`, each within one slice.
    fn blocks<E>(&self, first: usize, part: &mut [E], mut f: impl FnMut(usize, &mut [E])) {
        let slice = self.along.size * self.along.inner;
        let (mut at, mut rest) = (first, part);
        while !rest.is_empty() {
            let (block, others) = rest.split_at_mut(BLOCK.min(slice - at % slice).min(rest.len()));
            let len = block.len();
            f(at, block);
            (at, rest) = (at + len, others);
        }
    }

    /// The sums of the windows around neighbouring elements of a slice, from `at` on: for each
    /// neighbour in turn, those that have it.
    fn sum(&self, at: usize, sums: &mut [T::Wide]) {
        let AlongAxis { size, inner, .. } = self.along;
        let (len, reach) = (size * inner, self.reach.min(size - 1));
        let (slice, start) = (at / len * len, at % len);
        sums.fill(T::Wide::of(0.0));
        for neighbour in 0..=2 * reach {
            // Element i of the slice reads element i + ahead - back.
            let (ahead, back) = (neighbour * inner, reach * inner);
            let first = start.max(back.saturating_sub(ahead));
            let end = (start + sums.len()).min((len + back).saturating_sub(ahead));
            if first < end {
                let sums = &mut sums[first - start..end - start];
                match self.terms {
                    Terms::Squares(from) => {
                        add_squares(&from[slice + first + ahead - back..], sums)
                    }
                    Terms::Sums(from) => add(&from[slice + first + ahead - back..], sums),
                }
            }
        }
    }
}

multiversion! {
    vectors if size_of::<T>() <= size_of::<f32>();
    fn add_squares<T: StoredReal>(from: &[T], sums: &mut [T::Wide]) {
        for (sum, x) in sums.iter_mut().zip(from) {
            *sum = *sum + x.widen() * x.widen();
        }
    }
}

multiversion! {
    vectors if size_of::<R>() <= size_of::<f32>();
    fn add<R: Real>(from: &[R], sums: &mut [R]) {
        for (sum, x) in sums.iter_mut().zip(from) {
            *sum = *sum + *x;
        }
    }
}

/// `(bias + alpha * sum)^beta`.
#[derive(Clone, Copy)]
struct Curve {
    alpha: f64,
    beta: f64,
    bias: f64,
}

multiversion! {
    vectors if size_of::<T>() <= size_of::<f32>();
    fn divide<T: StoredReal>(
        from: &[T],
        sums: &[T::Wide],
        curve: Curve,
        to: &mut [T],
    ) {
        let [alpha, beta, bias] = [curve.alpha, curve.beta, curve.bias].map(T::Wide::of);
        for ((to, x), sum) in to.iter_mut().zip(from).zip(sums) {
            let base = bias + alpha * *sum;
            // Only integer powers of negative numbers exist.
            let power = if curve.beta == 0.75 {
                // The power of nearly all networks.
                let root = base.sqrt();
                root * root.sqrt()
            } else if curve.beta.fract() == 0.0 {
                base.via_f64(|base| libm::pow(base, curve.beta))
            } else {
                (base.ln() * beta).exp()
            };
            *to = (x.widen() / power).narrow();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_definition() {
        for axes in [vec![], vec![1], vec![2, 3], vec![3], vec![1, 2, 3]] {
            agrees([2, 5, 4, 3], axes.clone(), 1);
            agrees([2, 5, 4, 3], axes, 9);
        }
        // Slices of more than one block.
        agrees([1, 2, 33, 35], vec![1], 1);
        agrees([1, 1, 33, 35], vec![2], 2);
    }

    fn agrees(sizes: [usize; 4], axes: Vec<usize>, reach: usize) {
        let count = sizes.iter().product();
        let from: Vec<f32> = (0..count).map(|i| (i * 37 % 23) as f32 * 0.1 - 1.0).collect();
        let strides = [0, 1, 2, 3].map(|axis| sizes[axis + 1..].iter().product::<usize>());
        let (alpha, beta, bias) = (0.3, 0.75, 2.0);
        let lrn = Lrn { sizes: sizes.to_vec(), axes, reach, alpha, beta, bias };
        let mut scratch = [0, 1].map(|i| vec![0f32; if i < lrn.kept() { count } else { 0 }]);
        let [a, b] = &mut scratch;
        let mut to = vec![0f32; count];
        lrn.run(&Threads::new(2), &from, [a, b], &mut to);
        for (i, y) in to.iter().enumerate() {
            let near = |k: &usize| {
                (0..4).all(|axis| {
                    let place = |i: usize| i / strides[axis] % sizes[axis];
                    let reach = if lrn.axes.contains(&axis) { reach } else { 0 };
                    place(i).abs_diff(place(*k)) <= reach
                })
            };
            let sum: f32 = (0..count).filter(near).map(|k| from[k] * from[k]).sum();
            let expected = f64::from(from[i]) / libm::pow(2.0 + 0.3 * f64::from(sum), 0.75);
            assert!((f64::from(*y) - expected).abs() < 1e-6, "{y} {expected}");
        }
    }
}
