//! Arithmetic for formulas that are written once, for f32 and f64.
//!
//! The f32 functions that networks use often are our own polynomials. They have no branches, so
//! that loops over them become vector code. The others are computed in f64 by the `libm` crate and
//! rounded. Both give the same bits on every machine. The polynomials are minimax fits, evaluated
//! by Estrin's scheme to shorten the chain of dependent steps; the tests check the stated error of
//! each over all of f32.

use crate::base::num::Stored;
use crate::math::{rsqrt, trigonometric};
use std::f32::consts::LOG2_E;
use std::ops::{Add, Div, Mul, Neg, Sub};

/// f32 or f64.
pub trait Real:
    Copy
    + Send
    + Sync
    + Default
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + 'static
{
    /// The nearest value to an f64 constant.
    fn of(value: f64) -> Self;
    /// The value as f64.
    fn to_f64(self) -> f64;
    /// `self * a + b`, rounded once.
    fn fma(self, a: Self, b: Self) -> Self;
    /// Absolute value.
    fn abs(self) -> Self;
    /// Square root, correctly rounded.
    fn sqrt(self) -> Self;
    /// Rounded down.
    fn floor(self) -> Self;
    /// Rounded up.
    fn ceil(self) -> Self;
    /// Rounded to nearest, ties to even.
    fn round_even(self) -> Self;
    /// Rounded to nearest, ties away from zero.
    fn round_away(self) -> Self;
    /// Rounded towards zero.
    fn trunc(self) -> Self;
    /// Magnitude of `self`, sign of `sign`.
    fn copysign(self, sign: Self) -> Self;
    /// Whether it is NaN.
    fn is_nan(self) -> bool;
    /// e to the power of `self`.
    fn exp(self) -> Self;
    /// Natural logarithm.
    fn ln(self) -> Self;
    /// Hyperbolic tangent.
    fn tanh(self) -> Self;
    /// Error function.
    fn erf(self) -> Self;
    /// A function that is computed in f64.
    fn via_f64(self, f: impl Fn(f64) -> f64) -> Self;

    /// The sine of this and some quarter turns, and whether the value is valid. The default is
    /// `false`: the caller computes it in f64.
    #[inline(always)]
    fn sine(self, _quarters: u64) -> (Self, bool) {
        (self, false)
    }

    /// The reciprocal of the square root, and whether the value is valid. The default is `false`:
    /// the caller computes it in f64.
    #[inline(always)]
    fn rsqrt(self) -> (Self, bool) {
        (self, false)
    }

    /// The smaller of both; the other if one is NaN.
    #[inline(always)]
    fn least(self, other: Self) -> Self {
        if self < other || other.is_nan() { self } else { other }
    }

    /// The larger of both; the other if one is NaN.
    #[inline(always)]
    fn greatest(self, other: Self) -> Self {
        if self > other || other.is_nan() { self } else { other }
    }

    /// e to the power of a number that is not above 0, as a softmax weight: results below the
    /// normal f32 numbers count as 0. Products with subnormal numbers take a hundred times as long
    /// on some machines, and masks of -100 would make many of them.
    #[inline(always)]
    fn weight(self) -> Self {
        self.exp()
    }

    /// `e^x - 1` for a number that is not above 0; for others, any value.
    #[inline(always)]
    fn exp_minus_one(self) -> Self {
        self.exp() - Self::of(1.0)
    }

    /// `x Φ(x)`, with Φ the normal distribution.
    #[inline(always)]
    fn gelu(self) -> Self {
        let erf = (self * Self::of(std::f64::consts::FRAC_1_SQRT_2)).erf();
        Self::of(0.5) * self * (Self::of(1.0) + erf)
    }

    /// `1 + exp(-x)`.
    #[inline(always)]
    fn one_and_exp_of_minus(self) -> Self {
        Self::of(1.0) + (-self).exp()
    }

    /// `1 / (1 + exp(-x))`.
    #[inline(always)]
    fn sigmoid(self) -> Self {
        Self::of(1.0) / self.one_and_exp_of_minus()
    }
}

/// Stored types that are computed in f32 or f64.
pub trait StoredReal: Stored<Wide: Real> {}

impl<T: Stored<Wide: Real>> StoredReal for T {}

/// 1.5 · 2^23 + 127. Adding it to a small f32 rounds that to an integer, in the low bits of the
/// sum, with the exponent bias added.
pub(super) const ROUND: f32 = 12_583_039.0;

/// ln 2 in two parts, negative: the first times an integer below 2^8 is exact.
pub(super) const MINUS_LN_2: [f32; 2] = [-0.693_145_75, -1.428_606_8e-6];

