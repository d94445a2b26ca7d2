//! Local response normalisation: elements divided by a power of the sum of squares around them. f16
//! and bf16 are computed in f32.

use crate::base::num::Wide;
use crate::base::par::Threads;
use crate::base::slices::AlongAxis;
use crate::math::real::{Real, StoredReal};
use crate::multiversion;

/// Elements that are worth a second thread.
const GRAIN: usize = 8 << 10;

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
    /// Normalises `from` into `to`, with scratch for two numbers per element.
    ///
    /// # Panics
    /// When a slice does not have these sizes.
    pub fn run<T: StoredReal>(
        &self,
        threads: &Threads,
        from: &[T],
        [sums, next]: [&mut [T::Wide]; 2],
        to: &mut [T],
    ) {
        assert!(from.len() == self.sizes.iter().product() && to.len() == from.len());
        let (mut sums, mut next) = (sums, next);
        threads.par_chunks_mut(sums, 1, GRAIN, |first, part| {
            for (square, x) in part.iter_mut().zip(&from[first..]) {
                *square = x.widen() * x.widen();
            }
        });
        for &axis in &self.axes {
            let along = AlongAxis::new(&self.sizes, axis);
            let sums_now = &*sums;
            threads.par_chunks_mut(next, along.inner, GRAIN, |first, part| {
                windows(sums_now, first, along, self.reach, part);
            });
            (sums, next) = (next, sums);
        }
        let Lrn { alpha, beta, bias, .. } = *self;
        let (sums, curve) = (&*sums, Curve { alpha, beta, bias });
        threads.par_chunks_mut(to, 1, GRAIN, |first, part| {
            let len = part.len();
            divide(&from[first..first + len], &sums[first..first + len], curve, part);
        });
    }
}

/// Sums windows along an axis; `part` begins at entry `first`.
fn windows<R: Real>(
    from: &[R],
    first: usize,
    AlongAxis { size, inner, .. }: AlongAxis,
    reach: usize,
    part: &mut [R],
) {
    for (i, to) in part.chunks_mut(inner.max(1)).enumerate() {
        let (line, at) = ((first + i) / size * size, (first + i) % size);
        to.fill(R::of(0.0));
        for row in line + at.saturating_sub(reach)..line + size.min(at.saturating_add(reach) + 1) {
            for (sum, x) in to.iter_mut().zip(&from[row * inner..]) {
                *sum = *sum + *x;
            }
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
        let sizes = vec![2, 5, 4, 3];
        let from: Vec<f32> = (0..120).map(|i| (i * 37 % 23) as f32 * 0.1 - 1.0).collect();
        let strides = [60, 12, 3, 1];
        for axes in [vec![], vec![1], vec![2, 3], vec![3]] {
            let lrn =
                Lrn { sizes: sizes.clone(), axes, reach: 1, alpha: 0.3, beta: 0.75, bias: 2.0 };
            let (mut a, mut b, mut to) = (vec![0f32; 120], vec![0f32; 120], vec![0f32; 120]);
            lrn.run(&Threads::new(2), &from, [&mut a, &mut b], &mut to);
            for (i, y) in to.iter().enumerate() {
                let near = |k: &usize| {
                    (0..4).all(|axis| {
                        let place = |i: usize| i / strides[axis] % sizes[axis];
                        place(i).abs_diff(place(*k)) <= usize::from(lrn.axes.contains(&axis))
                    })
                };
                let sum: f32 = (0..120).filter(near).map(|k| from[k] * from[k]).sum();
                let expected = f64::from(from[i]) / libm::pow(2.0 + 0.3 * f64::from(sum), 0.75);
                assert!((f64::from(*y) - expected).abs() < 1e-6, "{y} {expected}");
            }
        }
    }
}
