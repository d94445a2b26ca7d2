//! Functions of one element, each written once as a formula over [`Real`].

use crate::base::num::{Pod, Stored};
use crate::base::par::Threads;
use crate::base::scratch::InOut;
use crate::base::slices::{LANES, each};
use crate::math::convert::{Decoder, Encoder};
use crate::math::real::Real;
use crate::multiversion;
use std::f64::consts::{FRAC_2_SQRT_PI, SQRT_2};

/// Elements that are worth a second thread, for a function of a few operations.
const GRAIN: usize = 8 << 10;

/// Elements of other types that are computed at a time.
const BLOCK: usize = 512;

/// A function of one element.
trait Formula: Copy + Send + Sync {
    /// Whether it may return its argument.
    const KEEPS: bool;

    /// Whether there is a fast form.
    const HAS_FAST: bool;

    fn apply<R: Real>(self, x: R) -> R;

    /// The value for most elements, without branches, and whether it is that of
    /// [`Formula::apply`] to the last digit or the one before.
    #[inline(always)]
    fn apply_fast<R: Real>(self, x: R) -> (R, bool) {
        (self.apply(x), true)
    }

    /// The fast value if it holds.
    #[inline(always)]
    fn value<R: Real>(self, x: R) -> R {
        let (value, holds) = self.apply_fast(x);
        if holds { value } else { self.apply(x) }
    }
}

