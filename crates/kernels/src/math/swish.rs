//! Swish of vectors, for kernels that have their results in registers.

use crate::base::simd::Integral;
use crate::math::real::{EXP, LEAST_GATE, LEAST_WEIGHT, MINUS_LN_2, ROUND};
use crate::math::unary::Unary;
use std::f32::consts::LOG2_E;

/// The factor `beta` of a function that is `x / (1 + exp(-beta x))`.
pub(crate) fn swish_beta(function: Unary) -> Option<f32> {
    match function {
        Unary::Silu {} => Some(1.0),
        Unary::Swish { beta } => Some(beta as f32),
        _ => None,
    }
}

/// `x / (1 + exp(-beta x))`, with the bits of [`Unary::Swish`].
///
/// # Safety
/// The instruction set of `V` is available.
#[inline(always)]
pub(crate) unsafe fn swish<V: Integral>(x: V, beta: f32) -> V {
    const { assert!(V::LANES > 1) };
    // SAFETY: the caller's promise.
    unsafe {
        let number = |value: f32| V::splat(value);
        // NaN stays.
        let y = number(LEAST_GATE).max(x.mul(number(beta)));
        let y = number(-LEAST_WEIGHT).min(y);
        let shifted = y.fma(number(-LOG2_E), number(ROUND));
        let n = shifted.add(number(-ROUND));
        let r = n.fma(number(MINUS_LN_2[0]), y.mul(number(-1.0)));
        let r = n.fma(number(MINUS_LN_2[1]), r);
        let square = r.mul(r);
        let high = number(EXP[0]).fma(r, number(EXP[1]));
        let low = number(EXP[2]).fma(r, number(EXP[3]));
        let p = high.fma(square, low).fma(r, number(EXP[4]));
        let factor = p.fma(square, r).add(number(1.0));
        x.divide(factor.fma(shifted.power(), number(1.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::isa::Isa;
    use crate::base::par::Threads;
    use crate::base::scratch::InOut;
    #[cfg(target_arch = "aarch64")]
    use crate::base::simd::Neon as Fallback;
    #[cfg(not(target_arch = "aarch64"))]
    use crate::base::simd::Portable as Fallback;
    #[cfg(target_arch = "x86_64")]
    use crate::base::simd::{Avx2, Avx512};
    use crate::math::unary::unary_f32;

    /// Applies it to eight or sixteen numbers.
    unsafe fn each<V: Integral>(from: &[f32], beta: f32, to: &mut [f32]) {
        for (from, to) in from.chunks_exact(V::LANES).zip(to.chunks_exact_mut(V::LANES)) {
            // SAFETY: the caller has the instructions; both are as long as a vector.
            unsafe { swish(V::load(from.as_ptr()), beta).store(to.as_mut_ptr()) };
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn avx2(from: &[f32], beta: f32, to: &mut [f32]) {
        // SAFETY: the caller has the instructions.
        unsafe { each::<Avx2>(from, beta, to) }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
    unsafe fn avx512(from: &[f32], beta: f32, to: &mut [f32]) {
        // SAFETY: the caller has the instructions.
        unsafe { each::<Avx512>(from, beta, to) }
    }

    #[test]
    fn vectors_have_the_bits_of_numbers() {
        let mut from: Vec<f32> = (0..=u32::MAX).step_by(65_537).map(f32::from_bits).collect();
        from.extend([0.0, -0.0, 87.3, 87.4, -88.4, -89.0, -89.1, f32::INFINITY, -f32::INFINITY]);
        from.extend((-4000..4000).map(|i| i as f32 / 37.0));
        from.truncate(from.len() / 16 * 16);
        for beta in [1.0, 1.5] {
            let mut wanted = vec![0.0; from.len()];
            let mut io = InOut::separate(&from, &mut wanted);
            unary_f32(Threads::single(), Unary::Swish { beta: beta.into() }, &mut io);
            for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
                let mut found = vec![0.0; from.len()];
                // SAFETY: the CPU has the instructions.
                unsafe {
                    match isa {
                        #[cfg(target_arch = "x86_64")]
                        Isa::Avx2 => avx2(&from, beta, &mut found),
                        #[cfg(target_arch = "x86_64")]
                        Isa::Avx512 | Isa::Amx => avx512(&from, beta, &mut found),
                        _ => each::<Fallback>(&from, beta, &mut found),
                    }
                }
                for ((x, found), wanted) in from.iter().zip(&found).zip(&wanted) {
                    let is_same = found.to_bits() == wanted.to_bits();
                    assert!(
                        is_same || found.is_nan() && wanted.is_nan(),
                        "{isa:?} {x} {found} {wanted}"
                    );
                }
            }
        }
    }
}
