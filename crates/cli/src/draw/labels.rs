//! Where the labels of edges stand: beside their edge, on no box and on no other label.

use super::arrange::text_width;
use super::layout::Point;
use std::collections::HashMap;
use std::ops::RangeInclusive;

/// An upright rectangle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area {
    /// Its left edge.
    pub x: f64,
    /// Its upper edge.
    pub y: f64,
    /// Its width.
    pub width: f64,
    /// Its height.
    pub height: f64,
}

impl Area {
    fn meets(&self, other: &Area) -> bool {
        self.x < other.x + other.width
            && other.x < self.x + self.width
            && self.y < other.y + other.height
            && other.y < self.y + self.height
    }

    fn strips(&self) -> RangeInclusive<i64> {
        let strip = |y: f64| (y / STRIP).floor() as i64;
        strip(self.y)..=strip(self.y + self.height)
    }

    fn is_within(&self, (width, height): (f64, f64)) -> bool {
        self.x >= 0.0
            && self.y >= 0.0
            && self.x + self.width <= width
            && self.y + self.height <= height
    }
}

/// Height of a label, from above its letters to below its brackets.
const HEIGHT: f64 = 13.0;

/// From the edge to its label.
const GAP: f64 = 4.0;

/// How far along a part of an edge a label may stand: in the middle, or elsewhere.
const ALONG: [f64; 5] = [0.5, 0.35, 0.65, 0.2, 0.8];

/// Height of the strips by which areas are found.
const STRIP: f64 = 40.0;

/// Finds a place for each label in turn.
pub(super) struct Labels {
    /// Width and height of the picture.
    size: (f64, f64),
    /// What is taken, in each strip that it reaches into.
    taken: HashMap<i64, Vec<Area>>,
}

impl Labels {
    /// In a picture with boxes.
    pub(super) fn new(size: (f64, f64), boxes: impl IntoIterator<Item = Area>) -> Labels {
        let mut labels = Labels { size, taken: HashMap::new() };
        boxes.into_iter().for_each(|area| labels.take(area));
        labels
    }

    fn take(&mut self, area: Area) {
        area.strips().for_each(|strip| self.taken.entry(strip).or_default().push(area));
    }

    fn is_free(&self, area: &Area) -> bool {
        let mut taken = area.strips().filter_map(|strip| self.taken.get(&strip)).flatten();
        area.is_within(self.size) && !taken.any(|taken| taken.meets(area))
    }

    /// Where the text of a label begins, on its base line: near the end of the edge, else nearer to
    /// its start; nothing if no place is free.
    pub(super) fn place(&mut self, edge: &[Point], text: &str) -> Option<Point> {
        let width = text_width(text) * 0.95;
        let parts = edge.windows(2).rev();
        let points = parts.flat_map(|part| ALONG.map(|along| between(part, along)));
        let sides = points.flat_map(|p| [p.x + GAP, p.x - GAP - width].map(|x| (x, p.y)));
        let areas = sides.map(|(x, y)| Area { x, y: y - HEIGHT / 2.0, width, height: HEIGHT });
        let found = areas.into_iter().find(|area| self.is_free(area))?;
        self.take(found);
        Some(Point { x: found.x, y: found.y + HEIGHT - 3.0 })
    }
}

/// A point of the curve from one point down to the next.
fn between(part: &[Point], along: f64) -> Point {
    let (from, to) = (part[0], part[1]);
    // The curve leaves both ends downwards: a cubic with its control points at half the height.
    let across = along * along * (3.0 - 2.0 * along);
    let down = 1.5 * along * (1.0 - along) + along.powi(3);
    Point { x: from.x + (to.x - from.x) * across, y: from.y + (to.y - from.y) * down }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(x: f64) -> [Point; 2] {
        [Point { x, y: 0.0 }, Point { x, y: 60.0 }]
    }

    #[test]
    fn labels_meet_nothing() {
        let aside = Area { x: 0.0, y: 20.0, width: 90.0, height: 20.0 };
        let mut labels = Labels::new((200.0, 60.0), vec![aside]);
        let text = "f32[1,16]";
        let first = labels.place(&edge(100.0), text).unwrap();
        assert!(first.x > 100.0 && (first.y - 33.5).abs() < 1.0, "{first:?}");
        // The same edge again: above or below.
        let second = labels.place(&edge(100.0), text).unwrap();
        assert!((second.y - first.y).abs() >= HEIGHT || second.x < 100.0, "{second:?}");
        // At the right border a label stands on the left.
        let third = labels.place(&edge(195.0), text);
        assert!(third.is_none_or(|p| p.x < 195.0), "{third:?}");
        assert!(labels.place(&edge(100.0), &"x".repeat(100)).is_none());
    }

    #[test]
    fn curves_go_through_their_middle() {
        let part = [Point { x: 0.0, y: 0.0 }, Point { x: 10.0, y: 40.0 }];
        let middle = between(&part, 0.5);
        assert_eq!((middle.x, middle.y), (5.0, 20.0));
        assert_eq!(between(&part, 1.0).y, 40.0);
    }
}
