//! Slices along one axis: begin, end and step as in Slice-8 and StridedSlice-1.

use crate::lattice::dim::Dim;
use crate::lattice::value::{Interval, wrap_i64};
use smallvec::{SmallVec, smallvec};

/// One axis of a slice. Negative bounds count from the end, bounds beyond the axis are clamped, and
/// `None` means up to the end of the axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first index.
    pub start: Option<i64>,
    /// The index before which it stops.
    pub stop: Option<i64>,
    /// The step, not 0.
    pub step: i64,
    /// Whether a start before the axis is clamped to its first index even if the step is negative,
    /// as in StridedSlice-1. Otherwise the slice is then empty, as in Python and Slice-8.
    pub starts_inside: bool,
}

impl Range {
    /// The first index and the number of indices, for an axis of `size`.
    pub fn resolve(self, size: i64) -> (i64, i64) {
        let wrap = |v: i64| if v < 0 { v.saturating_add(size) } else { v };
        if self.step > 0 {
            let start = self.start.map_or(0, |v| wrap(v).clamp(0, size));
            let stop = self.stop.map_or(size, |v| wrap(v).clamp(0, size));
            (start, count(stop.saturating_sub(start), self.step))
        } else {
            let lowest = if self.starts_inside { 0.min(size - 1) } else { -1 };
            let start = self.start.map_or(size - 1, |v| wrap(v).clamp(lowest, size - 1));
            let stop = self.stop.map_or(-1, |v| wrap(v).clamp(-1, size - 1));
            (start, count(start.saturating_sub(stop), self.step.saturating_neg()))
        }
    }

    /// The indices of the slice, for an axis of `size`.
    pub fn positions(self, size: usize) -> Option<Vec<usize>> {
        let (first, count) = self.resolve(i64::try_from(size).ok()?);
        let position = |i: i64| usize::try_from(first + i * self.step).ok();
        (0..count).map(position).collect()
    }

    /// The size of the slice, for a dim.
    pub fn apply(self, dim: Dim) -> Dim {
        self.opened(dim).apply_opened(dim)
    }

    /// The same slice without bounds beyond the axis. Converters write "to the end" as the largest
    /// 32-bit or 64-bit integer and "from the first" as the smallest, so an unbounded axis is
    /// assumed to be no longer.
    fn opened(self, dim: Dim) -> Range {
        let far = dim.max().min(i64::from(i32::MAX));
        let (before, beyond) = (|v: &i64| *v <= -far, |v: &i64| *v >= far);
        if self.step > 0 {
            let start = self.start.filter(|v| !before(v));
            Range { start, stop: self.stop.filter(|v| !beyond(v)), ..self }
        } else {
            Range { start: self.start.filter(|v| !beyond(v)), ..self }
        }
    }

    fn apply_opened(self, dim: Dim) -> Dim {
        let (first, all) = self.resolve(dim.max());
        let whole = self.step == 1 && first == 0 && all == dim.max();
        let opposite = |v: i64| v < 0;
        // If start and stop count from different ends, the size may grow and shrink with the axis.
        let crossed = match (self.start, self.stop) {
            (Some(start), Some(stop)) => opposite(start) != opposite(stop),
            _ => false,
        };
        if whole && self.resolve(dim.min()) == (0, dim.min()) {
            return dim;
        }
        let (_, low) = self.resolve(dim.min());
        let (_, high) =
            if dim.is_bounded() || self.is_bounded() { (0, all) } else { (0, Dim::INF) };
        let sliced = if crossed && !dim.is_static() {
            self.crossed(dim)
        } else {
            Dim::range(low.min(high), high.max(low))
        };
        let sliced =
            if self.may_be_moved_inside(dim) { Dim::range(0, sliced.max().max(1)) } else { sliced };
        sliced.with_why(dim.why())
    }

    /// Whether the start lies before the axis for some of its possible sizes, and is clamped to the
    /// first index. Then a shorter axis may keep one element, and a longer one none.
    fn may_be_moved_inside(self, dim: Dim) -> bool {
        let before = |start: i64| start < 0 && dim.min() < start.saturating_neg();
        !dim.is_static() && self.starts_inside && self.step < 0 && self.start.is_some_and(before)
    }

