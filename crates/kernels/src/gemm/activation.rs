//! Activations that take few enough instructions to be applied to sums in registers. Each formula
//! is written once.

use crate::base::simd::Vector;
use crate::math::unary::Unary;

/// An activation that is applied in registers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Activation {
    /// x, unchanged.
    Identity,
    /// max(x, 0); NaN becomes 0.
    Relu,
    /// min(max(x, low), high); NaN stays.
    Clamp(f32, f32),
    /// alpha · x below 0, with 0 < alpha ≤ 1.
    LeakyRelu(f32),
    /// As [`Unary::HSwish`], with its factor.
    HSwish(f32),
}

impl Activation {
    /// The activation of a unary operation, if it is one of these.
    #[inline]
    pub(crate) fn of(function: Unary) -> Option<Activation> {
        match function {
            Unary::Relu {} => Some(Activation::Relu),
            Unary::Clamp { low, high } => Some(Activation::Clamp(low as f32, high as f32)),
            // Computed as max(alpha · x, x), which is wrong for alpha > 1 and may be NaN for alpha
            // = 0.
            Unary::LeakyRelu { alpha } if alpha as f32 > 0.0 && alpha <= 1.0 => {
                Some(Activation::LeakyRelu(alpha as f32))
            }
            Unary::HSwish { factor } => Some(Activation::HSwish(factor as f32)),
            _ => None,
        }
    }

    /// Applies it to `R` rows of `P` vectors.
    #[inline(always)]
    pub(crate) fn apply<V: Vector, const R: usize, const P: usize>(self, x: &mut [[V; P]; R]) {
        const { assert!(R > 0 && P > 0) };
        // SAFETY: vectors are there, and so is their instruction set.
        unsafe {
            match self {
                Activation::Identity => {}
                Activation::Relu => {
                    let zero = V::zero();
                    for i in 0..R {
                        for p in 0..P {
                            x[i][p] = x[i][p].max(zero);
                        }
                    }
                }
                Activation::Clamp(low, high) => {
                    let (low, high) = (V::splat(low), V::splat(high));
                    for i in 0..R {
                        for p in 0..P {
                            x[i][p] = high.min(low.max(x[i][p]));
                        }
                    }
                }
                Activation::LeakyRelu(alpha) => {
                    let alpha = V::splat(alpha);
                    for i in 0..R {
                        for p in 0..P {
                            x[i][p] = x[i][p].mul(alpha).max(x[i][p]);
                        }
                    }
                }
                Activation::HSwish(factor) => {
                    let [three, zero, six] = [V::splat(3.0), V::zero(), V::splat(6.0)];
                    let factor = V::splat(factor);
                    for i in 0..R {
                        for p in 0..P {
                            let gate = x[i][p].add(three).max(zero).min(six).mul(factor);
                            x[i][p] = x[i][p].mul(gate);
                        }
                    }
                }
            }
        }
    }
}
