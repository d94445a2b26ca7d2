//! Boxes: area, overlap, clipping, decoding and ranking.

use crate::math::real::Real;
use crate::multiversion;
use std::cmp::Ordering;

/// An axis-aligned box by two corners.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rect {
    /// Left.
    pub x0: f32,
    /// Top.
    pub y0: f32,
    /// Right.
    pub x1: f32,
    /// Bottom.
    pub y1: f32,
}

impl Rect {
    /// The box with corners (x0, y0) and (x1, y1).
    pub fn new(x0: f32, y0: f32, x1: f32, y1: f32) -> Rect {
        Rect { x0, y0, x1, y1 }
    }

    /// The box of the first four elements: left, top, right, bottom.
    ///
    /// # Panics
    /// When there are fewer.
    pub fn read(values: &[f32]) -> Rect {
        Rect::new(values[0], values[1], values[2], values[3])
    }

    /// Consecutive boxes.
    pub fn read_all(values: &[f32]) -> impl Iterator<Item = Rect> {
        values.chunks_exact(4).map(Rect::read)
    }

    /// The box with centre (x, y).
    pub fn centred(x: f32, y: f32, width: f32, height: f32) -> Rect {
        let (w, h) = (width / 2.0, height / 2.0);
        Rect::new(x - w, y - h, x + w, y + h)
    }

    /// The box between any two opposite corners.
    pub fn between(self) -> Rect {
        let (x, y) = (order(self.x0, self.x1), order(self.y0, self.y1));
        Rect::new(x.0, y.0, x.1, y.1)
    }

    /// Left, top, right, bottom.
    pub fn corners(self) -> [f32; 4] {
        [self.x0, self.y0, self.x1, self.y1]
    }

    /// Applies a function to each coordinate.
    pub fn map(self, f: impl Fn(f32) -> f32) -> Rect {
        Rect::new(f(self.x0), f(self.y0), f(self.x1), f(self.y1))
    }

    /// Width; `edge` is 1 if the last pixel belongs to the box, else 0.
    #[inline(always)]
    pub fn width(self, edge: f32) -> f32 {
        self.x1 - self.x0 + edge
    }

    /// Height, with `edge` as for [`Rect::width`].
    #[inline(always)]
    pub fn height(self, edge: f32) -> f32 {
        self.y1 - self.y0 + edge
    }

    /// Area, with `edge` as for [`Rect::width`]; 0 if the corners are swapped.
    #[inline(always)]
    pub fn area(self, edge: f32) -> f32 {
        let area = self.width(edge) * self.height(edge);
        if (self.x1 < self.x0) | (self.y1 < self.y0) { 0.0 } else { area }
    }

    /// Intersection over union, with `edge` as for [`Rect::width`]; 0 if either has no area.
    #[inline(always)]
    pub fn iou(self, other: Rect, edge: f32) -> f32 {
        let (a, b) = (self.area(edge), other.area(edge));
        // Without branches, so that many boxes are compared at a time.
        let apart = (self.x0 > other.x1)
            | (other.x0 > self.x1)
            | (self.y0 > other.y1)
            | (other.y0 > self.y1);
        let width = self.x1.min(other.x1) - self.x0.max(other.x0) + edge;
        let height = self.y1.min(other.y1) - self.y0.max(other.y0) + edge;
        let common = width.max(0.0) * height.max(0.0);
        let iou = common / (a + b - common);
        if (a <= 0.0) | (b <= 0.0) | apart { 0.0 } else { iou }
    }

    /// The same box with its last pixel inside: right and bottom are `edge` less.
    pub fn inclusive(self, edge: f32) -> Rect {
        Rect { x1: self.x1 - edge, y1: self.y1 - edge, ..self }
    }

    /// The intersection with `0..=width` and `0..=height`.
    pub fn clipped(self, width: f32, height: f32) -> Rect {
        let (x, y) = (|v: f32| v.min(width).max(0.0), |v: f32| v.min(height).max(0.0));
        Rect::new(x(self.x0), y(self.y0), x(self.x1), y(self.y1))
    }
}

fn order(a: f32, b: f32) -> (f32, f32) {
    (a.min(b), a.max(b))
}

/// Shapes that may overlap.
pub trait Overlap: Copy + Send + Sync {
    /// Many of these shapes, in a layout for comparing them with one.
    type Many: Many<Self>;

    /// Intersection over union.
    fn overlap(self, other: Self) -> f32;

    /// Its left and right end, if it overlaps nothing outside of them.
    fn span(self) -> Option<(f32, f32)> {
        None
    }
}

/// A set of shapes that are compared with one.
pub trait Many<B>: Default {
    /// Adds a shape.
    fn push(&mut self, one: B);

    /// Whether the overlap of `one` with any of them exceeds `limit`.
    fn any_over(&self, one: B, limit: f32) -> bool;
}

impl<B: Overlap> Many<B> for Vec<B> {
    fn push(&mut self, one: B) {
        self.push(one);
    }

    fn any_over(&self, one: B, limit: f32) -> bool {
        self.iter().any(|other| one.overlap(*other) > limit)
    }
}

impl Overlap for Rect {
    type Many = Rects;

    fn overlap(self, other: Rect) -> f32 {
        self.iou(other, 0.0)
    }

    fn span(self) -> Option<(f32, f32)> {
        Some((self.x0, self.x1))
    }
}

/// Boxes compared at a time.
const LANES: usize = 32;