    /// Whether the size is bounded even if the axis is not.
    fn is_bounded(self) -> bool {
        let forward = self.step > 0;
        match (self.start, self.stop) {
            (Some(start), Some(stop)) => (start < 0) == (stop < 0),
            (None, Some(stop)) => (stop >= 0) == forward,
            (Some(start), None) => (start < 0) == forward,
            (None, None) => false,
        }
    }

    fn crossed(self, dim: Dim) -> Dim {
        let (start, stop) = (self.start.unwrap_or(0), self.stop.unwrap_or(0));
        let shrinking = (start < 0) == (self.step > 0);
        let sizes = [self.resolve(dim.min()).1, self.resolve(dim.max()).1];
        if !shrinking {
            let high = if dim.is_bounded() { sizes[1] } else { Dim::INF };
            return Dim::range(sizes[0].min(high), high);
        }
        // At most as many as either bound leaves on its side of the axis.
        let most = if self.step > 0 {
            start.saturating_neg().min(stop)
        } else {
            start.saturating_add(1).min(stop.saturating_neg() - 1)
        };
        Dim::range(0, count(most, self.step.saturating_abs()).min(dim.max()))
    }
}

/// One axis of a slice with bounds known as intervals; `None` means up to the end of the axis.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// The interval of [`Range::start`].
    pub start: Option<Interval>,
    /// The interval of [`Range::stop`].
    pub stop: Option<Interval>,
    /// As [`Range::step`].
    pub step: i64,
    /// As [`Range::starts_inside`].
    pub starts_inside: bool,
}

impl Bounds {
    /// The size of the slice, for a dim.
    pub(crate) fn apply(self, dim: Dim) -> Dim {
        let Bounds { step, starts_inside, .. } = self;
        let range = |start, stop| Range { start, stop, step, starts_inside }.apply(dim);
        // The closer the bounds, the fewer elements, as long as both keep their sign.
        let size = |(first, last): Ends, (low, high): Ends| {
            let (least, most) = if step > 0 {
                (range(last, low), range(first, high))
            } else {
                (range(first, high), range(last, low))
            };
            let is_exact = (first, low) == (last, high);
            if is_exact { range(first, low) } else { Dim::range(least.min(), most.max()) }
        };
        let (starts, stops) = (ends(self.start), ends(self.stop));
        let pairs = starts.iter().flat_map(|start| stops.iter().map(move |stop| (*start, *stop)));
        let sizes = pairs.map(|(start, stop)| size(start, stop));
        let sliced = sizes.reduce(Dim::join).unwrap_or(Dim::range(0, dim.max()));
        let whys = [self.start, self.stop].into_iter().flatten().map(|v| v.why);
        whys.fold(self.labelled(sliced, dim), Dim::with_why)
    }

    /// A slice of the first elements of an axis that is never shorter has the size of its stop.
    fn labelled(self, sliced: Dim, dim: Dim) -> Dim {
        let from_first = self.step == 1 && self.start.is_none_or(|v| v.value() == Some(0));
        let inside = |v: &Interval| v.symbol.is_some() && v.lo >= 0 && v.hi <= dim.min().into();
        match self.stop.filter(inside) {
            Some(stop) if from_first => sliced.with_symbol(stop.symbol),
            _ => sliced,
        }
    }
}

/// The smallest and the largest value of a bound.
type Ends = (Option<i64>, Option<i64>);

/// The negative and the non-negative part of an interval: they count from different ends of the
/// axis.
fn ends(bounds: Option<Interval>) -> SmallVec<[Ends; 2]> {
    let Some(v) = bounds else { return smallvec![(None, None)] };
    if let Some(value) = bound(v) {
        return smallvec![(Some(value), Some(value))];
    }
    // The largest values of u64 count as negative i64.
    let v = if v.hi > Interval::INF { Interval::any(ir::ElementType::I64) } else { v };
    let parts = [(v.lo, v.hi.min(-1)), (v.lo.max(0), v.hi)];
    let parts = parts.into_iter().filter(|(low, high)| low <= high);
    parts.map(|(low, high)| (Some(wrap_i64(low)), Some(wrap_i64(high)))).collect()
}

