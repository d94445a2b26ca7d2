//! The plan of a roll: merged axes, and batches of rows that are consecutive in the source.

use crate::base::strides::gcd;
use std::ops::Range;

/// Up to this many bytes, rows are copied line by line; longer ones by the fastest copy of the CPU.
pub(super) const SHORT_ROW_BYTES: usize = 4 << 10;

/// A roll, with axes merged if they move together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RollPlan {
    /// Outer axes, outermost first: size and shift.
    pub(super) outer: Vec<(usize, usize)>,
    /// Bytes of a row: the innermost rolled axis and all axes inside it.
    pub(super) row: usize,
    /// Bytes by which a row is rotated towards its end.
    pub(super) shift: usize,
}

impl RollPlan {
    /// The roll of a tensor of `sizes`, with elements of `element` bytes, by `shifts`, one for
    /// each axis, towards larger indices.
    pub fn new(sizes: &[usize], shifts: &[i64], element: usize) -> RollPlan {
        let reduce = |(&size, &shift): (&usize, &i64)| match i64::try_from(size) {
            Ok(0) | Err(_) => (size, 0),
            Ok(n) => (size, shift.rem_euclid(n) as usize),
        };
        let axes: Vec<(usize, usize)> = sizes.iter().zip(shifts).map(reduce).collect();
        let rolled = axes.iter().rposition(|(_, shift)| *shift != 0);
        let Some(last) = rolled else {
            let row = sizes.iter().product::<usize>() * element;
            return RollPlan { outer: Vec::new(), row, shift: 0 };
        };
        let inside: usize = sizes[last + 1..].iter().product::<usize>() * element;
        let mut outer: Vec<(usize, usize)> = Vec::new();
        for &(size, shift) in axes[..last].iter().filter(|(size, _)| *size != 1) {
            match outer.last_mut() {
                Some((merged, 0)) if shift == 0 => *merged *= size,
                _ => outer.push((size, shift)),
            }
        }
        RollPlan { outer, row: axes[last].0 * inside, shift: axes[last].1 * inside }
    }

    /// Bytes of all rows; `None` on overflow.
    pub(super) fn len(&self) -> Option<usize> {
        self.outer.iter().try_fold(self.row, |bytes, (size, _)| bytes.checked_mul(*size))
    }

    /// The largest run, in bytes, that moves as a whole and stays aligned to its size.
    pub fn granularity(&self) -> usize {
        gcd(self.row, self.shift)
    }

    /// The same roll of elements of `element` bytes in place of runs of `run` bytes; `run` divides
    /// [`RollPlan::granularity`].
    pub fn in_runs(&self, run: usize, element: usize) -> RollPlan {
        let scale = |bytes: usize| bytes / run * element;
        RollPlan { outer: self.outer.clone(), row: scale(self.row), shift: scale(self.shift) }
    }

    /// The source row of output row `row`, and the number of rows from there on that are
    /// consecutive.
    fn source(&self, row: usize) -> (usize, usize) {
        let (mut rest, mut stride, mut source, mut count) = (row, 1, 0, usize::MAX);
        for &(size, shift) in self.outer.iter().rev() {
            let i = rest % size;
            rest /= size;
            source += (if i >= shift { i - shift } else { i + size - shift }) * stride;
            if stride == 1 {
                count = if i < shift { shift - i } else { size - i };
            }
            stride *= size;
        }
        (source, count)
    }

    /// Divides output bytes `range` into batches of consecutive source rows.
    pub(super) fn batches(&self, range: Range<usize>) -> impl Iterator<Item = Batch> {
        let mut start = range.start;
        std::iter::from_fn(move || {
            let row = start / self.row;
            let inside = start - row * self.row;
            let (source, count) = self.source(row);
            let len = count.saturating_mul(self.row).saturating_sub(inside).min(range.end - start);
            let batch = Batch { start, len, from: source * self.row + inside, inside };
            start += len;
            (len > 0).then_some(batch)
        })
    }
}

/// Output bytes whose rows are rotated rows of the source, in consecutive order.
pub(super) struct Batch {
    /// The first byte.
    pub(super) start: usize,
    /// Number of bytes.
    pub(super) len: usize,
    /// The source of the first byte if its row were not rotated.
    pub(super) from: usize,
    /// Bytes of the row before the first byte.
    pub(super) inside: usize,
}

/// A mask of the lowest `count` bits; all 64 if `count` is larger.
#[cfg(target_arch = "x86_64")]
pub(super) fn low(count: usize) -> u64 {
    if count < 64 { (1 << count) - 1 } else { u64::MAX }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_merge() {
        let plan = RollPlan::new(&[2, 3, 8, 5, 7], &[0, 0, 3, 0, 0], 4);
        assert_eq!(plan, RollPlan { outer: vec![(6, 0)], row: 8 * 140, shift: 3 * 140 });
        let plan = RollPlan::new(&[2, 3], &[2, -3], 4);
        assert_eq!(plan, RollPlan { outer: vec![], row: 24, shift: 0 });
    }
}
