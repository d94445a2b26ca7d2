//! Slices of one axis: begin, end and step as Slice-8 and StridedSlice-1 mean them.

use crate::dim::Dim;
use crate::value::Interval;

/// One axis of a slice. Bounds below 0 count from the end, bounds beyond the axis are cut off,
/// and `None` is the whole way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first index.
    pub start: Option<i64>,
    /// The index to stop before.
    pub stop: Option<i64>,
    /// The step, not 0.
    pub step: i64,
    /// Whether a start before the axis is its first index also where steps go back, as StridedSlice-1
    /// has it; else nothing is left then, as in Python and Slice-8.
    pub starts_inside: bool,
}

impl Range {
    /// The first index and the number of indices in an axis of `size`.
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

    /// The indices that the slice of an axis of `size` holds.
    pub fn positions(self, size: usize) -> Option<Vec<usize>> {
        let (first, count) = self.resolve(i64::try_from(size).ok()?);
        let position = |i: i64| usize::try_from(first + i * self.step).ok();
        (0..count).map(position).collect()
    }

    /// The size of the slice of a dim.
    pub fn apply(self, dim: Dim) -> Dim {
        self.opened(dim).apply_opened(dim)
    }

    /// The same slice with bounds beyond the axis left out. Converters write "to the end" as the
    /// largest 32-bit or 64-bit integer; no axis without a bound is taken to be longer.
    fn opened(self, dim: Dim) -> Range {
        let far = dim.max().min(i64::from(i32::MAX));
        let beyond = |v: &i64| *v >= far;
        match self.step > 0 {
            true => Range { stop: self.stop.filter(|v| !beyond(v)), ..self },
            false => Range { start: self.start.filter(|v| !beyond(v)), ..self },
        }
    }

    fn apply_opened(self, dim: Dim) -> Dim {
        let (first, all) = self.resolve(dim.max());
        let whole = self.step == 1 && first == 0 && all == dim.max();
        let opposite = |v: i64| v < 0;
        // When start counts from one end and stop from the other, the size may grow and shrink.
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
        let sliced = match self.may_be_moved_inside(dim) {
            true => Dim::range(0, sliced.max().max(1)),
            false => sliced,
        };
        sliced.with_why(dim.why())
    }

    /// Whether the start lies before some of the sizes that a dim may have, and is moved to their first
    /// index: then one element may be left of a shorter axis, and none of a longer one.
    fn may_be_moved_inside(self, dim: Dim) -> bool {
        let before = |start: i64| start < 0 && dim.min() < start.saturating_neg();
        !dim.is_static() && self.starts_inside && self.step < 0 && self.start.is_some_and(before)
    }

    /// Whether the size has a bound even if the axis has none.
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
        // At most what lies between the two ends when they meet.
        let most = start.saturating_abs().min(stop.saturating_abs()).saturating_add(1);
        Dim::range(0, count(most, self.step.saturating_abs()).min(dim.max()))
    }
}

fn count(length: i64, step: i64) -> i64 {
    if length <= 0 { 0 } else { 1 + (length - 1) / step.max(1) }
}

/// A bound of a slice as far as its value is known.
pub fn bound(v: Interval) -> Option<i64> {
    v.value().map(crate::value::wrap_i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Python's slices, index by index, but for starts before the axis.
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

        /// What holds for a size holds for the interval around it.
        #[test]
        fn dims_are_sound(low in 0i64..6, extra in 0i64..6, open: bool, r in range()) {
            let high = if open { Dim::INF } else { low + extra };
            let dim = r.apply(Dim::range(low, high));
            for size in low..=high.min(low + 9) {
                prop_assert!(dim.contains(r.resolve(size).1), "{r:?} of {size}: not in {dim}");
            }
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
