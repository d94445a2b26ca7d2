//! Pad: copies a tensor into a larger or smaller one and fills the rest.

use crate::base::num::Pod;
use crate::base::par::Threads;

/// An axis that is padded or cropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Axis {
    /// Size before.
    size: usize,
    /// Size after.
    out: usize,
    /// Elements added at the beginning; negative to crop.
    begin: i64,
    /// Stride in the source.
    stride: usize,
}

/// A padding with known sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PadPlan {
    /// Axes up to the last one that changes.
    axes: Vec<Axis>,
    /// Elements of the axes after these, which move together.
    inner: usize,
}

/// Bytes that are worth a second thread.
const GRAIN: usize = 64 << 10;

impl PadPlan {
    /// From `sizes` to `out`, with `begins` elements added at the beginning of each axis.
    pub fn new(sizes: &[usize], out: &[usize], begins: &[i64]) -> PadPlan {
        let mut axes: Vec<Axis> = Vec::new();
        let mut stride = 1;
        for ((&size, &out), &begin) in sizes.iter().zip(out).zip(begins).rev() {
            axes.push(Axis { size, out, begin, stride });
            stride *= size;
        }
        axes.reverse();
        let mut inner = 1;
        while let Some(Axis { size, .. }) = axes.pop_if(|a| a.begin == 0 && a.size == a.out) {
            inner *= size;
        }
        PadPlan { axes, inner }
    }

    /// Whether nothing changes.
    pub fn is_identity(&self) -> bool {
        self.axes.is_empty()
    }

    /// Fills `out`. For a position outside of an axis, `source(position, size)` is the element of
    /// the axis to copy; if it is `None`, `value` is written.
    ///
    /// # Panics
    /// When a slice does not have the size of the plan, or `source` returns an index past `size`.
    pub fn run<T: Pod>(
        &self,
        threads: &Threads,
        source: impl Fn(i64, i64) -> Option<usize> + Sync,
        (data, value): (&[T], T),
        out: &mut [T],
    ) {
        let Some((last, outer)) = self.axes.split_last() else { return out.copy_from_slice(data) };
        let row = last.out * self.inner;
        assert_eq!(out.len(), row * outer.iter().map(|a| a.out).product::<usize>());
        threads.par_chunks_mut(out, row, GRAIN / size_of::<T>(), |first, rows| {
            for (i, row) in rows.chunks_exact_mut(row.max(1)).enumerate() {
                match start(outer, first + i, &source) {
                    Some(start) => self.row(last, &source, (&data[start..], value), row),
                    None => row.fill(value),
                }
            }
        });
    }

    /// Fills one row along the last axis.
    fn row<T: Pod>(
        &self,
        axis: &Axis,
        source: &impl Fn(i64, i64) -> Option<usize>,
        (data, value): (&[T], T),
        row: &mut [T],
    ) {
        let (inner, limit) = (self.inner, axis.out as i64);
        // The part that is copied unchanged.
        let from = axis.begin.clamp(0, limit);
        let to = axis.begin.saturating_add(axis.size as i64).clamp(from, limit);
        let middle = &mut row[from as usize * inner..to as usize * inner];
        if !middle.is_empty() {
            let skipped = (from - axis.begin) as usize * inner;
            middle.copy_from_slice(&data[skipped..][..middle.len()]);
        }
        for position in (0..from).chain(to..limit) {
            let place = &mut row[position as usize * inner..][..inner];
            let from = source(position.saturating_sub(axis.begin), axis.size as i64);
            let from = from.map(|index| &data[index * inner..][..inner]);
            match (place, from) {
                // Too few for a call.
                ([place], Some([from])) => *place = *from,
                ([place], None) => *place = value,
                (place, Some(from)) => place.copy_from_slice(from),
                (place, None) => place.fill(value),
            }
        }
    }
}

/// Offset of a row in the source; `None` if the whole row is padding.
fn start(
    outer: &[Axis],
    mut row: usize,
    source: &impl Fn(i64, i64) -> Option<usize>,
) -> Option<usize> {
    let mut at = 0;
    for axis in outer.iter().rev() {
        let position = ((row % axis.out) as i64).saturating_sub(axis.begin);
        row /= axis.out;
        at += source(position, axis.size as i64)? * axis.stride;
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn constant(position: i64, size: i64) -> Option<usize> {
        usize::try_from(position).ok().filter(|_| position < size)
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None, ..ProptestConfig::default()
        })]

        #[test]
        fn every_element_is_the_one_of_the_definition(
            axes in proptest::collection::vec((0usize..5, -3i64..4, 0usize..6), 0..4),
            edge in any::<bool>(),
        ) {
            let sizes: Vec<usize> = axes.iter().map(|a| a.0).collect();
            let begins: Vec<i64> = axes.iter().map(|a| a.1).collect();
            let out: Vec<usize> = axes.iter().map(|a| a.2).collect();
            let source = |position: i64, size: i64| if edge && size > 0 { Some(position.clamp(0, size - 1) as usize) } else { constant(position, size) };
            let data: Vec<u16> = (1..=sizes.iter().product::<usize>() as u16).collect();
            let mut found = vec![7; out.iter().product()];
            let plan = PadPlan::new(&sizes, &out, &begins);
            plan.run(&Threads::new(2), source, (&data, 99), &mut found);
            for (i, found) in found.iter().enumerate() {
                let (mut rest, mut at, mut stride) = (i, Some(0), 1);
                for axis in (0..sizes.len()).rev() {
                    let position = (rest % out[axis]) as i64 - begins[axis];
                    let index = source(position, sizes[axis] as i64);
                    at = at.zip(index).map(|(at, index)| at + index * stride);
                    rest /= out[axis];
                    stride *= sizes[axis];
                }
                prop_assert_eq!(*found, at.map_or(99, |at| data[at]));
            }
        }
    }
}