/// Boxes in blocks: the left sides of all, then the top sides, and so on.
#[derive(Debug, Default)]
pub struct Rects {
    blocks: Vec<[[f32; LANES]; 4]>,
    count: usize,
    /// As for [`Rect::width`].
    edge: f32,
}

impl Rects {
    /// No boxes; `edge` as for [`Rect::width`].
    pub fn with_edge(edge: f32) -> Rects {
        Rects { edge, ..Rects::default() }
    }
}

impl Many<Rect> for Rects {
    fn push(&mut self, one: Rect) {
        let lane = self.count % LANES;
        if lane == 0 {
            self.blocks.push([[0.0; LANES]; 4]);
        }
        if let Some(block) = self.blocks.last_mut() {
            for (side, value) in block.iter_mut().zip(one.corners()) {
                side[lane] = value;
            }
        }
        self.count += 1;
    }

    fn any_over(&self, one: Rect, limit: f32) -> bool {
        over(one, self, limit)
    }
}

multiversion! {
    fn over(one: Rect, others: &Rects, limit: f32) -> bool {
        let mut left = others.count;
        for [x0, y0, x1, y1] in &others.blocks {
            let mut found = false;
            for i in 0..LANES {
                let other = Rect { x0: x0[i], y0: y0[i], x1: x1[i], y1: y1[i] };
                found |= (one.iou(other, others.edge) > limit) & (i < left);
            }
            if found {
                return true;
            }
            left = left.saturating_sub(LANES);
        }
        false
    }
}

/// A predicted transform of a box.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Move {
    /// Shift of the centre, in widths and heights.
    pub shift: (f32, f32),
    /// Logarithms of the factors of width and height.
    pub log: (f32, f32),
}

impl Move {
    /// The box predicted from `rect`, with `edge` as for [`Rect::width`]. The corners are half a
    /// width and half a height from the centre.
    pub fn apply(self, rect: Rect, edge: f32) -> Rect {
        let (w, h) = (rect.width(edge), rect.height(edge));
        let (x, y) = (rect.x0 + 0.5 * w, rect.y0 + 0.5 * h);
        let (x, y) = (self.shift.0 * w + x, self.shift.1 * h + y);
        Rect::centred(x, y, Real::exp(self.log.0) * w, Real::exp(self.log.1) * h)
    }

    /// The same with logarithms of at most `limit`.
    pub fn limited(self, limit: f32) -> Move {
        Move { log: (self.log.0.min(limit), self.log.1.min(limit)), ..self }
    }
}

/// Orders scores from high to low.
pub fn descending(a: f32, b: f32) -> Ordering {
    b.partial_cmp(&a).unwrap_or(Ordering::Equal)
}

/// The positions of the wanted scores, from high to low; equal ones by position. The first `limit`
/// of them. NaN is never wanted.
pub fn ranked(scores: &[f32], limit: usize, wanted: impl Fn(f32) -> bool) -> Vec<usize> {
    let mut order: Vec<usize> =
        (0..scores.len()).filter(|i| !scores[*i].is_nan() && wanted(scores[*i])).collect();
    let by_score = |a: &usize, b: &usize| descending(scores[*a], scores[*b]).then(a.cmp(b));
    if limit < order.len() {
        order.select_nth_unstable_by(limit, by_score);
        order.truncate(limit);
    }
    order.sort_unstable_by(by_score);
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks() {
        let scores = [0.5, f32::NAN, 0.9, 0.5, 0.1, 0.9, 0.7];
        let of = |limit| ranked(&scores, limit, |s| s > 0.2);
        assert_eq!(of(usize::MAX), [2, 5, 6, 0, 3]);
        assert_eq!((of(1), of(4), of(0)), (vec![2], vec![2, 5, 6, 0], vec![]));
    }

    #[test]
    fn overlap() {
        let a = Rect::new(0.0, 0.0, 2.0, 2.0);
        assert_eq!(a.iou(a, 0.0), 1.0);
        assert_eq!(a.iou(Rect::new(1.0, 0.0, 3.0, 2.0), 0.0), 1.0 / 3.0);
        assert_eq!(a.iou(Rect::new(2.0, 0.0, 4.0, 2.0), 0.0), 0.0);
        assert_eq!(a.iou(Rect::new(2.0, 0.0, 4.0, 2.0), 1.0), 0.2);
        assert_eq!(a.iou(Rect::new(2.5, 0.0, 4.0, 2.0), 1.0), 0.0);
        assert_eq!(a.iou(Rect::new(1.0, 1.0, 1.0, 1.0), 0.0), 0.0);
        assert_eq!(a.iou(Rect::new(2.0, 2.0, 0.0, 0.0), 0.0), 0.0);
        assert_eq!(a.iou(Rect::new(2.0, 2.0, 0.0, 0.0).between(), 0.0), 1.0);
        assert_eq!(Rect::centred(1.0, 1.0, 2.0, 2.0), a);
        assert_eq!(Rect::new(-1.0, 1.0, 9.0, 9.0).clipped(4.0, 3.0).corners(), [0., 1., 4., 3.]);
    }

    #[test]
    fn moves() {
        let by = Move { shift: (1.0, 0.0), log: (0.0, 9.0) }.limited(0.0);
        let moved = by.apply(Rect::new(0.0, 0.0, 1.0, 3.0), 1.0);
        assert_eq!(moved.inclusive(1.0).corners(), [2.0, 0.0, 3.0, 3.0]);
    }
}
