//! The folds behind reductions, for every type.

use crate::base::num::Stored;
use crate::math::arithmetic::Arithmetic;

/// Arithmetic for means and norms.
pub trait Scale: Arithmetic {
    /// The number 0.
    const ZERO: Self;
    /// The number 1.
    const ONE: Self;
    /// No value is below it.
    const LOWEST: Self;
    /// No value is above it.
    const HIGHEST: Self;
    /// The lowest finite value. OpenVINO gives it for the maximum of no elements, while their
    /// minimum is infinite.
    const LOWEST_FINITE: Self;
    /// Absolute value.
    fn magnitude(self) -> Self;
    /// Divided by a count.
    fn over(self, count: usize) -> Self;
    /// Square root; that of integers is truncated.
    fn root(self) -> Self;
}

impl Scale for f32 {
    const ZERO: f32 = 0.0;
    const ONE: f32 = 1.0;
    const LOWEST: f32 = f32::NEG_INFINITY;
    const HIGHEST: f32 = f32::INFINITY;
    const LOWEST_FINITE: f32 = f32::MIN;

    #[inline(always)]
    fn magnitude(self) -> f32 {
        self.abs()
    }

    #[inline(always)]
    fn over(self, count: usize) -> f32 {
        self / count as f32
    }

    #[inline(always)]
    fn root(self) -> f32 {
        self.sqrt()
    }
}

impl Scale for f64 {
    const ZERO: f64 = 0.0;
    const ONE: f64 = 1.0;
    const LOWEST: f64 = f64::NEG_INFINITY;
    const HIGHEST: f64 = f64::INFINITY;
    const LOWEST_FINITE: f64 = f64::MIN;

    #[inline(always)]
    fn magnitude(self) -> f64 {
        self.abs()
    }

    #[inline(always)]
    fn over(self, count: usize) -> f64 {
        self / count as f64
    }

    #[inline(always)]
    fn root(self) -> f64 {
        self.sqrt()
    }
}

impl Scale for i64 {
    const ZERO: i64 = 0;
    const ONE: i64 = 1;
    const LOWEST: i64 = i64::MIN;
    const HIGHEST: i64 = i64::MAX;
    const LOWEST_FINITE: i64 = i64::MIN;

    #[inline(always)]
    fn magnitude(self) -> i64 {
        self.wrapping_abs()
    }

    #[inline(always)]
    fn over(self, count: usize) -> i64 {
        self.checked_div(count as i64).unwrap_or(0)
    }

    #[inline(always)]
    fn root(self) -> i64 {
        (self as f64).sqrt() as i64
    }
}

impl Scale for u64 {
    const ZERO: u64 = 0;
    const ONE: u64 = 1;
    const LOWEST: u64 = u64::MIN;
    const HIGHEST: u64 = u64::MAX;
    const LOWEST_FINITE: u64 = u64::MIN;

    #[inline(always)]
    fn magnitude(self) -> u64 {
        self
    }

    #[inline(always)]
    fn over(self, count: usize) -> u64 {
        self.checked_div(count as u64).unwrap_or(0)
    }

    #[inline(always)]
    fn root(self) -> u64 {
        (self as f64).sqrt() as u64
    }
}

/// A reduction as a fold: a start, a step, how two partial results combine, and the end.
pub(super) trait Fold: Copy + Send + Sync {
    /// Whether parts may be joined in any order that keeps the elements' own: the bits stay.
    const IS_ASSOCIATIVE: bool = false;
    fn start<W: Scale>(self) -> W;
    fn step<W: Scale>(self, sum: W, x: W) -> W;
    /// Joins the results of two parts.
    #[inline(always)]
    fn meet<W: Scale>(self, a: W, b: W) -> W {
        self.step(a, b)
    }
    #[inline(always)]
    fn finish<W: Scale>(self, sum: W) -> W {
        sum
    }
    /// The result without elements.
    fn empty<W: Scale>(self) -> W {
        self.start()
    }
}

