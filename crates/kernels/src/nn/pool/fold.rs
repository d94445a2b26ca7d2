//! How the elements of a pooling window are folded, and arithmetic for means.

use crate::base::num::{Stored, bf16, f16};
use crate::reduce::Scale;

/// Arithmetic for means.
pub trait Mean: Scale {
    /// A count as a number.
    fn of_count(count: usize) -> Self;
    /// A sum divided by a count; 0 if the count is 0. Integers are rounded to nearest, ties to
    /// even.
    fn mean(self, count: Self) -> Self;
}

impl Mean for f32 {
    #[inline(always)]
    fn of_count(count: usize) -> f32 {
        count as f32
    }

    #[inline(always)]
    fn mean(self, count: f32) -> f32 {
        if count == Self::ZERO { Self::ZERO } else { self / count }
    }
}

impl Mean for f64 {
    #[inline(always)]
    fn of_count(count: usize) -> f64 {
        count as f64
    }

    #[inline(always)]
    fn mean(self, count: f64) -> f64 {
        if count == Self::ZERO { Self::ZERO } else { self / count }
    }
}

impl Mean for i64 {
    #[inline(always)]
    fn of_count(count: usize) -> i64 {
        count as i64
    }

    #[inline(always)]
    fn mean(self, count: i64) -> i64 {
        if count == Self::ZERO {
            Self::ZERO
        } else {
            rounded(self.div_euclid(count), self.rem_euclid(count) as u64, count as u64)
        }
    }
}

impl Mean for u64 {
    #[inline(always)]
    fn of_count(count: usize) -> u64 {
        count as u64
    }

    #[inline(always)]
    fn mean(self, count: u64) -> u64 {
        if count == Self::ZERO {
            Self::ZERO
        } else {
            rounded((self / count) as i64, self % count, count) as u64
        }
    }
}

/// Rounds a quotient that was rounded down to nearest, ties to even, by its remainder.
#[inline(always)]
fn rounded(quotient: i64, remainder: u64, divisor: u64) -> i64 {
    let rest = divisor - remainder;
    let up = remainder > rest || remainder == rest && quotient & 1 == 1;
    quotient.wrapping_add(i64::from(up))
}

/// Stored types that can be pooled.
pub trait Pooled: Stored<Wide: Mean> {
    /// The lowest finite value.
    const LOWEST: Self;
}

macro_rules! pooled {
    ($($t:ty),*) => {
        $(impl Pooled for $t {
            const LOWEST: $t = <$t>::MIN;
        })*
    };
}

pooled!(u8, u16, u32, u64, i8, i16, i32, i64, f16, bf16, f32, f64);

/// How the elements of a window are folded.
pub(crate) trait Fold<W: Mean>: Copy + Send + Sync {
    /// The result of no elements.
    fn start(self) -> W;
    /// The result with one more element.
    fn step(self, sum: W, x: W) -> W;
    /// What is stored for a window of so many taps.
    fn finish(self, sum: W, taps: W) -> W;
}

/// The maximum of the elements and a lowest value.
#[derive(Clone, Copy)]
pub(crate) struct Largest<W>(pub(crate) W);

impl<W: Mean> Fold<W> for Largest<W> {
    #[inline(always)]
    fn start(self) -> W {
        self.0
    }

    #[inline(always)]
    fn step(self, sum: W, x: W) -> W {
        if x > sum { x } else { sum }
    }

    #[inline(always)]
    fn finish(self, sum: W, _taps: W) -> W {
        sum
    }
}

/// A sum, divided by this number or by the number of taps.
#[derive(Clone, Copy)]
pub(crate) struct Sum<W>(pub(crate) Option<W>);

impl<W: Mean> Fold<W> for Sum<W> {
    #[inline(always)]
    fn start(self) -> W {
        W::ZERO
    }

    #[inline(always)]
    fn step(self, sum: W, x: W) -> W {
        sum.add(x)
    }

    #[inline(always)]
    fn finish(self, sum: W, taps: W) -> W {
        sum.mean(self.0.unwrap_or(taps))
    }
}