/// Declares the functions: a name, parameters, and the formula, in which `R` is f32 or f64. Those
/// that may return their argument are marked.
macro_rules! formulas {
    ($($(#[$doc:meta])* $name:ident { $($p:ident),* } $($keeps:ident)? |$x:ident| $body:expr
       $(, fast $fast:expr)?;)*) => {
        /// A function of one element.
        #[derive(Clone, Copy, Debug, PartialEq)]
        #[allow(missing_docs)] // the parameters are those of the formula
        pub enum Unary {
            $($(#[$doc])* $name { $($p: f64),* },)*
        }

        mod formula {
            $(#[derive(Clone, Copy)]
            pub(crate) struct $name { $(pub(crate) $p: f64),* })*
        }

        $(impl Formula for formula::$name {
            const KEEPS: bool = { let marks: &[&str] = &[$(stringify!($keeps))?]; !marks.is_empty() };
            const HAS_FAST: bool = { let marks: &[&str] = &[$(stringify!($fast))?]; !marks.is_empty() };

            #[inline(always)]
            fn apply<R: Real>(self, $x: R) -> R {
                $(let $p = R::of(self.$p);)*
                $body
            }

            $(#[inline(always)]
            fn apply_fast<R: Real>(self, $x: R) -> (R, bool) {
                $fast
            })?
        })*

        /// Applies a function to every f32.
        pub fn unary_f32(threads: &Threads, function: Unary, io: &mut InOut<'_, f32>) {
            match function {
                $(Unary::$name { $($p),* } => {
                    let f = formula::$name { $($p),* };
                    in_parts(threads, io, &|part| map_f32(f, part));
                })*
            }
        }

        /// Applies a function to every f64.
        pub fn unary_f64(threads: &Threads, function: Unary, io: &mut InOut<'_, f64>) {
            match function {
                $(Unary::$name { $($p),* } => {
                    let f = formula::$name { $($p),* };
                    in_parts(threads, io, &|part| map_f64(f, part));
                })*
            }
        }
    };
}

/// Divides elements among threads. Compiled once for all functions.
fn in_parts<T: Pod>(threads: &Threads, io: &mut InOut<'_, T>, map: &(dyn Fn(InOut<'_, T>) + Sync)) {
    // SAFETY: the ranges are disjoint.
    threads.par_ranges(io.len(), GRAIN, |range| map(unsafe { io.part(range) }));
}

multiversion! {
    fn map_f32<F: Formula>(f: F, io: InOut<'_, f32>) {
        let mut io = io;
        if F::HAS_FAST {
            return fast_blocks(f, io);
        }
        match io.slices() {
            Err(_) if F::KEEPS => blocks(f, io),
            Err(run) => {
                for x in run {
                    *x = f.apply(*x);
                }
            }
            Ok((from, to)) => {
                for (y, x) in to.iter_mut().zip(from) {
                    *y = f.apply(*x);
                }
            }
        }
    }
}

/// Applies a function in blocks. If LLVM knew that values are written to where they were read, it
/// would use masked stores for functions that may return their argument. Those take some twenty
/// cycles on AMD.
#[inline(always)]
fn blocks<F: Formula>(f: F, mut io: InOut<'_, f32>) {
    let whole = io.len() / LANES * LANES;
    for at in (0..whole).step_by(LANES) {
        let x: [f32; LANES] = io.load(at);
        io.store(at, each(x, |x| f.apply(x)));
    }
    for at in whole..io.len() {
        let [x] = io.load(at);
        io.store(at, [f.apply(x)]);
    }
}

/// Applies the fast form of a function in blocks, and the function itself where that does not hold.
#[inline(always)]
fn fast_blocks<F: Formula>(f: F, mut io: InOut<'_, f32>) {
    let whole = io.len() / LANES * LANES;
    for at in (0..whole).step_by(LANES) {
        let x: [f32; LANES] = io.load(at);
        let (mut values, mut all_hold) = ([0.0; LANES], true);
        for i in 0..LANES {
            let (value, holds) = f.apply_fast(x[i]);
            values[i] = value;
            all_hold &= holds;
        }
        io.store(at, if all_hold { values } else { each(x, |x| f.value(x)) });
    }
    for at in whole..io.len() {
        let [x] = io.load(at);
        io.store(at, [f.value(x)]);
    }
}

fn map_f64<F: Formula>(f: F, mut io: InOut<'_, f64>) {
    for at in 0..io.len() {
        let [x] = io.load(at);
        io.store(at, [f.apply(x)]);
    }
}

formulas! {
    /// Absolute value.
    Abs {} |x| x.abs();
    /// Arccosine.
    Acos {} |x| x.via_f64(libm::acos);
    /// Inverse hyperbolic cosine.
    Acosh {} |x| x.via_f64(acosh);
    /// Arcsine.
    Asin {} |x| x.via_f64(libm::asin);
    /// Inverse hyperbolic sine.
    Asinh {} |x| x.via_f64(libm::asinh);
    /// Arctangent.
    Atan {} |x| x.via_f64(libm::atan);
    /// Inverse hyperbolic tangent.
    Atanh {} |x| x.via_f64(libm::atanh);
    /// Rounded up.
    Ceil {} |x| x.ceil();
    /// Clamped to two bounds; NaN stays.
    Clamp { low, high } keeps |x| {
        let x = if x < low { low } else { x };
        if x > high { high } else { x }
    };
    /// To the power of -1/2.
    PowerOfMinusHalf {} |x| x.via_f64(|x| 1.0 / root_of_power(x)), fast x.rsqrt();
    /// To the power of 1/2.
    PowerOfHalf {} |x| root_of_power(x);
    /// To the power of -1.
    Reciprocal {} |x| R::of(1.0) / x;
    /// To the power of 3.
    Cube {} |x| x.via_f64(|x| x * x * x);
    /// Cosine.
    Cos {} |x| x.via_f64(libm::cos), fast x.sine(1);
    /// Hyperbolic cosine.
    Cosh {} |x| x.via_f64(libm::cosh);
    /// `alpha (e^x - 1)` below 0.
    Elu { alpha } keeps |x| if x > R::of(0.0) { x } else { alpha * x.exp_minus_one() };
    /// Error function.
    Erf {} |x| x.erf();
    /// Inverse of the error function.
    ErfInv {} |x| x.via_f64(erf_inv);
    /// e to the power.
    Exp {} |x| x.exp();
    /// Rounded down.
    Floor {} |x| x.floor();
    /// `x Φ(x)`, by the error function.
    GeluErf {} |x| x.gelu();
    /// `x Φ(x)`, approximated by the hyperbolic tangent.
    GeluTanh {} |x| {
        let inner = (x * x * x).fma(R::of(0.044715), x) * R::of(FRAC_2_SQRT_PI / SQRT_2);
        R::of(0.5) * x * (R::of(1.0) + inner.tanh())
    };
    /// `max(0, min(1, alpha x + beta))`.
    HardSigmoid { alpha, beta } |x| {
        x.fma(alpha, beta).greatest(R::of(0.0)).least(R::of(1.0))
    };
    /// `min(max(x + 3, 0), 6) / 6`.
    HSigmoid {} |x| gate(x, R::of(SIXTH));
    /// `x min(max(x + 3, 0), 6) factor`. HSwish has [`SIXTH`].
    HSwish { factor } |x| x * gate(x, factor);
    /// The element itself.
    Identity {} |x| x;
    /// Natural logarithm.
    Log {} |x| x.ln();
    /// `x tanh(ln(1 + e^x))`.
    Mish {} keeps |x| {
        let e = x.exp();
        let n = e * (e + R::of(2.0));
        if x > R::of(20.0) { x } else { x * (n / (n + R::of(2.0))) }
    };
    /// Negation.
    Negative {} |x| -x;
    /// `alpha x` below 0, else `x`.
    LeakyRelu { alpha } keeps |x| if x < R::of(0.0) { alpha * x } else { x };
    /// `max(x, 0)`.
    Relu {} keeps |x| if x > R::of(0.0) { x } else { R::of(0.0) };
    /// Rounded to nearest, ties to even.
    RoundEven {} |x| x.round_even();
    /// Rounded to nearest, ties away from zero.
    RoundAway {} |x| x.round_away();
    /// `lambda x` above 0, `lambda alpha (e^x - 1)` below.
    Selu { alpha, lambda } |x| {
        lambda * if x > R::of(0.0) { x } else { alpha * x.exp_minus_one() }
    };
    /// `1 / (1 + e^-x)`.
    Sigmoid {} |x| x.sigmoid();
    /// -1, 0 or 1; NaN stays.
    Sign {} keeps |x| {
        let zero = if x.is_nan() { x } else { R::of(0.0) };
        let positive = if x > R::of(0.0) { R::of(1.0) } else { zero };
        if x < R::of(0.0) { R::of(-1.0) } else { positive }
    };
    /// Sine.
    Sin {} |x| x.via_f64(libm::sin), fast x.sine(0);
    /// Hyperbolic sine.
    Sinh {} |x| x.via_f64(libm::sinh);
    /// `ln(1 + e^x)`.
    SoftPlus {} keeps |x| {
        let e = x.exp();
        let small = e * (R::of(1.0) - R::of(0.5) * e);
        let value = if e < R::of(1e-4) { small } else { (R::of(1.0) + e).ln() };
        if x > R::of(20.0) { x } else { value }
    };
    /// `x / (1 + |x|)`.
    SoftSign {} |x| x / (R::of(1.0) + x.abs());
    /// Square root.
    Sqrt {} |x| x.sqrt();
    /// To the power of 2.
    Square {} |x| x * x;
    /// `x / (1 + e^-x)`.
    Silu {} |x| x / x.one_and_exp_of_minus();
    /// `x / (1 + e^(-beta x))`.
    Swish { beta } |x| x / (beta * x).one_and_exp_of_minus();
    /// Tangent.
    Tan {} |x| x.via_f64(libm::tan);
    /// Hyperbolic tangent.
    Tanh {} |x| x.tanh();
}

/// The factor that stands for a division by 6 in HSigmoid and HSwish: a product takes half as long.
/// 6 times the nearest number to 1/6 rounds to 1.
pub const SIXTH: f64 = 1.0 / 6.0;

/// The root as a power: that of -0 is 0, and that of minus infinity is infinite.
#[inline(always)]
fn root_of_power<R: Real>(x: R) -> R {
    let infinite = R::of(f64::INFINITY);
    (if x == -infinite { infinite } else { x + R::of(0.0) }).sqrt()
}

/// `min(max(x + 3, 0), 6) factor`.
#[inline(always)]
fn gate<R: Real>(x: R, factor: R) -> R {
    (x + R::of(3.0)).greatest(R::of(0.0)).least(R::of(6.0)) * factor
}

/// Inverse hyperbolic cosine. That of libm is a number for many arguments below -2, and NaN for -1.
fn acosh(x: f64) -> f64 {
    libm::acosh(if x < -1.0 { -1.0 } else { x })
}

/// Inverse of erf: starts with Winitzki's approximation, then Newton's method.
fn erf_inv(y: f64) -> f64 {
    if y.abs() >= 1.0 || y.is_nan() {
        return if y.abs() == 1.0 { y * f64::INFINITY } else { f64::NAN };
    }
    const A: f64 = 0.147;
    let log = libm::log1p(-y * y);
    let half = 2.0 / (std::f64::consts::PI * A) + log / 2.0;
    let mut x = (libm::sqrt(libm::sqrt(half * half - log / A) - half)).copysign(y);
    for _ in 0..3 {
        // erfc keeps its precision where erf is close to 1.
        let error = if x.abs() < 0.5 {
            libm::erf(x) - y
        } else {
            x.signum() * ((1.0 - y.abs()) - libm::erfc(x.abs()))
        };
        x -= error / (FRAC_2_SQRT_PI * libm::exp(-x * x));
    }
    x
}

/// Applies a function to values that are stored in another type and computed in f32.
///
/// # Panics
/// When the lengths do not match.
pub fn unary_via_f32(
    threads: &Threads,
    function: Unary,
    (from, from_size, decode): (&[u8], usize, Decoder<f32>),
    (to, to_size, encode): (&mut [u8], usize, Encoder<f32>),
) {
    let alone = Threads::single();
    threads.par_chunks_mut(to, BLOCK * to_size, GRAIN * to_size, |first, part| {
        let mut block = [0f32; BLOCK];
        let mut at = first * BLOCK * from_size;
        for to in part.chunks_mut(BLOCK * to_size) {
            let block = &mut block[..to.len() / to_size];
            decode(&from[at..at + block.len() * from_size], block);
            unary_f32(alone, function, &mut InOut::in_place(block));
            encode(block, to);
            at += block.len() * from_size;
        }
    });
}

/// Applies a function to integers, computed in f64 and rounded, ties away from zero. Results
/// outside `limits`, those of the type, become the nearer one; NaN becomes 0.
pub fn unary_via_f64<T: Stored>(
    threads: &Threads,
    function: Unary,
    (lowest, highest): (T, T),
    from: &[T],
    to: &mut [T],
) {
    let wide = |limit: T| f64::from_wide(limit.widen());
    // The highest value of 64-bit types rounds up to the first value beyond.
    let (low, high) = (wide(lowest), wide(highest));
    let alone = Threads::single();
    threads.par_chunks_mut(to, BLOCK, GRAIN, |first, part| {
        let from = &from[first * BLOCK..][..part.len()];
        let mut block = [0f64; BLOCK];
        for (from, to) in from.chunks(BLOCK).zip(part.chunks_mut(BLOCK)) {
            let block = &mut block[..to.len()];
            for (wide, x) in block.iter_mut().zip(from) {
                *wide = f64::from_wide(x.widen());
            }
            unary_f64(alone, function, &mut InOut::in_place(block));
            for (to, wide) in to.iter_mut().zip(block) {
                *to = match *wide {
                    wide if wide <= low => lowest,
                    wide if wide >= high => highest,
                    wide => T::from_f64(wide.round()),
                };
            }
        }
    });
}

/// The nearest f64 to a wide value.
trait FromWide {
    fn from_wide<W: crate::base::num::Wide>(wide: W) -> Self;
}

impl FromWide for f64 {
    #[inline(always)]
    fn from_wide<W: crate::base::num::Wide>(wide: W) -> f64 {
        wide.narrow::<f64>()
    }
}

/// A function of an integer, computed in its own width; it wraps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntUnary {
    /// Absolute value.
    Abs,
    /// All bits inverted.
    Not,
    /// Negation.
    Negative,
    /// `max(x, 0)`.
    Relu,
    /// -1, 0 or 1.
    Sign,
}

