//! Which keys some rows attend to. The weight of a key that the mask hides is 0 exactly, so keys
//! behind the last one that any of the rows attends to need not be multiplied: half of them in
//! causal attention, and padding.

use super::problem::{Attention, Head, Mask};
use crate::multiversion;
use std::ops::Range;

/// The most rows of scores that are computed at a time if keys are hidden. About 40 were fastest on
/// a Zen 3, of 24 to 252.
pub(super) const ROWS_WITH_HIDDEN: usize = 42;

/// A key has no weight if its score is this far below another's. `e^-87.3` is the least weight
/// that is not 0.
const MARGIN: f32 = 128.0;

/// More than what rounding adds to a bound, relative to it.
const ROUNDING: f32 = 1.0001;

/// How many keys the rows of a head attend to.
pub(super) struct VisibleKeys<'a> {
    attention: &'a Attention,
    /// The only mask, unless attention is causal.
    mask: Option<Mask<'a>>,
    /// No score differs by more than this from what the mask adds to it.
    bound: f32,
}

impl<'a> VisibleKeys<'a> {
    /// `None` if all keys have to be multiplied: if nothing hides the last ones, if several masks
    /// might cancel each other, or if operands are not finite or so large that scores could
    /// overflow. A weight of 0 times an infinite value is NaN, as the definition says.
    pub(super) fn new(
        attention: &'a Attention,
        head: &Head<'a>,
        rows: Range<usize>,
    ) -> Option<VisibleKeys<'a>> {
        let Attention { keys, depth, width, scale, causal, strides, .. } = *attention;
        let mask = match head.masks {
            _ if causal => None,
            [Some(mask), None, None] if mask.column == 1 => Some(mask),
            _ => return None,
        };
        let all = VisibleKeys { attention, mask, bound: 0.0 };
        if keys == 0 || head.sink.is_some() || !all.hides(rows.clone()) {
            return None;
        }
        let is_finite = largest(head.value, 0..keys, strides.value, width).is_finite();
        if causal {
            return is_finite.then_some(all);
        }
        let query = largest(head.query, rows, strides.query, depth);
        let key = largest(head.key, 0..keys, strides.key, depth);
        let bound = query * key * depth as f32 * scale.abs();
        // Far below what overflows.
        (is_finite && bound < f32::MAX / 16.0).then_some(VisibleKeys { bound, ..all })
    }

    /// Whether the last keys are hidden from some block of the rows, as far as a few rows tell.
    fn hides(&self, rows: Range<usize>) -> bool {
        let keys = self.attention.keys;
        if rows.len() <= ROWS_WITH_HIDDEN {
            return self.count(rows) < keys;
        }
        // In batches, the first rows may be padding, for which all keys are hidden alike.
        let some = [rows.start, rows.start + rows.len() / 2];
        some.iter().any(|row| self.last(*row, 0) < keys)
    }

    /// How many keys have to be multiplied for these rows, from the first on.
    pub(super) fn count(&self, rows: Range<usize>) -> usize {
        // In causal masks the last row attends to most keys, so that the others look at few.
        rows.rev().fold(0, |least, row| self.last(row, least))
    }

    /// One more than the last key that row `row` attends to, or `least` if that is more.
    fn last(&self, row: usize, least: usize) -> usize {
        let Attention { keys, rows, .. } = *self.attention;
        let Some(mask) = self.mask else { return (row + 1).min(keys).max(least) };
        let added = &mask.values[row * mask.row..][..keys];
        // Any key tells how large the largest score is at least. Causal masks show the first key
        // or, if that is padding, the row's own; or one between them.
        let own = (row + keys).saturating_sub(rows).min(keys - 1);
        let some = [0, own / 2, own].map(|key| added[key]);
        let most = some.into_iter().fold(f32::NEG_INFINITY, f32::max).min(0.0);
        last_seen(added, (most - 2.0 * self.bound - MARGIN) * ROUNDING, least)
    }
}

multiversion! {
    /// One more than the index of the last element that is at least `limit` or NaN, or `least` if
    /// that is more.
    fn last_seen(values: &[f32], limit: f32, least: usize) -> usize {
        let is_seen = |x: &f32| *x >= limit || x.is_nan();
        let mut end = values.len();
        while end > least {
            let first = end.saturating_sub(64).max(least);
            let part = &values[first..end];
            if part.iter().fold(false, |seen, x| seen | is_seen(x)) {
                return first + part.iter().rposition(is_seen).map_or(0, |at| at + 1);
            }
            end = first;
        }
        least
    }
}

multiversion! {
    /// The largest magnitude in some rows of `columns` elements; NaN if there is one.
    fn largest(values: &[f32], rows: Range<usize>, stride: usize, columns: usize) -> f32 {
        let mut most = 0;
        for row in rows {
            // As integers, NaN is above infinity.
            for x in &values[row * stride..][..columns] {
                most = most.max(x.to_bits() & (u32::MAX >> 1));
            }
        }
        f32::from_bits(most)
    }
}
