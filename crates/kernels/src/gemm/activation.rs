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
    /// alpha · x below 0, with a number other than 0.
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
            // For alpha = 0 and an infinite x the product is NaN, which is left out of max.
            Unary::LeakyRelu { alpha } if alpha as f32 != 0.0 && !alpha.is_nan() => {
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
                // A slope above 1 leads away from x on the other side.
                Activation::LeakyRelu(alpha) if alpha > 1.0 => {
                    let alpha = V::splat(alpha);
                    for i in 0..R {
                        for p in 0..P {
                            x[i][p] = x[i][p].mul(alpha).min(x[i][p]);
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

#[cfg(all(test, not(target_arch = "aarch64")))]
mod tests {
    use super::*;
    use crate::base::simd::Portable;

    #[test]
    fn leaky_relu_has_the_bits_of_the_definition_for_any_slope() {
        let numbers = [0.0, -0.0, 1.5, -1.5, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, -1e-45];
        for alpha in [0.1f32, 1.0, 1.5, -0.5, -3.0, f32::INFINITY, f32::NEG_INFINITY, 1e-40] {
            let of = Activation::of(Unary::LeakyRelu { alpha: alpha.into() }).unwrap();
            for four in numbers.as_chunks::<4>().0 {
                let mut found = [0.0; 4];
                // SAFETY: four numbers are read and written.
                unsafe {
                    let mut x = [[Portable::load(four.as_ptr())]];
                    of.apply(&mut x);
                    x[0][0].store(found.as_mut_ptr());
                }
                let defined = four.map(|x| if x < 0.0 { alpha * x } else { x });
                assert_eq!(found.map(f32::to_bits), defined.map(f32::to_bits), "{alpha} {four:?}");
            }
        }
        for alpha in [0.0, -0.0, 1e-60, f64::NAN] {
            assert_eq!(Activation::of(Unary::LeakyRelu { alpha }), None);
        }
    }
}
