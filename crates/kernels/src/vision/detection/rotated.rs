//! Rotated boxes.

use super::boxes::Overlap;

/// A box with a rotation angle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rotated {
    corners: [(f64, f64); 4],
    area: f32,
}

impl Rotated {
    /// The box of five elements, `[x, y, width, height, angle]`: the centre, the size, and the
    /// angle in radians from the x axis to the y axis.
    ///
    /// # Panics
    /// When there are fewer elements.
    pub fn new(values: &[f32]) -> Rotated {
        let [x, y, w, h, angle] = [0, 1, 2, 3, 4].map(|i| f64::from(values[i]));
        let (sin, cos) = (libm::sin(angle), libm::cos(angle));
        let corner = |(i, j): (f64, f64)| {
            let (u, v) = (i * w / 2.0, j * h / 2.0);
            (x + u * cos - v * sin, y + u * sin + v * cos)
        };
        let corners = [(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)].map(corner);
        Rotated { corners, area: values[2] * values[3] }
    }

    /// The area of the intersection.
    fn intersection(self, other: Rotated) -> f64 {
        let mut polygon = self.corners.to_vec();
        for i in 0..4 {
            polygon = clip(&polygon, other.corners[i], other.corners[(i + 1) % 4]);
        }
        let next = polygon.iter().cycle().skip(1);
        let twice: f64 = polygon.iter().zip(next).map(|(a, b)| a.0 * b.1 - a.1 * b.0).sum();
        twice.abs() / 2.0
    }
}

impl Overlap for Rotated {
    type Many = Vec<Rotated>;

    fn overlap(self, other: Rotated) -> f32 {
        if self.area <= 0.0 || other.area <= 0.0 {
            return 0.0;
        }
        let common = self.intersection(other) as f32;
        common / (self.area + other.area - common)
    }
}

/// The part of a polygon on the inner side of the line through two points.
fn clip(polygon: &[(f64, f64)], from: (f64, f64), to: (f64, f64)) -> Vec<(f64, f64)> {
    let side = |p: (f64, f64)| (to.0 - from.0) * (p.1 - from.1) - (to.1 - from.1) * (p.0 - from.0);
    let mut inside = Vec::with_capacity(polygon.len() + 1);
    let next = polygon.iter().cycle().skip(1);
    for (a, b) in polygon.iter().zip(next) {
        let (sa, sb) = (side(*a), side(*b));
        if sa >= 0.0 {
            inside.push(*a);
        }
        if (sa >= 0.0) != (sb >= 0.0) {
            let t = sa / (sa - sb);
            inside.push((a.0 + t * (b.0 - a.0), a.1 + t * (b.1 - a.1)));
        }
    }
    inside
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::f32::consts::FRAC_PI_4;

    #[test]
    fn overlap() {
        let unit = Rotated::new(&[0.0, 0.0, 2.0, 2.0, 0.0]);
        let close = |other: [f32; 5], expected: f32| {
            let found = unit.overlap(Rotated::new(&other));
            assert!((found - expected).abs() < 1e-6, "{other:?}: {found}");
        };
        close([0.0, 0.0, 2.0, 2.0, 0.0], 1.0);
        close([1.0, 0.0, 2.0, 2.0, 0.0], 1.0 / 3.0);
        close([9.0, 0.0, 2.0, 2.0, 0.3], 0.0);
        close([0.0, 0.0, 2.0, 2.0, 2.0 * FRAC_PI_4], 1.0);
        // The corners that stick out are triangles of height √2 - 1.
        let out = 4.0 * (2f32.sqrt() - 1.0).powi(2);
        close([0.0, 0.0, 2.0, 2.0, FRAC_PI_4], (4.0 - out) / (4.0 + out));
        close([0.0, 0.0, 0.0, 2.0, 0.0], 0.0);
        // Rotated from x to y, the long box reaches the corner at (1, 1).
        let long = Rotated::new(&[0.0, 0.0, 4.0, 0.1, FRAC_PI_4]);
        let corner = Rotated::new(&[1.0, 1.0, 0.2, 0.2, 0.0]);
        assert!(long.overlap(corner) > 0.0);
    }
}
