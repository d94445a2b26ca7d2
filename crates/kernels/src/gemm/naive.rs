//! Naive GEMM for types other than f32: correct, deterministic, not blocked.

use crate::base::num::Stored;
use crate::base::par::Threads;
use crate::math::arithmetic::Arithmetic;

/// Multiply-adds that are worth a second thread.
const GRAIN: usize = 1 << 14;

/// The size of a GEMM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GemmSize {
    /// Rows of A and C.
    pub m: usize,
    /// Columns of B and C.
    pub n: usize,
    /// Columns of A, rows of B.
    pub k: usize,
}

/// `c = a b` for row-major matrices, computed in the wide type and rounded once at the end;
/// integers wrap.
///
/// # Panics
/// When the slices are not of the sizes given.
pub fn plain<T: Stored>(
    threads: &Threads,
    GemmSize { m, n, k }: GemmSize,
    a: &[T],
    b: &[T],
    c: &mut [T],
) where
    T::Wide: Arithmetic,
{
    assert!(a.len() == m * k && b.len() == k * n && c.len() == m * n);
    let n = n.max(1);
    threads.par_chunks_mut(c, n, GRAIN.div_ceil(k.max(1)), |first, part| {
        let mut sums = vec![T::Wide::default(); n];
        for (i, row) in part.chunks_mut(n).enumerate() {
            sums.fill(T::Wide::default());
            for (p, x) in a[(first + i) * k..][..k].iter().enumerate() {
                let x = x.widen();
                for (sum, y) in sums.iter_mut().zip(&b[p * n..][..n]) {
                    *sum = sum.add(x.mul(y.widen()));
                }
            }
            for (to, sum) in row.iter_mut().zip(&sums) {
                *to = crate::base::num::Wide::narrow(*sum);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_wrap() {
        let mut c = [0i8; 2];
        plain(
            Threads::single(),
            GemmSize { m: 1, n: 2, k: 2 },
            &[100i8, 2],
            &[2, 1, 3, -4],
            &mut c,
        );
        assert_eq!(c, [-50, 92]);
        let mut c = [7i64; 1];
        plain(Threads::single(), GemmSize { m: 1, n: 1, k: 0 }, &[], &[], &mut c);
        assert_eq!(c, [0]);
    }
}
