//! Non-maximum suppression (NMS): of boxes that overlap, the one with the best score is kept.

use super::boxes::{Overlap, descending};
use super::columns::{Columns, groups};
use crate::base::par::Threads;
use crate::math::real::Real;
use crate::search::order::{Order as _, key, position};
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// The parameters of NMS.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Suppression {
    /// The most boxes of a class.
    pub limit: usize,
    /// Boxes with a larger overlap are suppressed.
    pub overlap: f32,
    /// Boxes with a lower score are ignored.
    pub score: f32,
    /// If above 0, soft NMS: an overlap lowers the score by a Gaussian of this width instead of
    /// suppressing the box.
    pub sigma: f32,
}

/// A box that is kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Kept {
    /// The image in the batch.
    pub batch: usize,
    /// The class.
    pub class: usize,
    /// The box.
    pub index: usize,
    /// Its score after it was lowered.
    pub score: f32,
}

/// A box that may be kept; the best compares greatest.
#[derive(PartialEq)]
struct Candidate {
    score: f32,
    index: usize,
    /// Number of kept boxes that have lowered its score.
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

impl Suppression {
    /// The boxes of one class that are kept, best first, with their scores.
    ///
    /// # Panics
    /// When there are fewer boxes than scores.
    pub fn select<B: Overlap>(
        &self,
        threads: &Threads,
        boxes: &[B],
        scores: &[f32],
    ) -> Vec<(usize, f32)> {
        let good = |score: f32| score >= self.score;
        let candidates = scores.iter().enumerate().filter(|(_, s)| good(**s));
        if self.sigma <= 0.0 {
            return self.select_hard(threads, boxes, scores, candidates.map(|(i, _)| i));
        }
        let candidate = |(index, score): (usize, &f32)| Candidate { score: *score, index, seen: 0 };
        let mut heap: BinaryHeap<Candidate> = candidates.map(candidate).collect();
        let mut kept: Vec<(usize, f32)> = Vec::new();
        while kept.len() < self.limit {
            let Some(best) = heap.pop() else { break };
            // Scores are lowered only when a box reaches the top, which gives the same result.
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

    /// The same for plain NMS, which ignores scores apart from their order; of the boxes `wanted`.
    fn select_hard<B: Overlap>(
        &self,
        threads: &Threads,
        boxes: &[B],
        scores: &[f32],
        wanted: impl Iterator<Item = usize>,
    ) -> Vec<(usize, f32)> {
        let rank = |i: usize| key((!scores[i].rank()).into(), i);
        let mut keys: Vec<u128> = wanted.map(rank).collect();
        // Most often, the best few boxes for each that is kept are enough.
        let some = self.limit.saturating_mul(4);
        if some < keys.len() / 2 {
            keys.select_nth_unstable(some);
            let kept = self.select_best(threads, boxes, scores, &mut keys[..some]);
            if kept.len() == self.limit {
                return kept;
            }
        }
        self.select_best(threads, boxes, scores, &mut keys)
    }

    /// The same, of the boxes with these keys.
    fn select_best<B: Overlap>(
        &self,
        threads: &Threads,
        boxes: &[B],
        scores: &[f32],
        keys: &mut [u128],
    ) -> Vec<(usize, f32)> {
        keys.sort_unstable();
        let order: Vec<usize> = keys.iter().map(|key| position(*key)).collect();
        let boxes: Vec<B> = order.iter().map(|i| boxes[*i]).collect();
        let groups = groups(&boxes, self.overlap);
        let mut kept: Vec<Vec<usize>> = vec![Vec::new(); groups.len()];
        threads.par_chunks_mut(&mut kept, 1, 1, |first, part| {
            for (kept, group) in part.iter_mut().zip(&groups[first..]) {
                *kept = self.select_of_group(&boxes, group);
            }
        });
        let mut stays = vec![false; order.len()];
        kept.iter().flatten().for_each(|place| stays[*place] = true);
        let all = order.into_iter().zip(stays).filter(|(_, stays)| *stays);
        all.map(|(i, _)| (i, scores[i])).take(self.limit).collect()
    }

    /// The boxes of a group that do not overlap an earlier one that is kept.
    fn select_of_group<B: Overlap>(&self, boxes: &[B], group: &[usize]) -> Vec<usize> {
        let mut stay = Columns::new(group.iter().map(|i| boxes[*i].span()), self.overlap);
        let mut kept = Vec::new();
        for &place in group {
            if kept.len() >= self.limit {
                break;
            }
            if stay.add(boxes[place], self.overlap) {
                kept.push(place);
            }
        }
        kept
    }

    /// The factor that remains of a score next to a kept box.
    fn weight(&self, iou: f32) -> f32 {
        Real::exp(-0.5 * iou * iou / self.sigma)
    }

    /// The boxes that are kept of `[batch, boxes]` boxes with `[batch, class, boxes]` scores, by
    /// image and class, best first.
    ///
    /// # Panics
    /// When the slices do not have these sizes.
    pub fn run<B: Overlap>(
        &self,
        threads: &Threads,
        (batch, classes, count): (usize, usize, usize),
        boxes: &[B],
        scores: &[f32],
    ) -> Vec<Kept> {
        assert_eq!((boxes.len(), scores.len()), (batch * count, batch * classes * count));
        let mut lists: Vec<Vec<Kept>> = vec![Vec::new(); batch * classes];
        threads.par_chunks_mut(&mut lists, 1, 1, |first, part| {
            for (i, list) in part.iter_mut().enumerate() {
                let (batch, class) = ((first + i) / classes, (first + i) % classes);
                let boxes = &boxes[batch * count..][..count];
                let scores = &scores[(first + i) * count..][..count];
                let kept = self.select(threads, boxes, scores).into_iter();
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
        // An overlap or a score of exactly the threshold is kept.
        assert_eq!(all.select(Threads::single(), &BOXES, &scores), [(0, 0.9), (1, 0.8), (2, 0.2)]);
        let one = Suppression { limit: 1, ..all };
        assert_eq!(one.select(Threads::single(), &BOXES, &scores), [(0, 0.9)]);
        assert_eq!(
            all.select(Threads::single(), &BOXES, &[0.5, f32::NAN, 0.5, 0.1]),
            [(0, 0.5), (2, 0.5)]
        );
    }

    /// Against the definition: boxes of all widths, some without area, unordered, some far from the
    /// others.
    #[test]
    fn columns_and_groups_change_nothing() {
        let threads = Threads::new(2);
        let number = |i: usize, n: usize| (i * 7919 % n) as f32;
        let rect = |i: usize| {
            let (x, y) = (number(i, 331) * 3.0 + number(i, 5) * 1500.0, number(i, 61));
            Rect::new(x, y, x + number(i, 23) - 1.0, y + number(i, 17))
        };
        let mut boxes: Vec<Rect> = (0..900).map(rect).collect();
        let scores: Vec<f32> = (0..900).map(|i| number(i, 101)).collect();
        let order = super::super::boxes::ranked(&scores, usize::MAX, |_| true);
        for (overlap, odd) in [(0.0, 0.0), (0.3, 0.0), (-1.0, 0.0), (0.3, f32::NAN)] {
            boxes[17].x0 += odd;
            let all = Suppression { limit: 500, overlap, score: 0.0, sigma: 0.0 };
            let mut expected: Vec<usize> = Vec::new();
            for i in &order {
                if !expected.iter().any(|k| boxes[*i].iou(boxes[*k], 0.0) > overlap) {
                    expected.push(*i);
                }
            }
            // With a small limit, the best boxes are tried first.
            for limit in [500, 20] {
                expected.truncate(limit);
                let all = Suppression { limit, ..all };
                let found = all.select(&threads, &boxes, &scores).into_iter().map(|(i, _)| i);
                assert_eq!(found.collect::<Vec<_>>(), expected, "{overlap} {odd} {limit}");
            }
        }
    }

    #[test]
    fn soft() {
        let soft = Suppression { limit: 9, overlap: 0.5, score: 0.3, sigma: 0.5 };
        let kept = soft.select(Threads::single(), &BOXES, &[0.9, 0.8, 0.4, 0.85]);
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
