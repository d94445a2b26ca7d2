//! Greedy suppression: in the given order, a box is kept unless an earlier one overlaps it too
//! much.

use super::boxes::{Many as _, Rect, Rects, ranked};

/// The threshold of suppression.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Greedy {
    /// Boxes with a larger overlap are suppressed.
    pub overlap: f32,
    /// If below 1, each kept box multiplies a threshold above 0.5 by this factor.
    pub eta: f32,
    /// 1 if the last pixel belongs to the box, else 0.
    pub edge: f32,
}

impl Greedy {
    /// A fixed threshold.
    pub fn fixed(overlap: f32, edge: f32) -> Greedy {
        Greedy { overlap, eta: 1.0, edge }
    }

    /// The positions that are kept, in order, at most `limit`.
    ///
    /// # Panics
    /// When a position is not that of a box.
    pub fn keep(
        &self,
        boxes: &[Rect],
        order: impl IntoIterator<Item = usize>,
        limit: usize,
    ) -> Vec<usize> {
        if self.eta < 1.0 {
            return self.keep_adaptive(boxes, order, limit);
        }
        let mut kept = Rects::with_edge(self.edge);
        let is_kept = |i: &usize| {
            let stays = !kept.any_over(boxes[*i], self.overlap);
            if stays {
                kept.push(boxes[*i]);
            }
            stays
        };
        order.into_iter().filter(is_kept).take(limit).collect()
    }

    /// The same with a threshold that changes.
    fn keep_adaptive(
        &self,
        boxes: &[Rect],
        order: impl IntoIterator<Item = usize>,
        limit: usize,
    ) -> Vec<usize> {
        // Each kept box suppresses with the threshold after it was kept.
        let mut kept: Vec<(usize, f32)> = Vec::new();
        let mut threshold = self.overlap;
        for i in order {
            if kept.len() >= limit {
                break;
            }
            let over = |&(k, limit): &(usize, f32)| boxes[i].iou(boxes[k], self.edge) > limit;
            if kept.iter().any(over) {
                continue;
            }
            if threshold > 0.5 {
                threshold *= self.eta;
            }
            kept.push((i, threshold));
        }
        kept.into_iter().map(|(i, _)| i).collect()
    }
}

/// Selects from the proposals of an image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Proposals {
    /// The most proposals that are considered, best first.
    pub before: usize,
    /// The most proposals that are kept.
    pub after: usize,
    /// The threshold of suppression.
    pub greedy: Greedy,
    /// The least width and height.
    pub least: (f32, f32),
    /// 1 if the last pixel belongs to the box when its size is measured, else 0.
    pub edge: f32,
    /// Whether boxes that are too small are removed before `before` is applied.
    pub small_first: bool,
}

impl Proposals {
    /// The positions that are kept, best first.
    ///
    /// # Panics
    /// When there are fewer boxes than scores.
    pub fn choose(&self, boxes: &[Rect], scores: &[f32]) -> Vec<usize> {
        let size = |i: usize| (boxes[i].width(self.edge), boxes[i].height(self.edge));
        let large = |i: &usize| size(*i).0 >= self.least.0 && size(*i).1 >= self.least.1;
        let limit = if self.small_first { usize::MAX } else { self.before };
        let order = ranked(scores, limit, |_| true).into_iter();
        self.greedy.keep(boxes, order.filter(large).take(self.before), self.after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row of boxes, each of which overlaps its neighbours by a third.
    fn row(count: usize) -> Vec<Rect> {
        (0..count).map(|i| Rect::new(i as f32, 0.0, i as f32 + 2.0, 2.0)).collect()
    }

    #[test]
    fn order_and_threshold_decide() {
        let boxes = row(5);
        let keep =
            |overlap, limit| Greedy::fixed(overlap, 0.0).keep(&boxes, [1, 0, 2, 3, 4], limit);
        assert_eq!(keep(0.3, 9), [1, 3]);
        assert_eq!(keep(0.4, 3), [1, 0, 2]);
        let adaptive = Greedy { overlap: 0.6, eta: 0.5, edge: 0.0 };
        assert_eq!(adaptive.keep(&boxes, 0..5, 9), [0, 2, 4]);
    }

    #[test]
    fn small_boxes_are_left_out() {
        let mut boxes = row(4);
        boxes[0].x1 = 0.5;
        let all = Proposals {
            before: 2,
            after: 9,
            greedy: Greedy::fixed(0.9, 0.0),
            least: (1.0, 1.0),
            edge: 0.0,
            small_first: true,
        };
        let scores = [0.9, 0.5, 0.8, 0.7];
        assert_eq!(all.choose(&boxes, &scores), [2, 3]);
        assert_eq!(Proposals { small_first: false, ..all }.choose(&boxes, &scores), [2]);
    }
}
