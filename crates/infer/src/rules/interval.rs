//! Interval arithmetic, for shape sub-graphs.

use crate::lattice::value::{Elements, Interval, PartialValue, f64_to_int, int_to_f64, wrap_int};
use ir::ElementType;

/// A function of two numbers that can be bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// Sum.
    Add,
    /// Difference.
    Subtract,
    /// Product.
    Multiply,
    /// Quotient; of integers rounded down.
    Divide,
    /// Quotient; of integers rounded towards zero.
    DivideTruncated,
    /// Remainder with the sign of the dividend.
    Mod,
    /// Remainder with the sign of the divisor.
    FloorMod,
    /// The larger.
    Maximum,
    /// The smaller.
    Minimum,
    /// Power.
    Power,
}

use Arithmetic::*;

/// The values of a result, element by element; `None` if nothing is known.
pub fn binary(
    op: Arithmetic,
    a: &PartialValue,
    b: &PartialValue,
    sizes: &[usize],
    element_type: ElementType,
) -> Option<PartialValue> {
    let (ia, ib) = (positions(sizes, &a.sizes)?, positions(sizes, &b.sizes)?);
    match (&a.elements, &b.elements) {
        (Elements::Int(x), Elements::Int(y)) => {
            let pair =
                |(i, j): (usize, usize)| Some(ints(op, *x.get(i)?, *y.get(j)?, element_type));
            let values = ia.into_iter().zip(ib).map(pair).collect::<Option<Vec<_>>>()?;
            Some(PartialValue::ints(element_type, sizes, values))
        }
        (Elements::Real(x), Elements::Real(y)) => {
            let pair = |(i, j): (usize, usize)| Some(reals(op, *x.get(i)?, *y.get(j)?));
            let values = ia.into_iter().zip(ib).map(pair).collect::<Option<Vec<_>>>()?;
            let value = PartialValue::reals(element_type, sizes, values);
            crate::rules::conversion::converted(&value, element_type)
        }
        _ => None,
    }
}

/// Compares element by element: 0, 1, or either.
pub fn compare(
    test: impl Fn(Interval, Interval) -> Option<bool>,
    a: &PartialValue,
    b: &PartialValue,
    sizes: &[usize],
) -> Option<PartialValue> {
    let (ia, ib) = (positions(sizes, &a.sizes)?, positions(sizes, &b.sizes)?);
    let (x, y) = (a.intervals()?, b.intervals()?);
    let pair = |(i, j): (usize, usize)| {
        let known = test(*x.get(i)?, *y.get(j)?);
        Some(known.map_or(Interval::between(0, 1), |known| Interval::exact(i64::from(known))))
    };
    let values = ia.into_iter().zip(ib).map(pair).collect::<Option<Vec<_>>>()?;
    Some(PartialValue::ints(ElementType::Boolean, sizes, values))
}

/// For each element of a result the index of its operand's element, by NumPy broadcasting.
pub fn positions(sizes: &[usize], operand: &[usize]) -> Option<Vec<usize>> {
    let missing = sizes.len().checked_sub(operand.len())?;
    let count = sizes.iter().product();
    let position = |mut i: usize| {
        let (mut at, mut stride) = (0, 1);
        for (axis, size) in sizes.iter().enumerate().rev() {
            let index = i % size;
            i /= size;
            if let Some(own) = axis.checked_sub(missing).and_then(|k| operand.get(k)) {
                at += if *own == 1 { 0 } else { index * stride };
                stride *= own;
            }
        }
        at
    };
    Some((0..count).map(position).collect())
}

fn unbounded(v: i128) -> bool {
    v >= Interval::INF
}

/// The bounds of a function of two integers.
pub fn ints(op: Arithmetic, a: Interval, b: Interval, element_type: ElementType) -> Interval {
    // An unchanged value keeps its label.
    match op {
        Add | Subtract if b.value() == Some(0) => return a,
        Add if a.value() == Some(0) => return b,
        Multiply | Divide | DivideTruncated if b.value() == Some(1) => return a,
        Multiply if a.value() == Some(1) => return b,
        _ => {}
    }
    let any = Interval::any(element_type);
    let bounds = match (a.value(), b.value()) {
        (Some(x), Some(y)) if !unbounded(x) && !unbounded(y) => {
            exact(op, x, y).map(|v| wrap_int(v, element_type)).map(|v| (v, v))
        }
        _ => range(op, a, b),
    };
    let (lo, hi) = match bounds {
        Some((lo, hi)) if lo >= any.lo && lo <= any.hi && (hi <= any.hi || unbounded(hi)) => {
            (lo, hi.min(Interval::INF.max(any.hi)))
        }
        _ => (any.lo, any.hi),
    };
    let why = if lo == hi { Default::default() } else { a.why.or(b.why) };
    Interval { why, ..Interval::between(lo, hi) }
}