/// The coefficients of [`exp_factor`], from r⁶ down to r².
pub(super) const EXP: [f32; 5] =
    [0.001_381_453_8, 0.008_368_745, 0.041_668_39, 0.166_665_21, 0.499_999_94];

/// The nearest integer to `x / ln 2`, for `x` between -104 and 89; and the same plus [`ROUND`].
#[inline(always)]
fn nearest_power(x: f32, log2_e: f32) -> (f32, f32) {
    let shifted = x.mul_add(log2_e, ROUND);
    (shifted - ROUND, shifted)
}

/// `e^x / 2^n`.
#[inline(always)]
fn exp_factor(x: f32, n: f32) -> f32 {
    let r = n.mul_add(MINUS_LN_2[0], x);
    let r = n.mul_add(MINUS_LN_2[1], r);
    let square = r * r;
    let high = EXP[0].mul_add(r, EXP[1]);
    let low = EXP[2].mul_add(r, EXP[3]);
    let p = high.mul_add(square, low).mul_add(r, EXP[4]);
    p.mul_add(square, r) + 1.0
}

/// Below this, e to the power of a number is not a normal f32.
pub(super) const LEAST_WEIGHT: f32 = -87.3;

/// Below this, `e^-x` is infinite in f32; so it is below -88.4.
pub(super) const LEAST_GATE: f32 = -89.0;

/// 2 to the power of an integer to which [`ROUND`] was added, if the result is a normal number;
/// 2^128 is infinite.
#[inline(always)]
fn power(shifted: f32) -> f32 {
    f32::from_bits(shifted.to_bits() << 23)
}

/// e to the power of `x`, if the result is a normal number.
#[inline(always)]
fn exp_near(x: f32) -> f32 {
    let (n, shifted) = nearest_power(x, LOG2_E);
    exp_factor(x, n) * power(shifted)
}

impl Real for f32 {
    #[inline(always)]
    fn of(value: f64) -> f32 {
        value as f32
    }

    #[inline(always)]
    fn to_f64(self) -> f64 {
        f64::from(self)
    }

    #[inline(always)]
    fn fma(self, a: f32, b: f32) -> f32 {
        self.mul_add(a, b)
    }

    #[inline(always)]
    fn abs(self) -> f32 {
        f32::from_bits(self.to_bits() & 0x7fff_ffff)
    }

    #[inline(always)]
    fn sqrt(self) -> f32 {
        f32::sqrt(self)
    }

    #[inline(always)]
    fn floor(self) -> f32 {
        f32::floor(self)
    }

    #[inline(always)]
    fn ceil(self) -> f32 {
        f32::ceil(self)
    }

    #[inline(always)]
    fn round_even(self) -> f32 {
        f32::round_ties_even(self)
    }

    #[inline(always)]
    fn round_away(self) -> f32 {
        f32::round(self)
    }

    #[inline(always)]
    fn trunc(self) -> f32 {
        f32::trunc(self)
    }

    #[inline(always)]
    fn copysign(self, sign: f32) -> f32 {
        let sign = sign.to_bits() & 0x8000_0000;
        f32::from_bits(self.to_bits() & 0x7fff_ffff | sign)
    }

    #[inline(always)]
    fn is_nan(self) -> bool {
        f32::is_nan(self)
    }

    /// At most 1.1 ULP off: `2^n · e^r` with `|r| <= ln 2 / 2`.
    #[inline(always)]
    fn exp(self) -> f32 {
        // Outside of these bounds the result is 0 or infinite; clamping keeps the exponent in
        // range.
        let x = if self < -104.0 { -104.0 } else { self };
        let x = if x > 89.0 { 89.0 } else { x };
        let (n, shifted) = nearest_power(x, LOG2_E);
        // In two factors, since 2^n alone may not be a normal number.
        let power = |n: i32| f32::from_bits(((n + 127) as u32) << 23);
        let whole = shifted.to_bits().wrapping_sub(ROUND.to_bits()) as i32;
        let half = whole >> 1;
        exp_factor(x, n) * power(half) * power(whole - half)
    }

    /// In one step, with one rounding less. Infinite from 2^127.5 on.
    #[inline(always)]
    fn one_and_exp_of_minus(self) -> f32 {
        // From 17 on it is 1.
        let x = if self < LEAST_GATE { LEAST_GATE } else { self };
        let x = if x > -LEAST_WEIGHT { -LEAST_WEIGHT } else { x };
        // The constants change their sign in place of x.
        let (n, shifted) = nearest_power(x, -LOG2_E);
        exp_factor(-x, n).mul_add(power(shifted), 1.0)
    }

