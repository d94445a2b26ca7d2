//! Interpolation: separable filters, one axis after the other, or nearest neighbours.

mod lookup;
mod nearest;
mod separable;
mod taps;

use crate::base::num::{Pod, Stored, bf16, f16};
use crate::math::convert::Ways;
use crate::math::real::Real;
use crate::multiversion;
pub use nearest::Pick;
pub use separable::Resample;
pub use taps::Taps;

/// Elements, or multiplications, that are worth a second thread.
const GRAIN: usize = 16 << 10;

/// An element type that can be averaged: floats in f32 or f64, integers in f64.
pub trait Pixel: Stored {
    /// The type of the sums.
    type Sum: Real + Pod;

    /// The value.
    fn load(self) -> Self::Sum;

    /// The nearest value, ties to even; integers saturate.
    fn save(sum: Self::Sum) -> Self;

    /// Conversions of elements to sums and back.
    const WAYS: Ways<Self::Sum>;
}

/// A small number plus this, 1.5 · 2^52, is rounded to an integer, ties to even, which the lowest
/// bits hold. Conversions that saturate are not vectorised.
const ROUNDING: f64 = 6_755_399_441_055_744.0;

macro_rules! pixels {
    ($($t:ty: $sum:ty, |$v:ident| $load:expr, |$s:ident| $save:expr, $ways:expr);* $(;)?) => {
        $(impl Pixel for $t {
            type Sum = $sum;
            const WAYS: Ways<$sum> = $ways;

            #[inline(always)]
            fn load(self) -> $sum {
                let $v = self;
                $load
            }

            #[inline(always)]
            fn save($s: $sum) -> $t {
                $save
            }
        })*
    };
    (narrow $($t:ty),*) => {
        pixels!($($t: f64, |v| v as f64, |s| {
            let s = if s.is_nan() { 0.0 } else { s.clamp(<$t>::MIN as f64, <$t>::MAX as f64) };
            (s + ROUNDING).to_bits() as $t
        }, Some((load::<$t>, save::<$t>)));*);
    };
    (integers $($t:ty),*) => {
        pixels!($($t: f64, |v| v as f64, |s| s.round_even() as $t, Some((load::<$t>, save::<$t>)));*);
    };
}

pixels! {
    f32: f32, |v| v, |s| s, None;
    f64: f64, |v| v, |s| s, None;
    f16: f32, |v| v.widen(), |s| f16::from_f32(s), Some((load::<f16>, save::<f16>));
    bf16: f32, |v| v.widen(), |s| bf16::from_f32(s), Some((load::<bf16>, save::<bf16>));
}
pixels!(narrow u8, u16, i8, i16);
pixels!(integers u32, u64, i32, i64);

multiversion! {
    fn load<T: Pixel>(from: &[u8], to: &mut [T::Sum]) {
        for (from, to) in from.chunks_exact(size_of::<T>()).zip(to) {
            // SAFETY: there are as many bytes as the value has; every bit pattern is a value.
            *to = unsafe { from.as_ptr().cast::<T>().read_unaligned() }.load();
        }
    }
}

multiversion! {
    fn save<T: Pixel>(from: &[T::Sum], to: &mut [u8]) {
        for (from, to) in from.iter().zip(to.chunks_exact_mut(size_of::<T>())) {
            // SAFETY: there are as many bytes as the value has.
            unsafe { to.as_mut_ptr().cast::<T>().write_unaligned(T::save(*from)) };
        }
    }
}

#[cfg(test)]
mod tests;
