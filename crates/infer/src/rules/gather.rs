//! Shared by operations that read elements at indices.

use crate::lattice::value::{Interval, PartialValue};
use crate::rule::cx::ValueCx;

/// The index from the start of an axis of `size`; negative ones count from the end. `None` if it is
/// unknown or out of range.
pub(crate) fn position(index: &Interval, size: usize) -> Option<usize> {
    let (index, size) = (index.value()?, i128::try_from(size).ok()?);
    let index = if index < 0 { index + size } else { index };
    usize::try_from(index).ok().filter(|_| index < size)
}

/// The elements of a list (input 0) at indices (input 1).
pub(crate) fn of_list(cx: &ValueCx<'_>) -> Option<PartialValue> {
    let (data, indices) = (cx.value(0)?, cx.value(1)?);
    let [size] = data.sizes[..] else { return None };
    let positions = indices.intervals()?.iter().map(|v| position(v, size));
    let positions: Option<Vec<usize>> = positions.collect();
    data.gathered(&cx.sizes(), positions?.into_iter())
}