    #[inline(always)]
    fn weight(self) -> f32 {
        let x = if self < LEAST_WEIGHT { LEAST_WEIGHT } else { self };
        let y = exp_near(x);
        if self < LEAST_WEIGHT { 0.0 } else { y }
    }

    /// The same bits as the difference `e^x - 1`: products with a power of two are exact, and if
    /// the power is too small the result is -1.
    #[inline(always)]
    fn exp_minus_one(self) -> f32 {
        let x = if self < LEAST_WEIGHT { LEAST_WEIGHT } else { self };
        let (n, shifted) = nearest_power(x, LOG2_E);
        exp_factor(x, n).mul_add(power(shifted), -1.0)
    }

    /// At most 1 ULP off: `n ln 2 + ln(1 + f)` with `1 + f` near 1.
    #[inline(always)]
    fn ln(self) -> f32 {
        let tiny = self < f32::MIN_POSITIVE;
        let x = if tiny { self * 8_388_608.0 } else { self };
        let bits = x.to_bits().wrapping_sub(0x3f35_04f3);
        let n = (bits as i32 >> 23) as f32 - if tiny { 23.0 } else { 0.0 };
        let f = f32::from_bits((bits & 0x7f_ffff) + 0x3f35_04f3) - 1.0;
        let p = -0.076_344_38f32;
        let p = p.mul_add(f, 0.127_615_63);
        let p = p.mul_add(f, -0.131_601_97);
        let p = p.mul_add(f, 0.142_017_6);
        let p = p.mul_add(f, -0.166_233_55);
        let p = p.mul_add(f, 0.200_012_27);
        let p = p.mul_add(f, -0.250_008_23);
        let p = p.mul_add(f, 0.333_333_3);
        let square = f * f;
        let low = (p * f).mul_add(square, n * 9.058_001e-6);
        let value = n.mul_add(0.693_138_1, (-0.5f32).mul_add(square, low) + f);
        let value = if self == f32::INFINITY { f32::INFINITY } else { value };
        let value = if self < 0.0 || self.is_nan() { f32::NAN } else { value };
        if self == 0.0 { f32::NEG_INFINITY } else { value }
    }

    /// At most 2 ULP off: odd polynomial near 0, `1 - 2 / (e^2x + 1)` beyond.
    #[inline(always)]
    fn tanh(self) -> f32 {
        let x = Real::abs(self);
        let s = x * x;
        let s2 = s * s;
        let high = (-0.005_704_984_5f32).mul_add(s, 0.020_639_086);
        let low = (-0.053_739_715f32).mul_add(s, 0.133_314_42);
        let p = high.mul_add(s2, low).mul_add(s, -0.333_332_8);
        let near = (p * s).mul_add(x, x);
        // From 10 on the result is 1.
        let t = if x > 10.0 { 10.0 } else { x };
        let far = 1.0 - 2.0 / (exp_near(t + t) + 1.0);
        let value = if x < 0.625 { near } else { far };
        Real::copysign(value, self)
    }

    /// At most 2 ULP off: odd polynomial near 0, `1 - exp(-x Q(x))` beyond.
    #[inline(always)]
    fn erf(self) -> f32 {
        let x = Real::abs(self);
        let s = x * x;
        let s2 = s * s;
        let low = (-0.376_126_32f32).mul_add(s, 0.128_379_17);
        let middle = (-0.026_857_708f32).mul_add(s, 0.112_836_644);
        let high = (-0.000_809_774_27f32).mul_add(s, 0.005_196_956_5);
        let high = 8.185_225e-5f32.mul_add(s2, high);
        let near = high.mul_add(s2 * s2, middle.mul_add(s2, low)).mul_add(x, x);
        // From 3.95 on the result is 1 in f32, but the polynomial would diverge.
        let t = if x > 4.0 { 4.0 } else { x };
        let t2 = t * t;
        let low = 0.635_625_3f32.mul_add(t, 1.128_551_7);
        let middle = (-0.022_674_128f32).mul_add(t, 0.105_262_69);
        let high = (-4.958_441e-5f32).mul_add(t, 0.002_930_151);
        let highest = 4.938_252e-6f32.mul_add(t, -4.558_164_4e-5);
        let (low, high) = (middle.mul_add(t2, low), highest.mul_add(t2, high));
        let q = high.mul_add(t2 * t2, low);
        let far = 1.0 - exp_near(-q * t);
        let value = if x < 0.935 { near } else { far };
        let value = if self.is_nan() { self } else { value };
        Real::copysign(value, self)
    }

