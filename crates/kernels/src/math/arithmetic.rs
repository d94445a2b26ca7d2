//! Arithmetic of the types that values are computed in: f32, f64 and 64-bit integers. The low bits
//! of the latter are right for every narrower width.

use crate::base::num::Wide;
use std::ops::Add;

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

    /// [`div`](Arithmetic::div) without branches, and whether it holds for these operands.
    fn div_fast(self, b: Self) -> (Self, bool) {
        (self.div(b), true)
    }

    /// [`div_trunc`](Arithmetic::div_trunc) without branches, and whether it holds.
    fn div_trunc_fast(self, b: Self) -> (Self, bool) {
        (self.div_trunc(b), true)
    }

    /// [`rem`](Arithmetic::rem) without branches, and whether it holds.
    fn rem_fast(self, b: Self) -> (Self, bool) {
        (self.rem(b), true)
    }

    /// [`rem_floor`](Arithmetic::rem_floor) without branches, and whether it holds.
    fn rem_floor_fast(self, b: Self) -> (Self, bool) {
        (self.rem_floor(b), true)
    }

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
    ($t:ty, $uint:ty, $fmod:path, |$a:ident, $b:ident| $pow:expr, $($rest:tt)*) => {
        impl Arithmetic for $t {
            $($rest)*

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
                floored($fmod(self, b), b)
            }

            #[inline(always)]
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

float_arithmetic! {
    f32, u32, remainder, |a, b| power(a, b),
    #[inline(always)]
    fn rem_fast(self, b: f32) -> (f32, bool) {
        remainder_fast(self, b)
    }

    #[inline(always)]
    fn rem_floor_fast(self, b: f32) -> (f32, bool) {
        let (r, holds) = remainder_fast(self, b);
        (floored(r, b), holds)
    }
}

float_arithmetic!(f64, u64, libm::fmod, |a, b| libm::pow(a, b),);

/// A remainder with the sign of the dividend, as one with that of the divisor.
#[inline(always)]
fn floored<T: Copy + Default + PartialOrd + Add<Output = T>>(rest: T, divisor: T) -> T {
    let zero = T::default();
    let differs = rest != zero && (rest < zero) != (divisor < zero);
    if differs { rest + divisor } else { rest }
}

/// The exact remainder, with the sign of `a`.
fn remainder(a: f32, b: f32) -> f32 {
    let (rest, holds) = remainder_fast(a, b);
    if holds { rest } else { libm::fmodf(a, b) }
}

/// The exact remainder, and whether it is that for certain.
#[inline(always)]
fn remainder_fast(a: f32, b: f32) -> (f32, bool) {
    let (dividend, divisor) = (a.abs(), b.abs());
    let quotient = (dividend / divisor).trunc();
    // A multiple of the last bit of the divisor, as both are, so it is exact if it is not larger.
    let rest = (-quotient).mul_add(divisor, dividend);
    // Below 0 the quotient was rounded to the next integer.
    let rest = rest + if rest < 0.0 { divisor } else { 0.0 };
    let holds = (rest >= 0.0) & (rest < divisor);
    (rest.copysign(a), holds)
}

/// A power, computed in f64 and rounded once more: 2 to the power of `b log2 |a|`, of which at
/// least 44 bits are right. Without branches and fused products, for vectors on every CPU.
#[inline(always)]
fn power(a: f32, b: f32) -> f32 {
    let base = f64::from(a.abs());
    let product = f64::from(b) * log2(base);
    // 1 to an infinite power is 1.
    let product = if base == 1.0 && !b.is_nan() { 0.0 } else { product };
    let power = exp2(product);
    let is_whole = b.trunc() == b;
    let half = b * 0.5;
    let is_odd = is_whole && half.trunc() != half;
    let power = if is_odd && a.is_sign_negative() { -power } else { power };
    let has_no_value = a < 0.0 && a != f32::NEG_INFINITY && !is_whole;
    let power = if has_no_value { f64::NAN } else { power };
    (if b == 0.0 || a == 1.0 { 1.0 } else { power }) as f32
}

/// The binary logarithm of an f32 that is not below 0, nearly to the bits of f64.
#[inline(always)]
fn log2(x: f64) -> f64 {
    /// The bits of the square root of 1/2, from which mantissas reach to that of 2.
    const LEAST: u64 = 0x3fe6_a09e_667f_3bcd;
    /// The exponent field of 1, and the bits of 2^52, in whose mantissa integers are.
    const ONE: u64 = 1023 << 52;
    const INTEGER: u64 = 0x4330_0000_0000_0000;
    let bits = x.to_bits();
    let exponent = bits.wrapping_sub(LEAST).wrapping_add(ONE) >> 52;
    let whole = f64::from_bits(exponent | INTEGER) - (f64::from_bits(INTEGER) + 1023.0);
    let mantissa = f64::from_bits(bits.wrapping_sub(exponent << 52).wrapping_add(ONE));
    // ln m = 2 artanh s.
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let z = s * s;
    let mut series = 1.0 / 19.0;
    for term in [17.0, 15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0] {
        series = series * z + 1.0 / term;
    }
    let log = whole + s * series * (2.0 * std::f64::consts::LOG2_E);
    let log = if x == 0.0 { f64::NEG_INFINITY } else { log };
    if x < f64::INFINITY { log } else { x }
}

/// 2 to a power, to 44 bits; beyond the range of f32, a number that rounds to 0 or infinity.
#[inline(always)]
fn exp2(x: f64) -> f64 {
    let y = if x < -160.0 { -160.0 } else { x };
    let y = if y > 130.0 { 130.0 } else { y };
    let rounded = y + ROUND;
    let part = (y - (rounded - ROUND)) * std::f64::consts::LN_2;
    let mut series = 1.0;
    for divisor in [11.0, 10.0, 9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0] {
        series = series * part * (1.0 / divisor) + 1.0;
    }
    let scale = f64::from_bits(rounded.to_bits().wrapping_add(1023) << 52);
    if x.is_nan() { x } else { series * scale }
}

macro_rules! integer_arithmetic {
    ($t:ty, |$a:ident, $b:ident| $div:expr, |$c:ident, $d:ident| $rem:expr,
     |$e:ident| $negative:expr, $($rest:tt)*) => {
        impl Arithmetic for $t {
            $($rest)*

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

integer_arithmetic! {
    i64,
    |a, b| {
        let q = a.wrapping_div(b);
        if a.wrapping_rem(b) != 0 && (a < 0) != (b < 0) { q - 1 } else { q }
    },
    |a, b| {
        let r = a.wrapping_rem(b);
        if r != 0 && (r < 0) != (b < 0) { r + b } else { r }
    },
    |e| e < 0,
    #[inline(always)]
    fn div_fast(self, b: i64) -> (i64, bool) {
        let of = Division::new(self, b);
        let is_above = of.rest * of.divisor < 0.0;
        of.value(if is_above { of.quotient - 1.0 } else { of.quotient })
    }

    #[inline(always)]
    fn div_trunc_fast(self, b: i64) -> (i64, bool) {
        let of = Division::new(self, b);
        let step = if of.dividend * of.divisor < 0.0 { -1.0 } else { 1.0 };
        let is_beyond = of.rest * of.dividend < 0.0;
        of.value(if is_beyond { of.quotient - step } else { of.quotient })
    }

    #[inline(always)]
    fn rem_fast(self, b: i64) -> (i64, bool) {
        let of = Division::new(self, b);
        let step = of.divisor.abs().copysign(of.dividend);
        of.value(if of.rest * of.dividend < 0.0 { of.rest + step } else { of.rest })
    }

    #[inline(always)]
    fn rem_floor_fast(self, b: i64) -> (i64, bool) {
        let of = Division::new(self, b);
        of.value(if of.rest * of.divisor < 0.0 { of.rest + of.divisor } else { of.rest })
    }
}

integer_arithmetic! { u64, |a, b| a / b, |a, b| a % b, |_e| false, }

/// 1.5 · 2^52: adding it rounds to an integer, in the low bits of the sum.
const ROUND: f64 = 6_755_399_441_055_744.0;

/// A division of integers of 32 bits in f64: no CPU divides vectors of integers.
struct Division {
    dividend: f64,
    divisor: f64,
    /// The nearest integer. What f64 rounds off the exact quotient is less than its distance from
    /// any integer that it does not equal.
    quotient: f64,
    /// The dividend less the quotient times the divisor, exact; of either sign.
    rest: f64,
    /// Whether the operands are of 32 bits.
    holds: bool,
}

impl Division {
    #[inline(always)]
    fn new(a: i64, b: i64) -> Division {
        let holds = (i64::from(a as i32) == a) & (i64::from(b as i32) == b);
        let (dividend, divisor) = (f64::from(a as i32), f64::from(b as i32));
        let quotient = (dividend / divisor + ROUND) - ROUND;
        Division { dividend, divisor, quotient, rest: dividend - quotient * divisor, holds }
    }

    /// A whole number below 2^51 as an integer, or 0 if the divisor is 0.
    #[inline(always)]
    fn value(&self, whole: f64) -> (i64, bool) {
        let value = (whole + ROUND).to_bits().wrapping_sub(ROUND.to_bits()) as i64;
        (if self.divisor == 0.0 { 0 } else { value }, self.holds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nearly all powers are the nearest f32, and none is further than the next.
    #[test]
    fn powers_are_rounded_once() {
        let mut others = 0;
        for i in 0..200_000u32 {
            let spread = |i: u32| (i.wrapping_mul(2_654_435_761) >> 8) as f32 / (1 << 24) as f32;
            let base = f32::exp2(spread(i) * 40.0 - 20.0);
            let exponent = spread(i + 7_000_000) * 10.0 - 5.0;
            let (found, nearest) =
                (power(base, exponent), libm::pow(base.into(), exponent.into()) as f32);
            assert!(found.to_bits().abs_diff(nearest.to_bits()) <= 1, "{base} ^ {exponent}");
            others += u32::from(found != nearest);
        }
        assert!(others < 20, "{others} are not the nearest");
    }

    /// Where both hold 32 bits, and the limits of these.
    #[test]
    fn integers_are_divided_in_f64() {
        let near = [0, i64::from(i32::MAX), i64::from(i32::MIN), 1 << 20, 46_341, 1000, -7];
        let all: Vec<i64> = near.iter().flat_map(|x| (-3..=3).map(move |d| x + d)).collect();
        for (a, b) in all.iter().flat_map(|a| all.iter().map(move |b| (*a, *b))) {
            let holds = [a, b].iter().all(|x| i32::try_from(*x).is_ok());
            let expected = if b == 0 {
                [0; 4]
            } else {
                [a.div_euclid(b) - i64::from(b < 0 && a % b != 0), a / b, a % b, (a % b + b) % b]
            };
            let found = [a.div_fast(b), a.div_trunc_fast(b), a.rem_fast(b), a.rem_floor_fast(b)];
            assert!(found.iter().all(|(_, of_32_bits)| *of_32_bits == holds));
            if holds {
                assert_eq!(found.map(|(value, _)| value), expected, "{a} by {b}");
            }
            assert_eq!([a.div(b), a.div_trunc(b), a.rem(b), a.rem_floor(b)], expected, "{a}, {b}");
        }
    }

    #[test]
    fn remainders_are_exact() {
        let values = [0.0f32, 1.0, 0.1, 3.0, 0.3, 7.5, 1e-40, 1e-3, 16_777_215.0, 3e9, 1e38];
        let next = values.map(|x| f32::from_bits(x.to_bits() + 1));
        let others = [f32::INFINITY, f32::NAN];
        let all: Vec<f32> = [&values[..], &next, &others].concat();
        let all: Vec<f32> = all.iter().flat_map(|x| [*x, -x, x * 12345.678]).collect();
        for (a, b) in all.iter().flat_map(|a| all.iter().map(move |b| (*a, *b))) {
            let (found, expected) = (remainder(a, b), libm::fmodf(a, b));
            let is_same = found.to_bits() == expected.to_bits();
            assert!(
                is_same || found.is_nan() && expected.is_nan(),
                "{a:e} % {b:e}: {found:e}, not {expected:e}"
            );
        }
    }

    /// Also results beyond the range of f32, and at its ends.
    #[test]
    fn powers_are_those_of_libm() {
        let bases =
            [0.0, 0.3, 1.0, 1.7, 3.0, 1e-3, 1e-20, 1e-40, 1e9, 3e38, f32::INFINITY, f32::NAN];
        for base in bases.into_iter().flat_map(|x| [x, -x]) {
            let infinite = [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, -0.0, 1e10, -33_554_433.0];
            let parts = [0.5f32, -0.5, 0.1, 1.7, -2.2, 1.0 / 3.0, 40.3, 1e-30];
            let whole = (-70i16..=70).map(f32::from);
            for exponent in whole.chain(infinite).chain(parts) {
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