fn exact(op: Arithmetic, x: i128, y: i128) -> Option<i128> {
    Some(match op {
        Add => x + y,
        Subtract => x - y,
        Multiply => x.checked_mul(y)?,
        Divide => div_floor(x, y)?,
        DivideTruncated => x.checked_div(y)?,
        Mod => x.checked_rem(y)?,
        FloorMod => x - div_floor(x, y)?.checked_mul(y)?,
        Maximum => x.max(y),
        Minimum => x.min(y),
        Power => x.checked_pow(u32::try_from(y).ok()?)?,
    })
}

fn div_floor(x: i128, y: i128) -> Option<i128> {
    let q = x.checked_div(y)?;
    Some(if x % y != 0 && (x < 0) != (y < 0) { q - 1 } else { q })
}

fn range(op: Arithmetic, a: Interval, b: Interval) -> Option<(i128, i128)> {
    let sum = |x: i128, y: i128| if unbounded(x) || unbounded(y) { Interval::INF } else { x + y };
    let product = |x: i128, y: i128| match (x, y) {
        (0, _) | (_, 0) => 0,
        _ if unbounded(x) || unbounded(y) => Interval::INF,
        _ => x.saturating_mul(y),
    };
    let positive = a.lo >= 0 && b.lo >= 0;
    Some(match op {
        Add => (a.lo.saturating_add(b.lo), sum(a.hi, b.hi)),
        Subtract if unbounded(b.hi) => return None,
        Subtract => (a.lo - b.hi, if unbounded(a.hi) { a.hi } else { a.hi - b.lo }),
        Multiply if positive => (product(a.lo, b.lo), product(a.hi, b.hi)),
        Multiply if !unbounded(a.hi) && !unbounded(b.hi) => {
            let corners = [a.lo * b.lo, a.lo * b.hi, a.hi * b.lo, a.hi * b.hi];
            (*corners.iter().min()?, *corners.iter().max()?)
        }
        Divide | DivideTruncated if positive && b.hi > 0 => {
            let lo = if unbounded(b.hi) { 0 } else { a.lo / b.hi };
            let endless = unbounded(a.hi) || b.lo == 0;
            (lo, if endless { Interval::INF } else { a.hi / b.lo })
        }
        Divide if b.lo == b.hi && b.lo > 0 && !unbounded(a.hi) => {
            (div_floor(a.lo, b.lo)?, div_floor(a.hi, b.lo)?)
        }
        // Monotonic in the base and in the exponent.
        Power if positive => {
            let corners = [(a.lo, b.lo), (a.lo, b.hi), (a.hi, b.lo), (a.hi, b.hi)];
            let corners = corners.map(|(x, y)| power(x, y));
            (*corners.iter().min()?, *corners.iter().max()?)
        }
        // A value below the divisor is its own remainder.
        Mod | FloorMod if positive && a.hi < b.lo => (a.lo, a.hi),
        Mod | FloorMod if positive && b.hi > 0 => (0, a.hi.min(b.hi - 1)),
        FloorMod if b.lo > 0 => (0, b.hi - 1),
        Maximum => (a.lo.max(b.lo), a.hi.max(b.hi)),
        Minimum => (a.lo.min(b.lo), a.hi.min(b.hi)),
        _ => return None,
    })
}

/// A power of numbers that are not negative.
fn power(x: i128, y: i128) -> i128 {
    match (x, y) {
        (_, 0) => 1,
        (0 | 1, _) => x,
        _ if unbounded(x) || unbounded(y) => Interval::INF,
        _ => exact(Power, x, y).unwrap_or(Interval::INF),
    }
}

/// The bounds of a function of two floating-point values.
fn reals(op: Arithmetic, a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
    let nothing = (f64::NEG_INFINITY, f64::INFINITY);
    let corners = |f: fn(f64, f64) -> f64| {
        let all = [f(a.0, b.0), f(a.0, b.1), f(a.1, b.0), f(a.1, b.1)];
        if all.iter().any(|v| v.is_nan()) {
            return nothing;
        }
        let pick = |f: fn(f64, f64) -> f64, start| all.iter().copied().fold(start, f);
        (pick(f64::min, f64::INFINITY), pick(f64::max, f64::NEG_INFINITY))
    };
    let is_exact = a.0 == a.1 && b.0 == b.1;
    match op {
        Add => corners(|x, y| x + y),
        Subtract => corners(|x, y| x - y),
        Multiply => corners(|x, y| x * y),
        Divide | DivideTruncated if b.0 > 0.0 || b.1 < 0.0 => corners(|x, y| x / y),
        // The quotient by 0 is infinite.
        Divide | DivideTruncated if a.0 > 0.0 && b.0 == 0.0 && b.1 > 0.0 => {
            (a.0 / b.1, f64::INFINITY)
        }
        Maximum => (a.0.max(b.0), a.1.max(b.1)),
        Minimum => (a.0.min(b.0), a.1.min(b.1)),
        Mod if is_exact => corners(|x, y| x % y),
        FloorMod if is_exact => corners(|x, y| x - (x / y).floor() * y),
        // Monotonic in the base and in the exponent.
        Power if is_exact || a.0 > 0.0 || (a.0 == 0.0 && b.0 >= 0.0) => corners(f64::powf),
        _ => nothing,
    }
}