fn count(length: i64, step: i64) -> i64 {
    if length <= 0 { 0 } else { 1 + (length - 1) / step.max(1) }
}

/// A bound of a slice, if its value is known.
pub(crate) fn bound(v: Interval) -> Option<i64> {
    v.value().map(wrap_i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Python's slices, index by index, except for starts before the axis.
    fn python(size: i64, r: Range) -> Vec<i64> {
        let wrap = |v: i64| if v < 0 { v + size } else { v };
        let (low, high) = if r.step > 0 { (0, size) } else { (-1, size - 1) };
        let ends = if r.step > 0 { (low, high) } else { (high, low) };
        let first = if r.starts_inside && size > 0 { 0 } else { low };
        let start = r.start.map_or(ends.0, |v| wrap(v).clamp(first, high));
        let stop = r.stop.map_or(ends.1, |v| wrap(v).clamp(low, high));
        let mut out = Vec::new();
        let mut i = start;
        while (r.step > 0 && i < stop) || (r.step < 0 && i > stop) {
            out.push(i);
            i += r.step;
        }
        out
    }

    fn range() -> impl Strategy<Value = Range> {
        let end = || proptest::option::of(-8i64..8);
        let step = prop_oneof![-3i64..0, 1i64..4];
        (end(), end(), step, any::<bool>()).prop_map(|(start, stop, step, starts_inside)| Range {
            start,
            stop,
            step,
            starts_inside,
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, cases: 2000, ..ProptestConfig::default() })]

        #[test]
        fn sizes_are_those_of_python(size in 0i64..7, r in range()) {
            let (start, count) = r.resolve(size);
            let expected = python(size, r);
            prop_assert_eq!(count, expected.len() as i64);
            if let Some(first) = expected.first() {
                prop_assert_eq!(start, *first);
            }
        }

        /// An interval of sizes gives all results that its sizes give.
        #[test]
        fn dims_are_sound(low in 0i64..6, extra in 0i64..6, open: bool, r in range()) {
            let high = if open { Dim::INF } else { low + extra };
            let dim = r.apply(Dim::range(low, high));
            for size in low..=high.min(low + 9) {
                prop_assert!(dim.contains(r.resolve(size).1), "{r:?} of {size}: not in {dim}");
            }
        }
    }

    fn end() -> impl Strategy<Value = Option<(i64, i64)>> {
        let low = prop_oneof![3 => -8i64..8, 1 => Just(i64::MIN)];
        let high = prop_oneof![3 => -8i64..8, 1 => Just(i64::MAX)];
        proptest::option::of((low, high).prop_map(|(a, b)| (a.min(b), a.max(b))))
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, cases: 2000, ..ProptestConfig::default() })]

        /// Intervals of bounds give all results that their values give.
        #[test]
        fn bounds_are_sound(
            (low, extra, open) in (0i64..6, 0i64..6, any::<bool>()), start in end(), stop in end(),
            step in prop_oneof![-3i64..0, 1i64..4], starts_inside: bool,
        ) {
            let interval = |end: Option<(i64, i64)>| {
                end.map(|(low, high)| Interval::between(low.into(), high.into()))
            };
            let all = |end: Option<(i64, i64)>| match end {
                None => vec![None],
                Some((low, high)) => {
                    let near = (-14..15).filter(|v| (low..=high).contains(v));
                    near.chain([low, high]).map(Some).collect()
                }
            };
            let (dim, bounds) = (
                Dim::range(low, if open { Dim::INF } else { low + extra }),
                Bounds { start: interval(start), stop: interval(stop), step, starts_inside },
            );
            let sliced = bounds.apply(dim);
            for size in low..=low + extra {
                for start in all(start) {
                    for stop in all(stop) {
                        let (_, count) = Range { start, stop, step, starts_inside }.resolve(size);
                        prop_assert!(sliced.contains(count), "{start:?} {stop:?} of {size}");
                    }
                }
            }
        }
    }

    #[test]
    fn bounds() {
        let between = |low, high| Some(Interval::between(low, high));
        let any = Some(Interval::any(ir::ElementType::I64));
        let of = |start, stop, step, dim| {
            Bounds { start, stop, step, starts_inside: false }.apply(dim).to_string()
        };
        let (ten, open) = (Dim::fixed(10), Dim::any());
        assert_eq!(of(between(0, 0), between(2, 5), 1, ten), "2..5");
        assert_eq!(of(between(1, 1), between(2, 5), 2, ten), "1..2");
        assert_eq!(of(between(2, 5), between(7, 7), 1, ten), "2..5");
        assert_eq!(of(between(2, 5), between(-1, -1), 1, ten), "4..7");
        assert_eq!(of(between(-3, -3), any, -1, ten), "..8");
        assert_eq!(of(between(-3, -1), between(7, 9), 1, open), "..3");
        assert_eq!(of(between(7, 7), between(0, 9), -1, ten), "..7");
        assert_eq!(of(between(7, 7), any, 1, open), "?");
        assert_eq!(of(any, between(7, 7), 1, open), "..7");
        assert_eq!(of(any, any, 4, ten), "..3");
    }

    #[test]
    fn the_first_elements_have_the_label_of_the_stop() {
        let label = crate::Symbol(7);
        let stop = |low, high| Some(Interval { symbol: label, ..Interval::between(low, high) });
        let of = |start, stop| Bounds { start, stop, step: 1, starts_inside: true };
        let (zero, dim) = (Some(Interval::exact(0)), Dim::range(5, 9));
        assert_eq!(of(zero, stop(2, 5)).apply(dim).symbol(), label);
        assert_eq!(of(None, stop(2, 5)).apply(dim).symbol(), label);
        for (start, stop) in [(zero, stop(2, 6)), (zero, stop(-1, 5)), (stop(1, 1), stop(2, 5))] {
            assert!(!of(start, stop).apply(dim).symbol().is_some(), "{start:?} {stop:?}");
        }
    }

    #[test]
    fn whole_axes_keep_their_dim() {
        let range = |start, stop, step| Range { start, stop, step, starts_inside: false };
        let all = range(Some(0), Some(i64::MAX), 1);
        assert_eq!(all.apply(Dim::range(2, Dim::INF)), Dim::range(2, Dim::INF));
        assert_eq!(Range { step: 2, ..all }.apply(Dim::range(2, 5)), Dim::range(1, 3));
        let back = range(None, None, -1);
        assert_eq!(back.apply(Dim::fixed(4)), Dim::fixed(4));
        let last = range(Some(-1), Some(i64::MAX), 1);
        assert_eq!(last.apply(Dim::range(1, Dim::INF)), Dim::fixed(1));
        let first = |stop| range(Some(i64::MIN), Some(stop), 1);
        assert_eq!(first(5).apply(Dim::range(10, 20)), Dim::fixed(5));
        assert_eq!(first(i64::MAX).apply(Dim::range(3, Dim::INF)), Dim::range(3, Dim::INF));
        assert_eq!(range(Some(-9), Some(5), 1).apply(Dim::range(2, 9)), Dim::range(2, 5));
        let most = range(Some(0), Some(-1), 1);
        assert_eq!(most.apply(Dim::range(3, Dim::INF)), Dim::range(2, Dim::INF));
    }

    #[test]
    fn starts_before_the_axis_are_inside_it_or_leave_nothing() {
        let back = Range { start: Some(-5), stop: Some(-7), step: -1, starts_inside: true };
        assert_eq!((back.resolve(4), back.resolve(0)), ((0, 1), (-1, 0)));
        assert_eq!(Range { starts_inside: false, ..back }.resolve(4).1, 0);
    }
}
