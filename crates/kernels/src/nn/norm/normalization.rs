//! How slices are normalised.

use crate::math::real::Real;

/// What a slice is divided by, from the sum of its squares.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Divisor {
    /// Nothing.
    One,
    /// `sqrt(sum / count + eps)`.
    DeviationInside(f64),
    /// `sqrt(sum / count) + eps`.
    DeviationOutside(f64),
    /// `sqrt(sum + eps)`.
    NormPlus(f64),
    /// `sqrt(max(sum, eps))`.
    NormAtLeast(f64),
}

impl Divisor {
    #[inline(always)]
    pub(crate) fn of<R: Real>(self, sum: R, count: R) -> R {
        match self {
            Divisor::One => R::of(1.0),
            Divisor::DeviationInside(eps) => (sum / count + R::of(eps)).sqrt(),
            Divisor::DeviationOutside(eps) => (sum / count).sqrt() + R::of(eps),
            Divisor::NormPlus(eps) => (sum + R::of(eps)).sqrt(),
            Divisor::NormAtLeast(eps) => {
                let eps = R::of(eps);
                if sum < eps { eps.sqrt() } else { sum.sqrt() }
            }
        }
    }
}

/// How slices are normalised.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Normalization {
    /// Whether the mean is subtracted.
    pub center: bool,
    /// The divisor.
    pub divisor: Divisor,
}

/// What to subtract from elements, and the factor of the differences.
#[derive(Clone, Copy)]
pub(super) struct MeanScale<T = f32> {
    pub(super) mean: T,
    pub(super) scale: T,
}
