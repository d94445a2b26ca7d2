//! Inverses of square matrices, by Gauss-Jordan elimination with partial pivoting. f16 and bf16 are
//! computed in f32. Singular matrices give infinities or NaN.

use crate::base::num::Wide;
use crate::base::par::Threads;
use crate::math::real::{Real, StoredReal};

/// Multiply-adds that are worth a second thread.
const GRAIN: usize = 16 << 10;

/// Inverts `n` × `n` matrices; with `transposed`, gives the transpose of the inverse.
///
/// # Panics
/// When the slices differ in length, or do not hold whole matrices.
pub fn inverse<T: StoredReal>(
    threads: &Threads,
    n: usize,
    transposed: bool,
    from: &[T],
    to: &mut [T],
) {
    assert_eq!(from.len(), to.len());
    let len = n * n;
    threads.par_chunks_mut(to, len, GRAIN / n.max(1), |first, part| {
        let mut space = vec![T::Wide::default(); 2 * len];
        for (i, to) in part.chunks_mut(len.max(1)).enumerate() {
            fill(&mut space, n, &from[(first + i) * len..][..len]);
            eliminate(&mut space, n);
            for (k, to) in to.iter_mut().enumerate() {
                let (row, column) = if transposed { (k % n, k / n) } else { (k / n, k % n) };
                *to = space[row * 2 * n + n + column].narrow();
            }
        }
    });
}

/// Each row of the matrix, followed by that of the identity.
fn fill<T: StoredReal>(space: &mut [T::Wide], n: usize, from: &[T]) {
    for (i, (row, from)) in space.chunks_mut(2 * n).zip(from.chunks(n)).enumerate() {
        let (own, identity) = row.split_at_mut(n);
        for (to, x) in own.iter_mut().zip(from) {
            *to = x.widen();
        }
        identity.fill(T::Wide::of(0.0));
        identity[i] = T::Wide::of(1.0);
    }
}

/// Reduces the left halves of the rows to the identity.
fn eliminate<R: Real>(space: &mut [R], n: usize) {
    let width = 2 * n;
    for column in 0..n {
        let size = |row: &usize| space[row * width + column].abs();
        let larger = |a: usize, b: usize| if size(&b) > size(&a) { b } else { a };
        let pivot = (column..n).fold(column, larger);
        for i in column..width {
            space.swap(column * width + i, pivot * width + i);
        }
        let (above, rest) = space.split_at_mut(column * width);
        let (own, below) = rest.split_at_mut(width);
        let divisor = own[column];
        for x in &mut own[column..] {
            *x = *x / divisor;
        }
        for row in above.chunks_exact_mut(width).chain(below.chunks_exact_mut(width)) {
            let factor = row[column];
            for (x, y) in row[column..].iter_mut().zip(&own[column..]) {
                *x = *x - factor * *y;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_the_identity() {
        for n in [1, 2, 3, 7] {
            // The largest element of each row is next to the diagonal, so that pivoting is needed.
            let large = |k: usize| (k / n + 1) % n == k % n;
            let entry =
                |k: usize| (k * k * 37 % 101) as f64 * 0.1 + if large(k) { 30.0 } else { 0.0 };
            let from: Vec<f64> =
                (0..5 * n * n).map(|i| entry(i % (n * n)) + (i / n / n) as f64).collect();
            let (mut plain, mut transposed) = (vec![0.0; from.len()], vec![0.0; from.len()]);
            inverse(&Threads::new(2), n, false, &from, &mut plain);
            inverse(&Threads::new(2), n, true, &from, &mut transposed);
            for (m, a) in from.chunks(n * n).enumerate() {
                let b = &plain[m * n * n..];
                for (i, j) in (0..n * n).map(|k| (k / n, k % n)) {
                    let sum: f64 = (0..n).map(|k| a[i * n + k] * b[k * n + j]).sum();
                    assert!((sum - f64::from(u8::from(i == j))).abs() < 1e-9, "{n} {sum}");
                    assert_eq!(b[i * n + j], transposed[m * n * n + j * n + i]);
                }
            }
        }
    }

    #[test]
    fn a_pivot_of_zero_is_passed_by() {
        let mut to = [0f32; 4];
        inverse(Threads::single(), 2, false, &[0.0, 1.0, 2.0, 0.0], &mut to);
        assert_eq!(to, [0.0, 0.5, 1.0, 0.0]);
        inverse::<f32>(Threads::single(), 0, false, &[], &mut []);
    }
}