/// Applies a function to signed integers.
pub fn unary_int<T: Stored<Wide = i64>>(
    threads: &Threads,
    function: IntUnary,
    from: &[T],
    to: &mut [T],
) {
    threads.par_chunks_mut(to, 1, GRAIN, |first, part| {
        let from = &from[first..][..part.len()];
        match function {
            IntUnary::Abs => map_int(i64::wrapping_abs, from, part),
            IntUnary::Not => map_int(|x| !x, from, part),
            IntUnary::Negative => map_int(i64::wrapping_neg, from, part),
            IntUnary::Relu => map_int(|x| x.max(0), from, part),
            IntUnary::Sign => map_int(i64::signum, from, part),
        }
    });
}

multiversion! {
    fn map_int<F: Fn(i64) -> i64, T: Stored<Wide = i64>>(f: F, from: &[T], to: &mut [T]) {
        for (to, from) in to.iter_mut().zip(from) {
            *to = T::from_i64(f(from.widen()));
        }
    }
}

/// Clamps integers to two bounds.
pub fn clamp_int<T: Stored + PartialOrd>(
    threads: &Threads,
    (low, high): (T, T),
    from: &[T],
    to: &mut [T],
) {
    threads.par_chunks_mut(to, 1, GRAIN, |first, part| {
        for (to, x) in part.iter_mut().zip(&from[first..]) {
            let x = if *x < low { low } else { *x };
            *to = if x > high { high } else { x };
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::num::f16;
    use crate::math::convert::{decode, encode};
    use std::f64::consts::FRAC_1_SQRT_2;

    fn apply(function: Unary, values: &[f32]) -> Vec<f32> {
        let mut out = vec![0.0; values.len()];
        unary_f32(&Threads::new(2), function, &mut InOut::separate(values, &mut out));
        out
    }

    #[test]
    fn powers_are_those_of_libm() {
        let mut values: Vec<f32> = (-4000..4000).map(|i| i as f32 * 0.0037).collect();
        values.extend([0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, 1e-40, 3e38]);
        for (function, exponent) in [
            (Unary::Reciprocal {}, -1.0),
            (Unary::PowerOfMinusHalf {}, -0.5),
            (Unary::PowerOfHalf {}, 0.5),
            (Unary::Square {}, 2.0),
            (Unary::Cube {}, 3.0),
        ] {
            for (x, y) in values.iter().zip(apply(function, &values)) {
                let expected = libm::pow((*x).into(), exponent) as f32;
                let is_same = y.to_bits() == expected.to_bits() || y.is_nan() && expected.is_nan();
                assert!(is_same, "{x} ^ {exponent}: {y}, not {expected}");
            }
        }
    }

    /// The f64 formulas are the reference: libm's functions are independent of ours.
    #[test]
    fn f32_agrees_with_f64() {
        let values: Vec<f32> = (-4000..4000).map(|i| i as f32 * 0.0037).collect();
        for (function, exact) in [
            (Unary::Exp {}, (|x| libm::exp(x)) as fn(f64) -> f64),
            (Unary::GeluErf {}, |x| 0.5 * x * libm::erfc(-x * FRAC_1_SQRT_2)),
            (Unary::Mish {}, |x| x * libm::tanh(libm::log1p(libm::exp(x)))),
            (Unary::SoftPlus {}, |x| libm::log1p(libm::exp(x))),
            (Unary::Silu {}, |x| x / (1.0 + libm::exp(-x))),
            (Unary::Swish { beta: 1.5 }, |x| x / (1.0 + libm::exp(-1.5 * x))),
            (Unary::Sigmoid {}, |x| 1.0 / (1.0 + libm::exp(-x))),
            (Unary::Elu { alpha: 0.3 }, |x| if x > 0.0 { x } else { 0.3 * libm::expm1(x) }),
            (Unary::HSwish { factor: SIXTH }, |x| x * (x + 3.0).clamp(0.0, 6.0) / 6.0),
        ] {
            for (x, y) in values.iter().zip(apply(function, &values)) {
                let e = exact(f64::from(*x));
                let allowed = 4e-7 * e.abs().max(1.0);
                assert!((f64::from(y) - e).abs() <= allowed, "{function:?}({x}) = {y}, not {e}");
            }
        }
    }

    /// Where exp(-x) is infinite in f32, and where HSwish is the identity.
    #[test]
    fn gates_close_and_open() {
        let closed = apply(Unary::Silu {}, &[-88.38, -89.0, -1e30]);
        assert!(closed.iter().all(|y| *y == 0.0), "{closed:?}");
        assert_eq!(apply(Unary::Sigmoid {}, &[f32::NEG_INFINITY, f32::INFINITY]), [0.0, 1.0]);
        assert!(apply(Unary::Sigmoid {}, &[f32::NAN])[0].is_nan());
        let open = [3.0, 3.1, 17.3, 1e30];
        assert_eq!(apply(Unary::HSwish { factor: SIXTH }, &open), open);
        assert_eq!(apply(Unary::HSigmoid {}, &[-3.0, 3.0, 7.1]), [0.0, 1.0, 1.0]);
    }

    /// Also for large negative numbers, of which some functions of libm give finite numbers.
    #[test]
    fn there_is_no_value_outside_of_the_domain() {
        let large = (0..120).map(|power| 1.7f32 * f32::exp2(power as f32));
        let below: Vec<f32> = large.flat_map(|x| [-x, -1.0 - x]).collect();
        for function in [
            Unary::Acosh {},
            Unary::Acos {},
            Unary::Asin {},
            Unary::Atanh {},
            Unary::Log {},
            Unary::Sqrt {},
            Unary::ErfInv {},
        ] {
            for (x, y) in below.iter().zip(apply(function, &below)) {
                assert!(y.is_nan(), "{function:?}({x}) = {y}");
            }
        }
        assert!(apply(Unary::Acosh {}, &[0.999, 0.0, f32::NAN]).iter().all(|y| y.is_nan()));
        assert_eq!(apply(Unary::Acosh {}, &[1.0, f32::INFINITY]), [0.0, f32::INFINITY]);
    }

    #[test]
    fn erf_inverse_inverts() {
        for i in -999..1000 {
            let y = f64::from(i) / 1000.0;
            let error = libm::erf(erf_inv(y)) - y;
            assert!(error.abs() < 1e-14, "erf(erf_inv({y})) is off by {error}");
        }
        assert_eq!(erf_inv(1.0), f64::INFINITY);
        assert_eq!(erf_inv(-1.0), f64::NEG_INFINITY);
        assert!(erf_inv(1.5).is_nan());
    }

    #[test]
    fn other_types() {
        let threads = Threads::new(1);
        let mut out = [0i8; 4];
        unary_int(&threads, IntUnary::Abs, &[-128, -3, 0, 5], &mut out);
        assert_eq!(out, [-128, 3, 0, 5]);
        let limits = (i8::MIN, i8::MAX);
        unary_via_f64(&threads, Unary::Sqrt {}, limits, &[0i8, 2, 8, 121], &mut out);
        assert_eq!(out, [0, 1, 3, 11]);
        unary_via_f64(&threads, Unary::Atanh {}, limits, &[-1i8, 0, 1, 2], &mut out);
        assert_eq!(out, [-128, 0, 127, 0]);
        unary_via_f64(&threads, Unary::Exp {}, limits, &[-9i8, 4, 5, 127], &mut out);
        assert_eq!(out, [0, 55, 127, 127]);
        let mut wide = [0u64; 2];
        unary_via_f64(&threads, Unary::Exp {}, (0, u64::MAX), &[44, 45], &mut wide);
        assert_eq!(wide, [44f64.exp().round() as u64, u64::MAX]);
        let halves: Vec<u8> =
            [-1.5f32, 2.0].iter().flat_map(|v| f16::from_f32(*v).to_le_bytes()).collect();
        let mut bytes = [0u8; 4];
        let to = (&mut bytes[..], 2, encode::<f32, f16> as Encoder<f32>);
        unary_via_f32(&threads, Unary::Negative {}, (&halves, 2, decode::<f16, f32>), to);
        assert_eq!(f16::from_le_bytes([bytes[0], bytes[1]]).to_f32(), 1.5);
    }
}
