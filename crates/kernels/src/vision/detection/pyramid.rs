//! Features of regions, averaged from the feature maps of a pyramid.

use super::boxes::Rect;

/// How a region is sampled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// Rows and columns of the result.
    pub side: usize,
    /// Samples of each result along an axis; 0 to derive it from the size of the region.
    pub ratio: usize,
    /// Offset of the centre of the first element from the corner of the map.
    pub offset: f32,
}

/// A feature map: rows, columns, and its scale to the image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Map<'a> {
    /// Rows and columns.
    pub area: (usize, usize),
    /// Factor from the image to the map.
    pub scale: f32,
    /// `[channels][rows][columns]`.
    pub data: &'a [f32],
}

/// The most samples along an axis; no region within an image has as many.
const MAX_SAMPLES: usize = 1 << 14;

/// The neighbours of a sample along an axis, and the weight of the second.
type Pair = (usize, usize, f32);

impl Sampling {
    /// Fills `out`, `[channels][side][side]`, with the features of a region of the image. Returns
    /// `false` if the region is too large to be sampled.
    ///
    /// # Panics
    /// When the slices do not have these sizes.
    pub fn run(&self, map: &Map<'_>, region: Rect, out: &mut [f32]) -> bool {
        let (rows, columns) = map.area;
        let region = region.map(|v| v * map.scale - self.offset);
        let Some(down) = self.axis(region.y0, region.y1, rows) else { return false };
        let Some(right) = self.axis(region.x0, region.x1, columns) else { return false };
        let (down_each, right_each) = (down.len() / self.side, right.len() / self.side);
        let count = down_each as f32 * right_each as f32;
        for (channel, out) in out.chunks_exact_mut(self.side * self.side).enumerate() {
            let data = &map.data[channel * rows * columns..][..rows * columns];
            for (i, to) in out.iter_mut().enumerate() {
                let down = &down[i / self.side * down_each..][..down_each];
                let right = &right[i % self.side * right_each..][..right_each];
                let mut sum = 0.0;
                for (y, v) in down.iter().flatten().map(|p| (p, p.2)) {
                    for (x, u) in right.iter().flatten().map(|p| (p, p.2)) {
                        let at = |row: usize, column: usize| data[row * columns + column];
                        let upper = (1.0 - u) * at(y.0, x.0) + u * at(y.0, x.1);
                        let lower = (1.0 - u) * at(y.1, x.0) + u * at(y.1, x.1);
                        sum += (1.0 - v) * upper + v * lower;
                    }
                }
                *to = sum / count;
            }
        }
        true
    }

    /// The samples of an axis of `size` elements; `None` for those off the map.
    fn axis(&self, start: f32, end: f32, size: usize) -> Option<Vec<Option<Pair>>> {
        // A region is at least one element wide.
        let bin = (end - start).max(1.0) / self.side as f32;
        let each = if self.ratio > 0 { self.ratio } else { (bin.ceil() as usize).max(1) };
        if each > MAX_SAMPLES {
            return None;
        }
        let position = |i: usize| {
            let (cell, sample) = ((i / each) as f32, (i % each) as f32);
            start + cell * bin + (sample + 0.5) * bin / each as f32
        };
        Some((0..self.side * each).map(|i| neighbours(position(i), size)).collect())
    }
}

fn neighbours(position: f32, size: usize) -> Option<Pair> {
    if !(-1.0..=size as f32).contains(&position) || size == 0 {
        return None;
    }
    let position = position.max(0.0);
    let low = position as usize;
    Some(if low + 1 < size {
        (low, low + 1, position - low as f32)
    } else {
        (size - 1, size - 1, 0.0)
    })
}

/// The pyramid level for a region, by its area; `None` if it has no area.
pub fn level(region: Rect, levels: usize) -> Option<usize> {
    let area = region.width(0.0) * region.height(0.0);
    if area.is_nan() || area <= 0.0 {
        return None;
    }
    let level = (libm::log2f(area.sqrt() / 224.0 + 1e-6) + 2.0).floor();
    // A negative level becomes 0.
    Some((level as usize).min(levels.checked_sub(1)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_averages() {
        let data: Vec<f32> = (0..16).map(|i| i as f32).collect();
        let map = Map { area: (4, 4), scale: 0.5, data: &data };
        let sampling = Sampling { side: 1, ratio: 2, offset: 0.0 };
        let mut out = [9.0];
        assert!(sampling.run(&map, Rect::new(2.0, 2.0, 6.0, 6.0), &mut out));
        // Samples at 1.5 and 2.5 along each axis.
        assert_eq!(out, [10.0]);
        assert!(sampling.run(&map, Rect::new(20.0, 2.0, 26.0, 6.0), &mut out));
        assert_eq!(out, [0.0]);
        let adaptive = Sampling { ratio: 0, offset: 0.5, ..sampling };
        assert!(adaptive.run(&map, Rect::new(2.0, 2.0, 6.0, 6.0), &mut out));
        assert_eq!(out, [7.5]);
        assert!(!adaptive.run(&map, Rect::new(0.0, 0.0, f32::INFINITY, 1.0), &mut out));
    }

    #[test]
    fn levels() {
        let square = |side: f32| Rect::new(0.0, 0.0, side, side);
        assert_eq!(
            [10.0, 112.0, 224.0, 448.0, 1e4].map(|s| level(square(s), 5)),
            [0, 1, 2, 3, 4].map(Some)
        );
        assert_eq!(level(square(0.0), 5), None);
        assert_eq!(level(square(f32::NAN), 5), None);
    }
}