/// Applies a non-decreasing function to both bounds of every element.
pub fn monotone(value: &PartialValue, f: impl Fn(f64) -> f64) -> PartialValue {
    let elements = match &value.elements {
        Elements::Real(v) => Elements::Real(v.iter().map(|(lo, hi)| (f(*lo), f(*hi))).collect()),
        Elements::Int(v) => {
            let apply = |b: i128| if unbounded(b) { b } else { f64_to_int(f(int_to_f64(b))) };
            let pair = |v: &Interval| Interval { lo: apply(v.lo), hi: apply(v.hi), ..*v };
            Elements::Int(v.iter().map(pair).collect())
        }
    };
    PartialValue { elements, ..value.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OPS: [Arithmetic; 10] =
        [Add, Subtract, Multiply, Divide, DivideTruncated, Mod, FloorMod, Maximum, Minimum, Power];

    fn with_value() -> impl Strategy<Value = (Interval, i128)> {
        (-9i128..9, 0i128..6)
            .prop_flat_map(|(lo, extra)| (Just(Interval::between(lo, lo + extra)), lo..=lo + extra))
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// The result of every pair of values lies within the bounds of the result.
        #[test]
        fn bounds_are_sound((a, x) in with_value(), (b, y) in with_value(), op in 0usize..10) {
            if let Some(v) = exact(OPS[op], x, y) {
                let r = ints(OPS[op], a, b, ElementType::I64);
                prop_assert!(r.lo <= v && v <= r.hi, "{:?} {a:?} {b:?}: {v} not in {r:?}", OPS[op]);
                let wide = |i: Interval| (int_to_f64(i.lo), int_to_f64(i.hi));
                let (lo, hi) = reals(OPS[op], wide(a), wide(b));
                if !matches!(OPS[op], Divide | DivideTruncated) {
                    prop_assert!(lo <= int_to_f64(v) && int_to_f64(v) <= hi);
                }
            }
        }
    }

    #[test]
    fn reals_have_bounds() {
        let open = f64::INFINITY;
        assert_eq!(reals(Divide, (12.0, 12.0), (0.0, 6.0)), (2.0, open));
        assert_eq!(reals(Divide, (0.0, 12.0), (0.0, 6.0)), (-open, open));
        assert_eq!(reals(Power, (2.0, 3.0), (2.0, 2.0)), (4.0, 9.0));
        assert_eq!(reals(Power, (0.0, 4.0), (2.0, 2.0)), (0.0, 16.0));
        assert_eq!(reals(Power, (2.0, 2.0), (0.0, open)), (1.0, open));
        assert_eq!(reals(Power, (0.0, 2.0), (-1.0, 1.0)), (-open, open));
    }

    #[test]
    fn without_bound() {
        let dim = Interval::between(2, Interval::INF);
        let run = |op, a, b| ints(op, a, b, ElementType::I64);
        assert_eq!(run(Multiply, dim, Interval::exact(3)).hi, Interval::INF);
        assert_eq!(run(Multiply, dim, Interval::exact(3)).lo, 6);
        assert_eq!(run(Divide, Interval::exact(16), Interval::between(0, 8)).lo, 2);
        assert_eq!(run(Divide, Interval::exact(16), Interval::between(0, 8)).hi, Interval::INF);
        assert_eq!(run(Subtract, Interval::exact(1), dim), Interval::any(ElementType::I64));
        let powers = |base, exponent| {
            let power = run(Power, base, exponent);
            (power.lo, power.hi)
        };
        assert_eq!(powers(Interval::between(2, 3), Interval::exact(2)), (4, 9));
        assert_eq!(powers(Interval::exact(2), Interval::between(0, 4)), (1, 16));
        assert_eq!(powers(Interval::between(0, 4), Interval::between(0, 1)), (0, 4));
        assert_eq!(powers(dim, Interval::exact(2)), (4, Interval::INF));
        assert_eq!(powers(Interval::exact(1), Interval::between(0, Interval::INF)), (1, 1));
        let big = Interval::exact(i64::MAX - 1);
        assert_eq!(run(Add, big, Interval::exact(4)).value(), Some(i128::from(i64::MIN) + 2));
    }
}