/// A sum, divided by a count at the end.
#[derive(Clone, Copy)]
pub(super) struct Sum(pub(super) usize);
#[derive(Clone, Copy)]
pub(super) struct Prod;
#[derive(Clone, Copy)]
pub(super) struct Max;
#[derive(Clone, Copy)]
pub(super) struct Min;
#[derive(Clone, Copy)]
pub(super) struct L1;
#[derive(Clone, Copy)]
pub(super) struct L2;
#[derive(Clone, Copy)]
pub(super) struct And;
#[derive(Clone, Copy)]
pub(super) struct Or;

impl Fold for Sum {
    #[inline(always)]
    fn start<W: Scale>(self) -> W {
        W::ZERO
    }

    #[inline(always)]
    fn step<W: Scale>(self, sum: W, x: W) -> W {
        sum.add(x)
    }

    #[inline(always)]
    fn finish<W: Scale>(self, sum: W) -> W {
        if self.0 == 1 { sum } else { sum.over(self.0) }
    }
}

impl Fold for Prod {
    #[inline(always)]
    fn start<W: Scale>(self) -> W {
        W::ONE
    }

    #[inline(always)]
    fn step<W: Scale>(self, sum: W, x: W) -> W {
        sum.mul(x)
    }
}

impl Fold for Max {
    const IS_ASSOCIATIVE: bool = true;

    #[inline(always)]
    fn start<W: Scale>(self) -> W {
        W::LOWEST
    }

    #[inline(always)]
    fn step<W: Scale>(self, sum: W, x: W) -> W {
        if sum < x { x } else { sum }
    }

    fn empty<W: Scale>(self) -> W {
        W::LOWEST_FINITE
    }
}

impl Fold for Min {
    const IS_ASSOCIATIVE: bool = true;

    #[inline(always)]
    fn start<W: Scale>(self) -> W {
        W::HIGHEST
    }

    #[inline(always)]
    fn step<W: Scale>(self, sum: W, x: W) -> W {
        if x < sum { x } else { sum }
    }
}

impl Fold for L1 {
    #[inline(always)]
    fn start<W: Scale>(self) -> W {
        W::ZERO
    }

    #[inline(always)]
    fn step<W: Scale>(self, sum: W, x: W) -> W {
        sum.add(x.magnitude())
    }

    #[inline(always)]
    fn meet<W: Scale>(self, a: W, b: W) -> W {
        a.add(b)
    }
}

impl Fold for L2 {
    #[inline(always)]
    fn start<W: Scale>(self) -> W {
        W::ZERO
    }

    #[inline(always)]
    fn step<W: Scale>(self, sum: W, x: W) -> W {
        sum.add(x.mul(x))
    }

    #[inline(always)]
    fn meet<W: Scale>(self, a: W, b: W) -> W {
        a.add(b)
    }

    #[inline(always)]
    fn finish<W: Scale>(self, sum: W) -> W {
        sum.root()
    }
}

impl Fold for And {
    const IS_ASSOCIATIVE: bool = true;

    #[inline(always)]
    fn start<W: Scale>(self) -> W {
        W::ONE
    }

    #[inline(always)]
    fn step<W: Scale>(self, sum: W, x: W) -> W {
        if x.truth() { sum } else { W::ZERO }
    }
}

impl Fold for Or {
    const IS_ASSOCIATIVE: bool = true;

    #[inline(always)]
    fn start<W: Scale>(self) -> W {
        W::ZERO
    }

    #[inline(always)]
    fn step<W: Scale>(self, sum: W, x: W) -> W {
        if x.truth() { W::ONE } else { sum }
    }
}

/// Stored types whose wide type has a [`Scale`].
pub(super) trait StoredScale: Stored<Wide: Scale> {}

impl<T: Stored> StoredScale for T where T::Wide: Scale {}
