//! Functions with an exponential, of vectors: for kernels that have their results in registers.

use crate::base::simd::Integral;
use crate::math::real::{EXP, LEAST_GATE, LEAST_WEIGHT, MINUS_LN_2, ROUND};
use crate::math::unary::Unary;
use std::f32::consts::LOG2_E;

/// A function of vectors.
pub(crate) trait Function: Copy {
    /// Applies it to each lane.
    ///
    /// # Safety
    /// The instruction set of `V` is available.
    unsafe fn apply<V: Integral>(self, x: V) -> V;
}

/// A function that is applied in registers.
#[derive(Clone, Copy)]
pub(crate) enum Exponential {
    Swish(Swish),
    Elu(Elu),
}

impl Exponential {
    /// A unary operation, if it is one of these.
    pub(crate) fn of(function: Unary) -> Option<Exponential> {
        /// No product with a difference `exp(x) - 1` underflows.
        const LEAST_ALPHA: f32 = 1e-6;
        match function {
            Unary::Silu {} => Some(Exponential::Swish(Swish { beta: 1.0 })),
            Unary::Swish { beta } => Some(Exponential::Swish(Swish { beta: beta as f32 })),
            Unary::Elu { alpha } if alpha as f32 >= LEAST_ALPHA => {
                Some(Exponential::Elu(Elu { alpha: alpha as f32 }))
            }
            _ => None,
        }
    }
}

/// `x / (1 + exp(-beta x))`, with the bits of [`Unary::Swish`].
#[derive(Clone, Copy)]
pub(crate) struct Swish {
    beta: f32,
}

impl Function for Swish {
    #[inline(always)]
    unsafe fn apply<V: Integral>(self, x: V) -> V {
        const { assert!(V::LANES > 1) };
        // SAFETY: the caller's promise.
        unsafe {
            // NaN stays.
            let y = V::splat(LEAST_GATE).max(x.mul(V::splat(self.beta)));
            let y = V::splat(-LEAST_WEIGHT).min(y);
            let (factor, power) = exp(y.mul(V::splat(-1.0)));
            x.divide(factor.fma(power, V::splat(1.0)))
        }
    }
}

/// `alpha · (exp(x) - 1)` below 0, with the bits of [`Unary::Elu`].
#[derive(Clone, Copy)]
pub(crate) struct Elu {
    alpha: f32,
}

impl Function for Elu {
    #[inline(always)]
    unsafe fn apply<V: Integral>(self, x: V) -> V {
        const { assert!(V::LANES > 1) };
        // SAFETY: the caller's promise.
        unsafe {
            // NaN stays. Above 0, the difference is 0.
            let y = V::zero().min(V::splat(LEAST_WEIGHT).max(x));
            let (factor, power) = exp(y);
            let difference = factor.fma(power, V::splat(-1.0));
            x.max(V::zero()).add(V::splat(self.alpha).mul(difference))
        }
    }
}

/// Two factors of `exp(x)`, the second a power of two, for `x` between -104 and 89.
///
/// # Safety
/// The instruction set of `V` is available.
#[inline(always)]
unsafe fn exp<V: Integral>(x: V) -> (V, V) {
    const { assert!(V::LANES > 1) };
    // SAFETY: the caller's promise.
    unsafe {
        let number = |value: f32| V::splat(value);
        let shifted = x.fma(number(LOG2_E), number(ROUND));
        let n = shifted.add(number(-ROUND));
        let r = n.fma(number(MINUS_LN_2[0]), x);
        let r = n.fma(number(MINUS_LN_2[1]), r);
        let square = r.mul(r);
        let high = number(EXP[0]).fma(r, number(EXP[1]));
        let low = number(EXP[2]).fma(r, number(EXP[3]));
        let p = high.fma(square, low).fma(r, number(EXP[4]));
        (p.fma(square, r).add(number(1.0)), shifted.power())
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
    unsafe fn each<V: Integral>(from: &[f32], function: Exponential, to: &mut [f32]) {
        for (from, to) in from.chunks_exact(V::LANES).zip(to.chunks_exact_mut(V::LANES)) {
            // SAFETY: the caller has the instructions; both are as long as a vector.
            unsafe {
                let x = V::load(from.as_ptr());
                let y = match function {
                    Exponential::Swish(swish) => swish.apply(x),
                    Exponential::Elu(elu) => elu.apply(x),
                };
                y.store(to.as_mut_ptr());
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn avx2(from: &[f32], function: Exponential, to: &mut [f32]) {
        // SAFETY: the caller has the instructions.
        unsafe { each::<Avx2>(from, function, to) }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
    unsafe fn avx512(from: &[f32], function: Exponential, to: &mut [f32]) {
        // SAFETY: the caller has the instructions.
        unsafe { each::<Avx512>(from, function, to) }
    }

    #[test]
    fn vectors_have_the_bits_of_numbers() {
        let mut from: Vec<f32> = (0..=u32::MAX).step_by(65_537).map(f32::from_bits).collect();
        from.extend([0.0, -0.0, 87.3, 87.4, -88.4, -89.0, -89.1, f32::INFINITY, -f32::INFINITY]);
        from.extend((-4000..4000).map(|i| i as f32 / 37.0));
        from.truncate(from.len() / 16 * 16);
        let all = [
            Unary::Swish { beta: 1.0 },
            Unary::Swish { beta: 1.5 },
            Unary::Elu { alpha: 1.0 },
            Unary::Elu { alpha: 0.3 },
        ];
        for unary in all {
            let function = Exponential::of(unary).unwrap();
            let mut wanted = vec![0.0; from.len()];
            let mut io = InOut::separate(&from, &mut wanted);
            unary_f32(Threads::single(), unary, &mut io);
            for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
                let mut found = vec![0.0; from.len()];
                // SAFETY: the CPU has the instructions.
                unsafe {
                    match isa {
                        #[cfg(target_arch = "x86_64")]
                        Isa::Avx2 => avx2(&from, function, &mut found),
                        #[cfg(target_arch = "x86_64")]
                        Isa::Avx512 | Isa::Amx => avx512(&from, function, &mut found),
                        _ => each::<Fallback>(&from, function, &mut found),
                    }
                }
                for ((x, found), wanted) in from.iter().zip(&found).zip(&wanted) {
                    let is_same = found.to_bits() == wanted.to_bits();
                    assert!(
                        is_same || found.is_nan() && wanted.is_nan(),
                        "{isa:?} {unary:?} {x} {found} {wanted}"
                    );
                }
            }
        }
    }
}
