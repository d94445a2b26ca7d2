//! Dims: an interval of sizes, an equality label, and a reason if unknown.

use std::fmt;

/// A dimension of a tensor: every size in `min..=max`. Static means `min == max`.
///
/// Equality compares the bounds only; [`Dim::symbol`] and [`Dim::why`] are annotations.
#[derive(Clone, Copy, Default)]
pub struct Dim {
    min: i64,
    max: i64,
    symbol: Symbol,
    why: Why,
}

/// An equality label: dims with the same symbol are equal in every run. See [`crate::Symbols`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Symbol(pub(crate) u32);

impl Symbol {
    /// No label.
    pub const NONE: Symbol = Symbol(0);

    /// Whether there is a label.
    pub fn is_some(self) -> bool {
        self != Symbol::NONE
    }
}

/// Why something is unknown: an index into [`crate::Facts::reason`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Why(pub(crate) u32);

impl Why {
    /// No reason yet; the driver supplies one.
    pub const NONE: Why = Why(0);

    /// The first reason that exists.
    pub fn or(self, other: Why) -> Why {
        if self == Why::NONE { other } else { self }
    }
}

impl Dim {
    /// The upper bound of a dimension without one.
    pub const INF: i64 = i64::MAX;

    /// A known size; negative sizes become 0.
    pub fn fixed(size: i64) -> Dim {
        Dim::range(size, size)
    }

    /// A known size.
    pub fn of(size: usize) -> Dim {
        Dim::fixed(i64::try_from(size).unwrap_or(Dim::INF))
    }

    /// Any size from `min` to `max`, both included.
    pub fn range(min: i64, max: i64) -> Dim {
        let min = min.max(0);
        Dim { min, max: max.max(min), ..Dim::default() }
    }

    /// Any size.
    pub fn any() -> Dim {
        Dim::range(0, Dim::INF)
    }

    /// The smallest possible size.
    pub fn min(self) -> i64 {
        self.min
    }

    /// The largest possible size, [`Dim::INF`] if there is none.
    pub fn max(self) -> i64 {
        self.max
    }

    /// Whether there is an upper bound.
    pub fn is_bounded(self) -> bool {
        self.max != Dim::INF
    }

    /// The size, if it is known.
    pub fn value(self) -> Option<i64> {
        (self.min == self.max).then_some(self.min)
    }

    /// The size as an index type, if it is known.
    pub fn size(self) -> Option<usize> {
        self.value().and_then(|v| usize::try_from(v).ok())
    }

    /// Whether the size is known.
    pub fn is_static(self) -> bool {
        self.min == self.max
    }

    /// Whether `size` is possible.
    pub fn contains(self, size: i64) -> bool {
        (self.min..=self.max).contains(&size)
    }

    /// Whether every size of `other` is a size of this.
    pub fn covers(self, other: Dim) -> bool {
        self.min <= other.min && other.max <= self.max
    }

    /// The equality label.
    pub fn symbol(self) -> Symbol {
        self.symbol
    }

    /// The same dim with a label.
    pub fn with_symbol(self, symbol: Symbol) -> Dim {
        Dim { symbol, ..self }
    }

    /// The same dim without a label.
    pub fn unlabelled(self) -> Dim {
        self.with_symbol(Symbol::NONE)
    }

    /// Why the size is not known.
    pub fn why(self) -> Why {
        self.why
    }

    /// The same dim with a reason, unless it has one already.
    pub fn with_why(self, why: Why) -> Dim {
        Dim { why: self.why.or(why), ..self }
    }

    /// An interval computed from `self`, for the same reason and without its label.
    fn derived(self, min: i64, max: i64) -> Dim {
        let keep = if min == max { Why::NONE } else { self.why };
        Dim { why: keep, ..Dim::range(min, max) }
    }

    /// Sum. Adding 0 keeps the label.
    pub fn plus(self, other: Dim) -> Dim {
        if other.value() == Some(0) {
            return self;
        }
        if self.value() == Some(0) {
            return other;
        }
        let max = if self.is_bounded() && other.is_bounded() {
            self.max.saturating_add(other.max)
        } else {
            Dim::INF
        };
        self.derived(self.min.saturating_add(other.min), max).with_why(other.why)
    }

    /// Sum with a number of either sign; results below 0 become 0.
    pub fn offset(self, n: i64) -> Dim {
        if n == 0 {
            return self;
        }
        let max = if self.is_bounded() { self.max.saturating_add(n) } else { Dim::INF };
        self.derived(self.min.saturating_add(n), max)
    }

    /// Difference; results below 0 become 0. Subtracting 0 keeps the label.
    pub fn minus(self, other: Dim) -> Dim {
        if other.value() == Some(0) {
            return self;
        }
        let max = if self.is_bounded() { self.max.saturating_sub(other.min) } else { Dim::INF };
        self.derived(self.min.saturating_sub(other.max), max).with_why(other.why)
    }

