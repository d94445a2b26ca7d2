//! Arithmetic of the types that values are computed in: f32, f64 and 64-bit integers. The low bits
//! of the latter are right for every narrower width.

use crate::base::num::Wide;

/// Arithmetic of the wide types.
pub trait Arithmetic: Wide + PartialOrd {
    /// Sum; integers wrap.
    fn add(self, b: Self) -> Self;
    /// Difference; integers wrap.
    fn sub(self, b: Self) -> Self;
    /// Product; integers wrap.
    fn mul(self, b: Self) -> Self;
    /// Quotient; integers round down. Dividing an integer by 0 gives 0.
    fn div(self, b: Self) -> Self;
    /// Quotient; integers round towards zero.
    fn div_trunc(self, b: Self) -> Self;
    /// Remainder with the sign of `self`.
    fn rem(self, b: Self) -> Self;
    /// Remainder with the sign of `b`.
    fn rem_floor(self, b: Self) -> Self;
    /// `self` to the power of `b`.
    fn pow(self, b: Self) -> Self;
    /// Whether it is not 0.
    fn truth(self) -> bool;
    /// The bits, for bitwise functions of integers.
    fn bits(self) -> u64;
    /// The value with these bits.
    fn of_bits(bits: u64) -> Self;
    /// Bits shifted left by `b`; 0 from 64 on.
    fn shift_left(self, b: Self) -> Self;
    /// Bits shifted right by `b`; the sign stays.
    fn shift_right(self, b: Self) -> Self;
}

macro_rules! float_arithmetic {
    ($t:ty, $uint:ty, $fmod:path, |$a:ident, $b:ident| $pow:expr) => {
        impl Arithmetic for $t {
            #[inline(always)]
            fn add(self, b: Self) -> Self {
                self + b
            }

            #[inline(always)]
            fn sub(self, b: Self) -> Self {
                self - b
            }

            #[inline(always)]
            fn mul(self, b: Self) -> Self {
                self * b
            }

            #[inline(always)]
            fn div(self, b: Self) -> Self {
                self / b
            }

            #[inline(always)]
            fn div_trunc(self, b: Self) -> Self {
                self / b
            }

            fn rem(self, b: Self) -> Self {
                $fmod(self, b)
            }

            fn rem_floor(self, b: Self) -> Self {
                let r = $fmod(self, b);
                if r != 0.0 && (r < 0.0) != (b < 0.0) { r + b } else { r }
            }

            fn pow(self, b: Self) -> Self {
                let ($a, $b) = (self, b);
                $pow
            }

            #[inline(always)]
            fn truth(self) -> bool {
                self != 0.0
            }

            #[inline(always)]
            fn bits(self) -> u64 {
                self.to_bits().into()
            }

            #[inline(always)]
            fn of_bits(bits: u64) -> Self {
                Self::from_bits(bits as $uint)
            }

            fn shift_left(self, b: Self) -> Self {
                self * Self::exp2(b)
            }

            fn shift_right(self, b: Self) -> Self {
                self / Self::exp2(b)
            }
        }
    };
}

float_arithmetic!(f32, u32, libm::fmodf, |a, b| power(a, b));
float_arithmetic!(f64, u64, libm::fmod, |a, b| libm::pow(a, b));

/// A power, computed in f64 and rounded once more. Small integer exponents use multiplications,
/// whose error is that of their roundings in f64.
fn power(a: f32, b: f32) -> f32 {
    const MAX_EXPONENT: u32 = 64;
    let whole = b as i32;
    let mut count = whole.unsigned_abs();
    if whole as f32 != b || count == 0 || count > MAX_EXPONENT {
        return libm::pow(a.into(), b.into()) as f32;
    }
    let (mut base, mut power) = (f64::from(a), 1.0);
    while count > 0 {
        if count % 2 == 1 {
            power *= base;
        }
        base *= base;
        count /= 2;
    }
    (if whole < 0 { 1.0 / power } else { power }) as f32
}

macro_rules! integer_arithmetic {
    ($t:ty, |$a:ident, $b:ident| $div:expr, |$c:ident, $d:ident| $rem:expr, |$e:ident| $negative:expr) => {
        impl Arithmetic for $t {
            #[inline(always)]
            fn add(self, b: Self) -> Self {
                self.wrapping_add(b)
            }

            #[inline(always)]
            fn sub(self, b: Self) -> Self {
                self.wrapping_sub(b)
            }

            #[inline(always)]
            fn mul(self, b: Self) -> Self {
                self.wrapping_mul(b)
            }

            fn div(self, b: Self) -> Self {
                let ($a, $b) = (self, b);
                if b == 0 { 0 } else { $div }
            }

            fn div_trunc(self, b: Self) -> Self {
                if b == 0 { 0 } else { self.wrapping_div(b) }
            }

            fn rem(self, b: Self) -> Self {
                if b == 0 { 0 } else { self.wrapping_rem(b) }
            }

            fn rem_floor(self, b: Self) -> Self {
                let ($c, $d) = (self, b);
                if b == 0 { 0 } else { $rem }
            }

            /// Wraps; a negative exponent gives the truncated reciprocal.
            fn pow(self, b: Self) -> Self {
                let $e = b;
                if $negative {
                    return match self {
                        1 => 1,
                        x if x.wrapping_add(1) == 0 && b % 2 == 0 => 1,
                        x if x.wrapping_add(1) == 0 => x,
                        _ => 0,
                    };
                }
                let (mut base, mut exponent, mut power): (Self, Self, Self) = (self, b, 1);
                while exponent > 0 {
                    if exponent % 2 == 1 {
                        power = power.wrapping_mul(base);
                    }
                    base = base.wrapping_mul(base);
                    exponent /= 2;
                }
                power
            }

            #[inline(always)]
            fn truth(self) -> bool {
                self != 0
            }

            #[inline(always)]
            fn bits(self) -> u64 {
                self as u64
            }

            #[inline(always)]
            fn of_bits(bits: u64) -> Self {
                bits as Self
            }

            fn shift_left(self, b: Self) -> Self {
                u32::try_from(b).ok().and_then(|b| self.checked_shl(b)).unwrap_or(0)
            }

            fn shift_right(self, b: Self) -> Self {
                self >> u32::try_from(b).unwrap_or(63).min(63)
            }
        }
    };
}

integer_arithmetic!(
    i64,
    |a, b| {
        let q = a.wrapping_div(b);
        if a.wrapping_rem(b) != 0 && (a < 0) != (b < 0) { q - 1 } else { q }
    },
    |a, b| {
        let r = a.wrapping_rem(b);
        if r != 0 && (r < 0) != (b < 0) { r + b } else { r }
    },
    |e| e < 0
);
integer_arithmetic!(u64, |a, b| a / b, |a, b| a % b, |_e| false);

#[cfg(test)]
mod tests {
    use super::*;

    /// Also results beyond the range of f32, and at its ends.
    #[test]
    fn powers_of_whole_exponents_are_those_of_all_others() {
        let bases =
            [0.0, 0.3, 1.0, 1.7, 3.0, 1e-3, 1e-20, 1e-40, 1e9, 3e38, f32::INFINITY, f32::NAN];
        for base in bases.into_iter().flat_map(|x| [x, -x]) {
            for exponent in (-70i16..=70).map(f32::from) {
                let (found, expected) =
                    (power(base, exponent), libm::pow(base.into(), exponent.into()));
                let expected = expected as f32;
                let near = (found - expected).abs() <= f32::EPSILON * expected.abs();
                let is_same =
                    found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan();
                assert!(near || is_same, "{base:e} ^ {exponent}: {found:e}, not {expected:e}");
            }
        }
    }
}
