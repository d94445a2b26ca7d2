//! NMS class by class, and the selection from all classes of an image.

use super::boxes::{Rect, descending, ranked};
use super::greedy::Greedy;
use super::suppression::Kept;
use crate::base::par::Threads;
use crate::math::real::Real;
use std::cmp::Ordering;

/// The boxes and scores of the classes of an image.
pub type Image<'a> = Vec<(&'a [Rect], &'a [f32])>;

/// How the boxes of a class are chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Choice {
    /// The boxes that are not suppressed, among those with a score of at least `score`.
    Greedy {
        /// The threshold of suppression.
        greedy: Greedy,
        /// Boxes with a lower score are ignored.
        score: f32,
    },
    /// Matrix NMS: scores are lowered by the overlaps with better boxes, all at once.
    Matrix(Matrix),
}

/// The parameters of matrix NMS.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Matrix {
    /// Only higher scores are considered.
    pub score: f32,
    /// Only scores that are higher after they were lowered are kept.
    pub after: f32,
    /// The factor of a Gaussian; without it, scores are lowered linearly.
    pub sigma: Option<f32>,
    /// 1 if the last pixel belongs to the box, else 0.
    pub edge: f32,
}

impl Matrix {
    fn select(&self, boxes: &[Rect], scores: &[f32], candidates: usize) -> Vec<(usize, f32)> {
        let order = ranked(scores, candidates, |s| s > self.score);
        // The largest overlap of each candidate with a better one.
        let mut greatest: Vec<f32> = Vec::with_capacity(order.len());
        let mut kept = Vec::new();
        for (n, &i) in order.iter().enumerate() {
            let ious = order[..n].iter().map(|&j| boxes[i].iou(boxes[j], self.edge));
            let (mut most, mut decay) = (0.0f32, 1.0f32);
            for (iou, before) in ious.zip(&greatest) {
                most = most.max(iou);
                decay = decay.min(self.decay(iou, *before));
            }
            greatest.push(most);
            if decay * scores[i] > self.after {
                kept.push((i, decay * scores[i]));
            }
        }
        kept
    }

    fn decay(&self, iou: f32, before: f32) -> f32 {
        match self.sigma {
            Some(sigma) => Real::exp((before * before - iou * iou) * sigma),
            None => (1.0 - iou) / (1.0 - before),
        }
    }
}

/// The order of the results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// By class, then by score.
    Class,
    /// By score.
    Score,
    /// Unspecified.
    Any,
}

/// Selects from a batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ByClass {
    /// How the boxes of a class are chosen.
    pub choice: Choice,
    /// The most candidates of a class.
    pub candidates: usize,
    /// The most results of an image.
    pub results: usize,
    /// The class that is ignored.
    pub background: Option<usize>,
    /// The order.
    pub order: Order,
    /// Whether results of all images are sorted together.
    pub across: bool,
}

