//! Single-shot detector output: decoding of boxes, NMS, and the best of an image.

use super::boxes::{Rect, descending, ranked};
use crate::math::real::Real;
use std::collections::BTreeMap;

/// How predictions are decoded to boxes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decoding {
    /// Whether predictions are of centre and size; else of corners.
    pub by_centre: bool,
    /// Width and height that prior boxes are divided by.
    pub image: (f32, f32),
    /// Whether boxes are clipped to the image.
    pub clip: bool,
}

impl Decoding {
    /// Decodes a prediction relative to a prior box.
    pub fn decode(&self, prior: Rect, variance: [f32; 4], by: Rect) -> Rect {
        let (width, height) = self.image;
        let prior =
            Rect::new(prior.x0 / width, prior.y0 / height, prior.x1 / width, prior.y1 / height);
        let by = Rect::new(
            variance[0] * by.x0,
            variance[1] * by.y0,
            variance[2] * by.x1,
            variance[3] * by.y1,
        );
        let decoded = if self.by_centre {
            let (w, h) = (prior.width(0.0), prior.height(0.0));
            let (x, y) = ((prior.x0 + prior.x1) / 2.0, (prior.y0 + prior.y1) / 2.0);
            Rect::centred(by.x0 * w + x, by.y0 * h + y, Real::exp(by.x1) * w, Real::exp(by.y1) * h)
        } else {
            Rect::new(prior.x0 + by.x0, prior.y0 + by.y0, prior.x1 + by.x1, prior.y1 + by.y1)
        };
        if self.clip { decoded.clipped(1.0, 1.0) } else { decoded }
    }
}

/// Selects from an image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Selection {
    /// The class that is never a result.
    pub background: Option<usize>,
    /// The most candidates of a class, or of all classes together if `one_class`.
    pub candidates: Option<usize>,
    /// The most results.
    pub results: Option<usize>,
    /// Boxes with a larger overlap are suppressed.
    pub overlap: f32,
    /// Boxes with a lower score are ignored.
    pub confidence: f32,
    /// Whether each box has only its best class other than 0.
    pub one_class: bool,
}

/// The selected priors with their boxes, by class.
pub type Chosen = BTreeMap<usize, Vec<(usize, Rect)>>;

impl Selection {
    /// Selects by the scores of an image, `[prior][class]`. `decode` is called for the prior and
    /// class of candidates only.
    pub fn select(
        &self,
        classes: usize,
        scores: &[f32],
        decode: impl Fn(usize, usize) -> Rect,
    ) -> Chosen {
        let mut kept = Chosen::new();
        for (class, prior) in self.in_turn(classes, scores) {
            let (own, others) = (decode(prior, class), kept.entry(class).or_default());
            if others.iter().all(|(_, other)| own.iou(*other, 0.0) <= self.overlap) {
                others.push((prior, own));
            }
        }
        self.best(classes, scores, kept)
    }

    /// Class and prior of the candidates, in the order of their selection.
    fn in_turn(&self, classes: usize, scores: &[f32]) -> Vec<(usize, usize)> {
        let wanted = |class: &usize| Some(*class) != self.background;
        let limit = self.candidates.unwrap_or(usize::MAX);
        if !self.one_class {
            let of_class = |class: usize| {
                let own: Vec<f32> = scores.iter().skip(class).step_by(classes).copied().collect();
                let order = ranked(&own, limit, |s| s > self.confidence);
                order.into_iter().map(move |prior| (class, prior))
            };
            return (0..classes).filter(wanted).flat_map(of_class).collect();
        }
        let greatest = |scores: &[f32]| {
            let start = (0, -1.0);
            (1..classes).filter(wanted).fold(start, |best, class| {
                if scores[class] > best.1 { (class, scores[class]) } else { best }
            })
        };
        let best: Vec<(usize, f32)> = scores.chunks_exact(classes.max(1)).map(greatest).collect();
        let own: Vec<f32> =
            best.iter().map(|(class, s)| if *class > 0 { *s } else { f32::NAN }).collect();
        let order = ranked(&own, limit, |s| s >= self.confidence);
        order.into_iter().map(|prior| (best[prior].0, prior)).collect()
    }

    /// The best of all classes; within each class by score.
    fn best(&self, classes: usize, scores: &[f32], kept: Chosen) -> Chosen {
        let count: usize = kept.values().map(Vec::len).sum();
        let Some(limit) = self.results.filter(|limit| count > *limit) else { return kept };
        let score = |class: usize, prior: usize| scores[prior * classes + class];
        let mut all = Vec::with_capacity(count);
        for (class, priors) in kept {
            all.extend(priors.into_iter().map(|prior| (class, prior)));
        }
        all.sort_unstable_by(|(a, (i, _)), (b, (j, _))| {
            descending(score(*a, *i), score(*b, *j)).then((i, a).cmp(&(j, b)))
        });
        let mut best = Chosen::new();
        for (class, prior) in all.into_iter().take(limit) {
            best.entry(class).or_default().push(prior);
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Selection = Selection {
        background: Some(0),
        candidates: None,
        results: None,
        overlap: 0.5,
        confidence: 0.2,
        one_class: false,
    };

    fn select(selection: Selection, scores: &[f32]) -> Vec<(usize, Vec<usize>)> {
        let unit = Rect::new(0.0, 0.0, 1.0, 1.0);
        let boxes = [unit, unit.map(|v| v + 5.0), unit];
        let kept = selection.select(3, scores, |prior, _| boxes[prior]);
        let priors = |kept: Vec<(usize, Rect)>| kept.into_iter().map(|(prior, _)| prior).collect();
        kept.into_iter().map(|(class, kept)| (class, priors(kept))).collect()
    }

    #[test]
    fn selection() {
        let scores = [0.9, 0.5, 0.2, 0.0, 0.4, 0.8, 0.1, 0.6, 0.7];
        assert_eq!(select(ALL, &scores), [(1, vec![2, 1]), (2, vec![1, 2])]);
        let two = Selection { results: Some(2), ..ALL };
        assert_eq!(select(two, &scores), [(2, vec![1, 2])]);
        let one = Selection { candidates: Some(1), ..ALL };
        assert_eq!(select(one, &scores), [(1, vec![2]), (2, vec![1])]);
        let single = Selection { one_class: true, ..ALL };
        assert_eq!(select(single, &scores), [(1, vec![0]), (2, vec![1, 2])]);
    }

    #[test]
    fn decoding() {
        let corner = Decoding { by_centre: false, image: (2.0, 4.0), clip: false };
        let prior = Rect::new(0.0, 0.0, 2.0, 4.0);
        let by = Rect::new(1.0, 0.0, 0.0, 2.0);
        let decoded = corner.decode(prior, [0.5; 4], by);
        assert_eq!(decoded.corners(), [0.5, 0.0, 1.0, 2.0]);
        let centre = Decoding { by_centre: true, clip: true, ..corner };
        assert_eq!(centre.decode(prior, [0.5, 1.0, 1.0, 0.0], by).corners(), [0.5, 0.0, 1.0, 1.0]);
    }
}
