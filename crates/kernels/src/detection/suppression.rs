//! Non-maximum suppression: of boxes that overlap, the one with the best score stays.

use super::boxes::{Overlap, descending};
use crate::par::Threads;
use crate::real::Real;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// What is kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Suppression {
    /// At most so many boxes of a class.
    pub limit: usize,
    /// A greater overlap suppresses.
    pub overlap: f32,
    /// A lower score is not considered.
    pub score: f32,
    /// Above 0, an overlap lowers the score by a Gaussian of this width instead of suppressing.
    pub sigma: f32,
}

/// A box that is kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Kept {
    /// The item of the batch.
    pub batch: usize,
    /// The class.
    pub class: usize,
    /// The box.
    pub index: usize,
    /// Its score, lowered by the overlaps.
    pub score: f32,
}

/// A box that may be kept; the best is the greatest.
#[derive(PartialEq)]
struct Candidate {
    score: f32,
    index: usize,
    /// How many of those kept have lowered its score.
    seen: usize,
}

impl Eq for Candidate {}

impl Ord for Candidate {
    fn cmp(&self, other: &Candidate) -> Ordering {
        descending(other.score, self.score).then(other.index.cmp(&self.index))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Candidate) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Boxes that stay, in columns as wide as the widest, so that a box can overlap those of its own
/// column and of the two beside it only. Where classes are told apart by shifting their boxes,
/// that is a small part of all.
struct Columns<B> {
    columns: Vec<Vec<B>>,
    left: f32,
    width: f32,
}

impl<B: Overlap> Columns<B> {
    /// Most columns.
    const MOST: f32 = 1024.0;

    /// Columns for boxes of these spans; one alone where any box may overlap any other.
    fn new(spans: impl Iterator<Item = Option<(f32, f32)>>, limit: f32) -> Columns<B> {
        let start = Some((f32::INFINITY, f32::NEG_INFINITY, 0f32));
        let found = spans.fold(start, |all, span| {
            let ((low, high, widest), (left, right)) = (all?, span?);
            let is_finite = left.is_finite() && right.is_finite();
            is_finite.then(|| (low.min(left), high.max(left), widest.max(right - left)))
        });
        let one = Columns { columns: vec![Vec::new()], left: 0.0, width: f32::INFINITY };
        match found {
            Some((left, high, widest)) if limit >= 0.0 && high > left => {
                // Wider than the widest, so that rounding does not move a box too far.
                let width = (widest * 1.01).max((high - left) / Self::MOST);
                let count = ((high - left) / width) as usize + 1;
                Columns { columns: (0..count).map(|_| Vec::new()).collect(), left, width }
            }
            _ => one,
        }
    }

    /// Adds a box, unless it overlaps one that is there by more than `limit`; tells whether it did.
    fn add(&mut self, own: B, limit: f32) -> bool {
        let left = own.span().map_or(0.0, |(left, _)| left - self.left);
        let column = ((left / self.width) as usize).min(self.columns.len() - 1);
        let near = column.saturating_sub(1)..(column + 2).min(self.columns.len());
        let is_free = !self.columns[near].iter().any(|boxes| own.overlaps_any(boxes, limit));
        if is_free {
            self.columns[column].push(own);
        }
        is_free
    }
}

impl Suppression {
    /// The boxes of one class that are kept, best first, with their scores.
    ///
    /// # Panics
    /// When there are fewer boxes than scores.
    pub fn select<B: Overlap>(&self, boxes: &[B], scores: &[f32]) -> Vec<(usize, f32)> {
        let good = |score: f32| score >= self.score;
        let candidates = scores.iter().enumerate().filter(|(_, s)| good(**s));
        if self.sigma <= 0.0 {
            return self.select_hard(boxes, candidates.map(|(i, s)| (*s, i)).collect());
        }
        let candidate = |(index, score): (usize, &f32)| Candidate { score: *score, index, seen: 0 };
        let mut heap: BinaryHeap<Candidate> = candidates.map(candidate).collect();
        let mut kept: Vec<(usize, f32)> = Vec::new();
        while kept.len() < self.limit {
            let Some(best) = heap.pop() else { break };
            // Scores are lowered only when a box comes to the top, which gives the same result.
            let others = kept[best.seen..].iter();
            let weight = others.map(|(i, _)| self.weight(boxes[best.index].overlap(boxes[*i])));
            let lowered = weight.fold(best.score, |score, w| score * w);
            if lowered == best.score {
                kept.push((best.index, best.score));
            } else if good(lowered) {
                heap.push(Candidate { score: lowered, seen: kept.len(), ..best });
            }
        }
        kept
    }

    /// The same where an overlap suppresses, whatever the scores.
    fn select_hard<B: Overlap>(
        &self,
        boxes: &[B],
        mut candidates: Vec<(f32, usize)>,
    ) -> Vec<(usize, f32)> {
        candidates.sort_unstable_by(|a, b| descending(a.0, b.0).then(a.1.cmp(&b.1)));
        let spans = candidates.iter().map(|(_, i)| boxes[*i].span());
        let mut kept = Vec::new();
        let mut stay = Columns::new(spans, self.overlap);
        for (score, index) in candidates {
            if kept.len() >= self.limit {
                break;
            }
            let own = boxes[index];
            if stay.add(own, self.overlap) {
                kept.push((index, score));
            }
        }
        kept
    }

