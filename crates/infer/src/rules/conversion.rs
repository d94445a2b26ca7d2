//! Conversion of small values to another element type.

use crate::lattice::value::{Elements, Interval, PartialValue, f64_to_int, int_to_f64, wrap_int};
use ir::ElementType;

/// A value converted to another type: exact values exactly, bounds as bounds.
pub(crate) fn converted(value: &PartialValue, to: ElementType) -> Option<PartialValue> {
    let sizes = &value.sizes;
    let to_int = to.integer_range().is_some();
    Some(match (&value.elements, to_int) {
        (Elements::Int(v), true) => {
            let convert = |v: &Interval| match to {
                ElementType::Boolean if v.lo > 0 || v.hi < 0 => Interval::exact(1),
                ElementType::Boolean if v.value() == Some(0) => Interval::exact(0),
                ElementType::Boolean => Interval::any(to),
                _ => in_range(*v, to),
            };
            PartialValue::ints(to, sizes, v.iter().map(convert).collect())
        }
        (Elements::Int(v), false) if to.is_real() => {
            let bound = |b: i128| match b {
                Interval::INF => f64::INFINITY,
                b => rounded(int_to_f64(b), to),
            };
            let reals = v.iter().map(|v| (bound(v.lo), bound(v.hi))).collect();
            PartialValue::reals(to, sizes, reals)
        }
        (Elements::Real(v), true) => {
            let bound = |b: f64| if b == f64::INFINITY { Interval::INF } else { f64_to_int(b) };
            let convert = |(lo, hi): &(f64, f64)| {
                match to {
                    _ if lo.is_nan() || hi.is_nan() => Interval::any(to),
                    // Not truncated first: 0.5 is true.
                    ElementType::Boolean if *lo > 0.0 || *hi < 0.0 => Interval::exact(1),
                    ElementType::Boolean if *lo == 0.0 && *hi == 0.0 => Interval::exact(0),
                    ElementType::Boolean => Interval::any(to),
                    _ => in_range(Interval::between(bound(*lo), bound(*hi)), to),
                }
            };
            PartialValue::ints(to, sizes, v.iter().map(convert).collect())
        }
        (Elements::Real(v), false) if to.is_real() => {
            let reals = v.iter().map(|(lo, hi)| (rounded(*lo, to), rounded(*hi, to))).collect();
            PartialValue::reals(to, sizes, reals)
        }
        _ => return None,
    })
}

/// An exact value wraps. Bounds outside the range of the type become unknown.
fn in_range(v: Interval, to: ElementType) -> Interval {
    let any = Interval::any(to);
    if v.lo >= any.lo && v.hi <= any.hi {
        return v;
    }
    match v.value() {
        Some(value) => Interval::exact(wrap_int(value, to)),
        // "Unbounded" survives the narrowing to i32 that exporters add to shape arithmetic.
        None if v.lo >= 0 && v.hi >= any.hi => {
            Interval { lo: v.lo.min(any.hi), hi: Interval::INF, ..v }
        }
        None => Interval { why: v.why, ..any },
    }
}

fn rounded(value: f64, to: ElementType) -> f64 {
    match to {
        ElementType::F16 => half::f16::from_f64(value).to_f64(),
        ElementType::BF16 => half::bf16::from_f64(value).to_f64(),
        ElementType::F32 => f64::from(narrow(value)),
        _ => value,
    }
}

#[allow(clippy::as_conversions)] // `as` from f64 to f32 rounds to nearest and cannot fail.
fn narrow(value: f64) -> f32 {
    value as f32
}
