//! Partitions boxes by position, so that few of them are compared.

use super::boxes::{Many, Overlap};
use crate::search::order::{Order, sorted};

/// Kept boxes, in columns that are as wide as the widest box. So a box can only overlap those of
/// its own column and of the two neighbouring ones.
pub(super) struct Columns<B: Overlap> {
    columns: Vec<B::Many>,
    left: f32,
    width: f32,
}

impl<B: Overlap> Columns<B> {
    /// The most columns.
    const MAX_COLUMNS: f32 = 1024.0;

    /// Columns for boxes of these spans; a single column if any box may overlap any other.
    pub(super) fn new(spans: impl Iterator<Item = Option<(f32, f32)>>, limit: f32) -> Columns<B> {
        let start = Some((f32::INFINITY, f32::NEG_INFINITY, 0f32));
        let found = spans.fold(start, |all, span| {
            let ((low, high, widest), (left, right)) = (all?, span?);
            let is_finite = left.is_finite() && right.is_finite();
            is_finite.then(|| (low.min(left), high.max(left), widest.max(right - left)))
        });
        let many = |count: usize| (0..count).map(|_| B::Many::default()).collect();
        match found {
            Some((left, high, widest)) if limit >= 0.0 && high > left => {
                // Wider than the widest, so that rounding does not move a box too far.
                let width = (widest * 1.01).max((high - left) / Self::MAX_COLUMNS);
                Columns { columns: many(((high - left) / width) as usize + 1), left, width }
            }
            _ => Columns { columns: many(1), left: 0.0, width: f32::INFINITY },
        }
    }

    /// Adds a box unless it overlaps an earlier one by more than `limit`; returns whether it did.
    pub(super) fn add(&mut self, own: B, limit: f32) -> bool {
        let left = own.span().map_or(0.0, |(left, _)| left - self.left);
        let column = ((left / self.width) as usize).min(self.columns.len() - 1);
        let near = column.saturating_sub(1)..(column + 2).min(self.columns.len());
        let is_free = !self.columns[near].iter().any(|boxes| boxes.any_over(own, limit));
        if is_free {
            self.columns[column].push(own);
        }
        is_free
    }
}

/// Groups of boxes that are separated by a vertical line, each in its order: no box overlaps one of
/// another group. Classes that are separated by shifting their boxes become groups.
pub(super) fn groups<B: Overlap>(boxes: &[B], limit: f32) -> Vec<Vec<usize>> {
    let finite = |span: &(f32, f32)| span.0.is_finite() && span.1.is_finite();
    let spans: Option<Vec<_>> = boxes.iter().map(|b| b.span().filter(finite)).collect();
    let Some(spans) = spans.filter(|_| limit >= 0.0) else {
        return vec![(0..boxes.len()).collect()];
    };
    let from_left = sorted(spans.iter().enumerate().map(|(i, span)| (span.0.rank(), i)));
    let mut group_of = vec![0; boxes.len()];
    let (mut count, mut reach) = (0, f32::NEG_INFINITY);
    for i in from_left {
        let (left, right) = spans[i];
        count += usize::from(left > reach);
        reach = reach.max(left).max(right);
        group_of[i] = count - 1;
    }
    let mut groups = vec![Vec::new(); count];
    for (i, group) in group_of.into_iter().enumerate() {
        groups[group].push(i);
    }
    groups
}