    /// What remains of a score beside a kept box.
    fn weight(&self, iou: f32) -> f32 {
        Real::exp(-0.5 * iou * iou / self.sigma)
    }

    /// The boxes that are kept in a batch of `[batch, boxes]` boxes with `[batch, class, boxes]`
    /// scores, by batch and class, best first.
    ///
    /// # Panics
    /// When the slices are not of these sizes.
    pub fn run<B: Overlap>(
        &self,
        threads: &Threads,
        (batch, classes, count): (usize, usize, usize),
        boxes: &[B],
        scores: &[f32],
    ) -> Vec<Kept> {
        assert_eq!((boxes.len(), scores.len()), (batch * count, batch * classes * count));
        let mut lists: Vec<Vec<Kept>> = vec![Vec::new(); batch * classes];
        threads.chunks(&mut lists, 1, 1, |first, part| {
            for (i, list) in part.iter_mut().enumerate() {
                let (batch, class) = ((first + i) / classes, (first + i) % classes);
                let boxes = &boxes[batch * count..][..count];
                let scores = &scores[(first + i) * count..][..count];
                let kept = self.select(boxes, scores).into_iter();
                *list = kept.map(|(index, score)| Kept { batch, class, index, score }).collect();
            }
        });
        lists.concat()
    }
}

#[cfg(test)]
mod tests {
    use super::super::boxes::Rect;
    use super::*;

    const BOXES: [Rect; 4] = [
        Rect { x0: 0.0, y0: 0.0, x1: 2.0, y1: 2.0 },
        Rect { x0: 0.0, y0: 0.0, x1: 2.0, y1: 1.0 },
        Rect { x0: 5.0, y0: 5.0, x1: 6.0, y1: 6.0 },
        Rect { x0: 0.0, y0: 0.0, x1: 2.0, y1: 1.8 },
    ];

    #[test]
    fn hard() {
        let all = Suppression { limit: 9, overlap: 0.5, score: 0.2, sigma: 0.0 };
        let scores = [0.9, 0.8, 0.2, 0.85];
        // An overlap of exactly the threshold and a score of exactly the threshold stay.
        assert_eq!(all.select(&BOXES, &scores), [(0, 0.9), (1, 0.8), (2, 0.2)]);
        let one = Suppression { limit: 1, ..all };
        assert_eq!(one.select(&BOXES, &scores), [(0, 0.9)]);
        assert_eq!(all.select(&BOXES, &[0.5, f32::NAN, 0.5, 0.1]), [(0, 0.5), (2, 0.5)]);
    }

    /// Against the definition: boxes of all widths, some without area, in no order.
    #[test]
    fn columns_change_nothing() {
        let number = |i: usize, n: usize| (i * 7919 % n) as f32;
        let rect = |i: usize| {
            let (x, y) = (number(i, 331) * 3.0, number(i, 61));
            Rect::new(x, y, x + number(i, 23) - 1.0, y + number(i, 17))
        };
        let mut boxes: Vec<Rect> = (0..900).map(rect).collect();
        let scores: Vec<f32> = (0..900).map(|i| number(i, 101)).collect();
        let order = super::super::boxes::ranked(&scores, |_| true);
        for (overlap, odd) in [(0.0, 0.0), (0.3, 0.0), (-1.0, 0.0), (0.3, f32::NAN)] {
            boxes[17].x0 += odd;
            let all = Suppression { limit: 900, overlap, score: 0.0, sigma: 0.0 };
            let mut expected: Vec<usize> = Vec::new();
            for i in &order {
                if !expected.iter().any(|k| boxes[*i].iou(boxes[*k], 0.0) > overlap) {
                    expected.push(*i);
                }
            }
            let found = all.select(&boxes, &scores).into_iter().map(|(i, _)| i);
            assert_eq!(found.collect::<Vec<_>>(), expected, "{overlap} {odd}");
        }
    }

    #[test]
    fn soft() {
        let soft = Suppression { limit: 9, overlap: 0.5, score: 0.3, sigma: 0.5 };
        let kept = soft.select(&BOXES, &[0.9, 0.8, 0.4, 0.85]);
        let first = 0.8 * Real::exp(-0.25f32);
        assert_eq!(kept.iter().map(|k| k.0).collect::<Vec<_>>(), [0, 1, 2]);
        assert!((kept[1].1 - first).abs() < 1e-6);
    }

    #[test]
    fn classes_are_independent() {
        let all = Suppression { limit: 1, overlap: 0.5, score: 0.0, sigma: 0.0 };
        let boxes = [BOXES, BOXES].concat();
        let scores: Vec<f32> = (0..24).map(|i| (i * 7 % 24) as f32).collect();
        let kept = all.run(&Threads::new(2), (2, 3, 4), &boxes, &scores);
        for (i, kept) in kept.iter().enumerate() {
            let own = &scores[i * 4..][..4];
            assert_eq!((kept.batch, kept.class), (i / 3, i % 3));
            assert!(own.iter().all(|s| *s <= kept.score) && own[kept.index] == kept.score);
        }
    }
}