    /// Off by at most 1.2e-7 times the larger of 1 and the result:
    /// `max(x, 0) - |x| / 2 erfc(|x| / √2)` with `erfc(t) = exp(-t Q(t))`.
    #[inline(always)]
    fn gelu(self) -> f32 {
        const HALF_ROOT: f32 = std::f32::consts::FRAC_1_SQRT_2;
        let t = Real::abs(self) * HALF_ROOT;
        // From 20 on, erfc is 0 in f32.
        let t = if t > 20.0 { 20.0 } else { t };
        let t2 = t * t;
        let lowest = 0.636_569_56f32.mul_add(t, 1.128_381_8);
        let low = (-0.019_982_42f32).mul_add(t, 0.103_077_09);
        let high = 0.000_679_202_6f32.mul_add(t, 0.001_053_288_9);
        let highest = 1.534_786e-5f32.mul_add(t, -0.000_188_225_57);
        let (low, high) = (low.mul_add(t2, lowest), highest.mul_add(t2, high));
        let q = high.mul_add(t2 * t2, low);
        let above = if self > 0.0 { self } else { 0.0 };
        (-t * HALF_ROOT).mul_add((-q * t).weight(), above)
    }

    #[inline(always)]
    fn sine(self, quarters: u64) -> (f32, bool) {
        trigonometric::sine(self, quarters)
    }

    #[inline(always)]
    fn rsqrt(self) -> (f32, bool) {
        rsqrt::rsqrt(self)
    }

    #[inline(always)]
    fn via_f64(self, f: impl Fn(f64) -> f64) -> f32 {
        f(f64::from(self)) as f32
    }
}

impl Real for f64 {
    #[inline(always)]
    fn of(value: f64) -> f64 {
        value
    }

    #[inline(always)]
    fn to_f64(self) -> f64 {
        self
    }

    #[inline(always)]
    fn fma(self, a: f64, b: f64) -> f64 {
        self.mul_add(a, b)
    }

    #[inline(always)]
    fn abs(self) -> f64 {
        f64::abs(self)
    }

    #[inline(always)]
    fn sqrt(self) -> f64 {
        f64::sqrt(self)
    }

    #[inline(always)]
    fn floor(self) -> f64 {
        f64::floor(self)
    }

    #[inline(always)]
    fn ceil(self) -> f64 {
        f64::ceil(self)
    }

    #[inline(always)]
    fn round_even(self) -> f64 {
        f64::round_ties_even(self)
    }

    #[inline(always)]
    fn round_away(self) -> f64 {
        f64::round(self)
    }

    #[inline(always)]
    fn trunc(self) -> f64 {
        f64::trunc(self)
    }

    #[inline(always)]
    fn copysign(self, sign: f64) -> f64 {
        f64::copysign(self, sign)
    }

    #[inline(always)]
    fn is_nan(self) -> bool {
        f64::is_nan(self)
    }

    fn exp(self) -> f64 {
        libm::exp(self)
    }

    fn ln(self) -> f64 {
        libm::log(self)
    }

    fn tanh(self) -> f64 {
        libm::tanh(self)
    }

    fn erf(self) -> f64 {
        libm::erf(self)
    }