impl ByClass {
    /// The results, and their number for each image.
    ///
    /// # Panics
    /// When a class has fewer boxes than scores.
    pub fn run(&self, threads: &Threads, images: &[Image<'_>]) -> (Vec<Kept>, Vec<usize>) {
        let all_classes = |(batch, image): (usize, &Image<'_>)| {
            let used = (0..image.len()).filter(|class| Some(*class) != self.background);
            used.map(move |class| (batch, class)).collect::<Vec<_>>()
        };
        let classes: Vec<_> = images.iter().enumerate().flat_map(all_classes).collect();
        let mut kept: Vec<Vec<Kept>> = vec![Vec::new(); classes.len()];
        threads.par_chunks_mut(&mut kept, 1, 1, |first, part| {
            for (kept, &(batch, class)) in part.iter_mut().zip(&classes[first..]) {
                let (boxes, scores) = images[batch][class];
                let chosen = self.chosen(boxes, scores).into_iter();
                *kept = chosen.map(|(index, score)| Kept { batch, class, index, score }).collect();
            }
        });
        let mut lists: Vec<Vec<Kept>> = vec![Vec::new(); images.len()];
        classes.iter().zip(kept).for_each(|((batch, _), kept)| lists[*batch].extend(kept));
        lists.iter_mut().for_each(|list| self.best(list));
        let counts = lists.iter().map(Vec::len).collect();
        let mut all = lists.concat();
        let place = |k: &Kept| (k.batch, k.class);
        match (self.order, self.across) {
            (Order::Class, true) => sort(&mut all, &|a, b| a.class.cmp(&b.class)),
            (Order::Class, false) => sort(&mut all, &|a, b| place(a).cmp(&place(b))),
            (Order::Score, true) => sort(&mut all, &|a, b| descending(a.score, b.score)),
            (Order::Score, false) | (Order::Any, _) => {}
        }
        (all, counts)
    }

    /// The boxes of a class that are chosen, with their scores.
    fn chosen(&self, boxes: &[Rect], scores: &[f32]) -> Vec<(usize, f32)> {
        match &self.choice {
            Choice::Matrix(matrix) => matrix.select(boxes, scores, self.candidates),
            Choice::Greedy { greedy, score } => {
                let order = ranked(scores, self.candidates, |s| s >= *score);
                let kept = greedy.keep(boxes, order, usize::MAX).into_iter();
                kept.map(|i| (i, scores[i])).collect()
            }
        }
    }

    /// Keeps the best of an image, by score, class and box.
    fn best(&self, all: &mut Vec<Kept>) {
        let place = |k: &Kept| (k.class, k.index);
        sort(all, &|a, b| descending(a.score, b.score).then(place(a).cmp(&place(b))));
        all.truncate(self.results);
    }
}

/// A stable sort: equal ones stay in the order of images, scores, classes, boxes.
fn sort(all: &mut [Kept], order: &dyn Fn(&Kept, &Kept) -> Ordering) {
    all.sort_by(order);
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: ByClass = ByClass {
        choice: Choice::Greedy { greedy: Greedy { overlap: 0.3, eta: 1.0, edge: 0.0 }, score: 0.2 },
        candidates: 9,
        results: 9,
        background: None,
        order: Order::Any,
        across: false,
    };

    fn run(by_class: ByClass) -> (Vec<(usize, usize, usize)>, Vec<usize>) {
        let unit = Rect::new(0.0, 0.0, 1.0, 1.0);
        let boxes = [unit, unit.map(|v| v + 5.0), unit];
        let (a, b) = ([0.5, 0.4, 0.9], [0.3, 0.8, 0.1]);
        let images = [vec![(&boxes[..], &a[..]), (&boxes[..], &b[..])], vec![(&boxes[..], &b[..])]];
        let (kept, counts) = by_class.run(&Threads::new(2), &images);
        (kept.iter().map(|k| (k.batch, k.class, k.index)).collect(), counts)
    }

    #[test]
    fn orders_and_limits() {
        let kept = vec![(0, 0, 2), (0, 1, 1), (0, 0, 1), (0, 1, 0), (1, 0, 1), (1, 0, 0)];
        assert_eq!(run(ALL), (kept, vec![4, 2]));
        let classes = ByClass { order: Order::Class, across: true, ..ALL };
        let kept = vec![(0, 0, 2), (0, 0, 1), (1, 0, 1), (1, 0, 0), (0, 1, 1), (0, 1, 0)];
        assert_eq!(run(classes), (kept, vec![4, 2]));
        let scores = ByClass { order: Order::Score, across: true, results: 2, ..ALL };
        assert_eq!(run(scores), (vec![(0, 0, 2), (0, 1, 1), (1, 0, 1), (1, 0, 0)], vec![2, 2]));
        let one = ByClass { background: Some(0), candidates: 1, ..ALL };
        assert_eq!(run(one), (vec![(0, 1, 1)], vec![1, 0]));
    }

    #[test]
    fn matrix_lowers_scores() {
        let boxes: Vec<Rect> =
            (0..3).map(|i| Rect::new(i as f32, 0.0, i as f32 + 2.0, 1.0)).collect();
        let linear = Matrix { score: 0.1, after: 0.0, sigma: None, edge: 0.0 };
        let kept = linear.select(&boxes, &[0.9, 0.6, 0.3], 9);
        let expected = [(0, 0.9), (1, 0.4), (2, 0.3)];
        for (found, expected) in kept.iter().zip(expected) {
            assert!(found.0 == expected.0 && (found.1 - expected.1).abs() < 1e-6, "{kept:?}");
        }
        let gaussian = Matrix { sigma: Some(2.0), after: 0.5, ..linear };
        assert_eq!(gaussian.select(&boxes, &[0.9, 0.6, 0.3], 9), [(0, 0.9)]);
    }
}
