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
    /// Square root; integers round down.
    fn root(self) -> Self;
}

macro_rules! scale {
    ($t:ty, $low:expr, $high:expr, |$m:ident| $magnitude:expr, |$o:ident, $n:ident| $over:expr, |$r:ident| $root:expr) => {
        impl Scale for $t {
            const ZERO: $t = 0 as $t;
            const ONE: $t = 1 as $t;
            const LOWEST: $t = $low;
            const HIGHEST: $t = $high;
            const LOWEST_FINITE: $t = <$t>::MIN;

            #[inline(always)]
            fn magnitude(self) -> $t {
                let $m = self;
                $magnitude
            }

            #[inline(always)]
            fn over(self, $n: usize) -> $t {
                let $o = self;
                $over
            }

            #[inline(always)]
            fn root(self) -> $t {
                let $r = self;
                $root
            }
        }
    };
}

scale!(f32, f32::NEG_INFINITY, f32::INFINITY, |x| x.abs(), |x, n| x / n as f32, |x| x.sqrt());
scale!(f64, f64::NEG_INFINITY, f64::INFINITY, |x| x.abs(), |x, n| x / n as f64, |x| x.sqrt());
scale!(
    i64,
    i64::MIN,
    i64::MAX,
    |x| x.wrapping_abs(),
    |x, n| x.checked_div(n as i64).unwrap_or(0),
    |x| (x as f64).sqrt() as i64
);
scale!(u64, u64::MIN, u64::MAX, |x| x, |x, n| x.checked_div(n as u64).unwrap_or(0), |x| (x as f64)
    .sqrt()
    .round()
    as u64);

/// A reduction as a fold: a start, a step, how two partial results combine, and the end.
pub(super) trait Fold: Copy + Send + Sync {
    fn start<W: Scale>(self) -> W;
    fn step<W: Scale>(self, sum: W, x: W) -> W;
    fn meet<W: Scale>(self, a: W, b: W) -> W;
    fn finish<W: Scale>(self, sum: W) -> W;
    /// The result without elements.
    fn empty<W: Scale>(self) -> W {
        self.start()
    }
}

macro_rules! fold {
    ($name:ident, $start:expr, |$sum:ident, $x:ident| $step:expr, |$a:ident, $b:ident| $meet:expr,
     |$this:ident, $end:ident| $finish:expr $(, empty $empty:expr)?) => {
        impl Fold for $name {
            #[inline(always)]
            fn start<W: Scale>(self) -> W {
                $start
            }

            #[inline(always)]
            fn step<W: Scale>(self, $sum: W, $x: W) -> W {
                $step
            }

            #[inline(always)]
            fn meet<W: Scale>(self, $a: W, $b: W) -> W {
                $meet
            }

            #[inline(always)]
            fn finish<W: Scale>(self, $end: W) -> W {
                let $this = self;
                $finish
            }

            $(fn empty<W: Scale>(self) -> W {
                $empty
            })?
        }
    };
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

fold!(Sum, W::ZERO, |s, x| s.add(x), |a, b| a.add(b), |f, s| if f.0 == 1 {
    s
} else {
    s.over(f.0)
});
fold!(Prod, W::ONE, |s, x| s.mul(x), |a, b| a.mul(b), |_f, s| s);
fold!(Max, W::LOWEST, |s, x| if s < x { x } else { s }, |a, b| if a < b { b } else { a }, |_f, s| s, empty W::LOWEST_FINITE);
fold!(
    Min,
    W::HIGHEST,
    |s, x| if x < s { x } else { s },
    |a, b| if b < a { b } else { a },
    |_f, s| s
);
fold!(L1, W::ZERO, |s, x| s.add(x.magnitude()), |a, b| a.add(b), |_f, s| s);
fold!(L2, W::ZERO, |s, x| s.add(x.mul(x)), |a, b| a.add(b), |_f, s| s.root());
fold!(
    And,
    W::ONE,
    |s, x| if x.truth() { s } else { W::ZERO },
    |a, b| if a.truth() { b } else { a },
    |_f, s| s
);
fold!(
    Or,
    W::ZERO,
    |s, x| if x.truth() { W::ONE } else { s },
    |a, b| if a.truth() { a } else { b },
    |_f, s| s
);

/// Stored types whose wide type has a [`Scale`].
pub(super) trait StoredScale: Stored<Wide: Scale> {}

impl<T: Stored> StoredScale for T where T::Wide: Scale {}