    /// Product. Multiplying by 1 keeps the label.
    pub fn times(self, other: Dim) -> Dim {
        if other.value() == Some(1) {
            return self;
        }
        if self.value() == Some(1) {
            return other;
        }
        let max = match (self.max, other.max) {
            (0, _) | (_, 0) => 0,
            (Dim::INF, _) | (_, Dim::INF) => Dim::INF,
            (a, b) => a.saturating_mul(b),
        };
        self.derived(self.min.saturating_mul(other.min), max).with_why(other.why)
    }

    /// Product with a number.
    pub fn scaled(self, n: i64) -> Dim {
        self.times(Dim::fixed(n))
    }

    /// Quotient rounded down, for `n` at least 1. Dividing by 1 keeps the label.
    pub fn div_floor(self, n: i64) -> Dim {
        let n = n.max(1);
        if n == 1 {
            return self;
        }
        let max = if self.is_bounded() { self.max / n } else { Dim::INF };
        self.derived(self.min / n, max)
    }

    /// Quotient rounded up, for `n` at least 1. Dividing by 1 keeps the label.
    pub fn div_ceil(self, n: i64) -> Dim {
        let n = n.max(1);
        if n == 1 {
            return self;
        }
        let up = |v: i64| v / n + i64::from(v % n != 0);
        let max = if self.is_bounded() { up(self.max) } else { Dim::INF };
        self.derived(up(self.min), max)
    }

    /// Exact quotient, for `n` at least 1; `None` if no size is a multiple of `n`.
    pub fn div_exact(self, n: i64) -> Option<Dim> {
        self.div_ceil(n).meet(self.div_floor(n))
    }

    /// As [`Dim::div_exact`], by any size of `n`.
    pub fn div_exact_by(self, n: Dim) -> Option<Dim> {
        if let Some(n) = n.value() {
            return self.div_exact(n);
        }
        let (min, max) = (self.div_ceil(n.max).min, self.div_floor(n.min).max);
        (min <= max).then(|| self.derived(min, max).with_why(n.why))
    }

    /// The sizes that both allow; `None` if there are none. Prefers the label of `self`.
    pub fn meet(self, other: Dim) -> Option<Dim> {
        let (min, max) = (self.min.max(other.min), self.max.min(other.max));
        let symbol = if self.symbol.is_some() { self.symbol } else { other.symbol };
        let why = if min == max { Why::NONE } else { self.why.or(other.why) };
        (min <= max).then_some(Dim { min, max, symbol, why })
    }

    /// The sizes that either allows. Keeps the label if both have the same.
    pub fn join(self, other: Dim) -> Dim {
        let symbol = if self.symbol == other.symbol { self.symbol } else { Symbol::NONE };
        let joined = Dim::range(self.min.min(other.min), self.max.max(other.max));
        Dim { symbol, why: self.why.or(other.why), ..joined }
    }
}

impl PartialEq for Dim {
    fn eq(&self, other: &Dim) -> bool {
        (self.min, self.max) == (other.min, other.max)
    }
}

impl Eq for Dim {}

/// `7`, `?`, `3..8`, `2..` or `..8`, as OpenVINO writes partial shapes.
impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.min, self.max) {
            (min, max) if min == max => write!(f, "{min}"),
            (0, Dim::INF) => f.write_str("?"),
            (0, max) => write!(f, "..{max}"),
            (min, Dim::INF) => write!(f, "{min}.."),
            (min, max) => write!(f, "{min}..{max}"),
        }
    }
}

impl fmt::Debug for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn dim() -> impl Strategy<Value = Dim> {
        (0i64..20, proptest::option::of(0i64..20)).prop_map(|(min, extra)| match extra {
            Some(extra) => Dim::range(min, min + extra),
            None => Dim::range(min, Dim::INF),
        })
    }

    /// A dim and one of its sizes.
    fn with_size() -> impl Strategy<Value = (Dim, i64)> {
        dim().prop_flat_map(|d| (Just(d), d.min()..=d.max().min(40)))
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Intervals give all results that their sizes give.
        #[test]
        fn arithmetic_is_sound((a, x) in with_size(), (b, y) in with_size(), n in 1i64..9) {
            prop_assert!(a.plus(b).contains(x + y));
            prop_assert!(a.times(b).contains(x * y));
            prop_assert!(a.offset(n - 5).contains((x + n - 5).max(0)));
            prop_assert!(a.div_floor(n).contains(x / n));
            prop_assert!(a.div_ceil(n).contains((x + n - 1) / n));
            prop_assert!(a.scaled(n).div_exact(n).unwrap().contains(x));
            prop_assert!(x % n == 0 || Dim::fixed(x).div_exact(n).is_none());
            prop_assert!(a.minus(b).contains((x - y).max(0)));
            prop_assert!(y == 0 || a.times(b).div_exact_by(b).unwrap().contains(x));
            prop_assert!(a.join(b).contains(x) && a.join(b).contains(y));
            if b.contains(x) {
                prop_assert!(a.meet(b).unwrap().contains(x));
            }
        }
    }

    #[test]
    fn large_sizes_saturate() {
        let big = Dim::fixed(1 << 40);
        assert_eq!(big.times(big).min(), Dim::INF);
        assert_eq!(Dim::any().times(Dim::fixed(0)), Dim::fixed(0));
        assert_eq!(Dim::fixed(Dim::INF - 1).offset(5).min(), Dim::INF);
    }
}