    #[inline(always)]
    fn via_f64(self, f: impl Fn(f64) -> f64) -> f64 {
        f(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::multiversion;

    multiversion! {
        fn each(from: &[f32], to: &mut [f32], which: usize) {
            for (to, &x) in to.iter_mut().zip(from) {
                *to = match which {
                    0 => Real::exp(x),
                    1 => Real::ln(x),
                    2 => Real::tanh(x),
                    3 => Real::erf(x),
                    _ => Real::sigmoid(x),
                };
            }
        }
    }

    /// Distance in units in the last place of the f32 nearest to `exact`.
    fn ulps(got: f32, exact: f64) -> f64 {
        let nearest = exact as f32;
        if got == nearest || (got.is_nan() && exact.is_nan()) {
            return 0.0;
        }
        let unit = match nearest.abs().to_bits() {
            bits if bits < 0x0080_0000 => f64::from(f32::from_bits(1)),
            bits if bits >= 0x7f80_0000 => f64::from(2f32.powi(104)),
            bits => f64::from(f32::from_bits(bits + 1)) - f64::from(f32::from_bits(bits)),
        };
        if nearest.is_infinite() || got.is_infinite() || got.is_nan() {
            return if got == nearest { 0.0 } else { f64::INFINITY };
        }
        (f64::from(got) - exact).abs() / unit
    }

    /// The largest error over every `stride`-th of all f32 values.
    fn worst(which: usize, exact: fn(f64) -> f64, stride: usize) -> (f64, f32) {
        let mut worst = (0.0, 0.0);
        let mut block = vec![0f32; 4096];
        let mut out = vec![0f32; 4096];
        let mut bits = 0u64;
        while bits <= u64::from(u32::MAX) {
            for v in &mut block {
                *v = f32::from_bits(bits as u32);
                bits += stride as u64;
            }
            each(&block, &mut out, which);
            for (x, y) in block.iter().zip(&out) {
                let error = ulps(*y, exact(f64::from(*x)));
                if error > worst.0 {
                    worst = (error, *x);
                }
            }
        }
        worst
    }

    /// The definition, with 0 where the power is above 2^127.5.
    fn sigmoid(x: f64) -> f64 {
        if x * f64::from(LOG2_E) < -127.5 { 0.0 } else { 1.0 / (1.0 + libm::exp(-x)) }
    }

    /// The accuracy that the documentation states, on a sample of f32 by default, and on all of it
    /// with `IRRUN_EXHAUSTIVE=1`.
    #[test]
    fn errors_are_as_stated() {
        let stride = if std::env::var("IRRUN_EXHAUSTIVE").is_ok() { 1 } else { 4099 };
        type Stated = (&'static str, fn(f64) -> f64, f64);
        let functions: [Stated; 5] = [
            ("exp", libm::exp, 1.1),
            ("ln", libm::log, 1.0),
            ("tanh", libm::tanh, 2.0),
            ("erf", libm::erf, 2.0),
            ("sigmoid", sigmoid, 2.5),
        ];
        for (which, (name, exact, bound)) in functions.into_iter().enumerate() {
            let (error, x) = worst(which, exact, stride);
            assert!(error <= bound, "{name}({x}) is {error} ULP off");
        }
    }

    /// From -60 to 60, and all f32 with `IRRUN_EXHAUSTIVE=1`.
    #[test]
    fn gelu_is_as_near_as_stated() {
        let stride = if std::env::var("IRRUN_EXHAUSTIVE").is_ok() { 1 } else { 4099 };
        let all = (0..=u32::MAX).step_by(stride).map(f32::from_bits).filter(|x| !x.is_nan());
        for x in all.chain((-60_000..60_000).map(|i| i as f32 * 0.001)) {
            let half = 0.5 * f64::from(x);
            let tail = libm::erfc(-f64::from(x) * std::f64::consts::FRAC_1_SQRT_2);
            let exact = if x == f32::NEG_INFINITY { 0.0 } else { half * tail };
            let found = f64::from(Real::gelu(x));
            let is_near = found == exact || (found - exact).abs() <= 1.2e-7 * exact.abs().max(1.0);
            assert!(is_near, "gelu({x}) = {found}, not {exact}");
        }
        assert!(Real::gelu(f32::NAN).is_nan());
    }

    /// A sample of the numbers that are not above 0, and all of them with `IRRUN_EXHAUSTIVE=1`.
    #[test]
    fn exp_minus_one_is_the_difference() {
        let stride = if std::env::var("IRRUN_EXHAUSTIVE").is_ok() { 1 } else { 4099 };
        let all = (0x8000_0000..=0xff80_0000).step_by(stride).map(f32::from_bits);
        for x in all.chain([0.0, LEAST_WEIGHT, -88.0, -103.0, f32::NEG_INFINITY]) {
            let difference = Real::exp(x) - 1.0;
            assert_eq!(x.exp_minus_one().to_bits(), difference.to_bits(), "{x}");
        }
        assert!(f32::NAN.exp_minus_one().is_nan());
    }

    #[test]
    fn edges() {
        for (x, y) in [(f32::INFINITY, f32::INFINITY), (f32::NEG_INFINITY, 0.0), (0.0, 1.0)] {
            assert_eq!(Real::exp(x), y);
        }
        assert!(Real::exp(f32::NAN).is_nan() && Real::ln(-1f32).is_nan());
        assert_eq!(Real::ln(0f32), f32::NEG_INFINITY);
        assert_eq!(Real::tanh(f32::NEG_INFINITY), -1.0);
        assert_eq!(Real::erf(-0f32).to_bits(), (-0f32).to_bits());
        assert_eq!(Real::sigmoid(-200f32), 0.0);
        assert_eq!(2f32.greatest(f32::NAN), 2.0);
    }
}
