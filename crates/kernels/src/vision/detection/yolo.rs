//! The head of a YOLO detector.

use crate::base::par::Threads;
use crate::base::scratch::InOut;
use crate::base::slices::Slices;
use crate::math::unary::{Unary, unary_f32};
use crate::nn::softmax::softmax;

/// The channels of a region: coordinates, objectness, classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Number of coordinates.
    pub coords: usize,
    /// Number of classes.
    pub classes: usize,
    /// Whether the classes are exclusive, and get a softmax.
    pub softmax: bool,
}

impl Region {
    /// Number of channels.
    pub fn channels(&self) -> usize {
        self.coords + 1 + self.classes
    }

    /// Activates whole regions of `area` positions: sigmoid of the first two coordinates, of
    /// objectness and of the classes, or softmax of the classes.
    ///
    /// # Panics
    /// When the data does not hold whole regions.
    pub fn run(&self, threads: &Threads, area: usize, data: &mut [f32]) {
        let channels = self.channels();
        if area == 0 {
            return;
        }
        assert!(data.len().is_multiple_of(channels * area));
        for region in data.chunks_exact_mut(channels * area) {
            let (coords, rest) = region.split_at_mut(self.coords * area);
            let (objectness, classes) = rest.split_at_mut(area);
            let centre = coords.len().min(2 * area);
            sigmoid(threads, &mut coords[..centre]);
            sigmoid(threads, objectness);
            if self.softmax {
                let slices = Slices::new(&[self.classes, area], &[0]);
                softmax(threads, &slices, &mut InOut::in_place(classes));
            } else {
                sigmoid(threads, classes);
            }
        }
    }
}

fn sigmoid(threads: &Threads, values: &mut [f32]) {
    unary_f32(threads, Unary::Sigmoid {}, &mut InOut::in_place(values));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_are_squashed() {
        let region = Region { coords: 3, classes: 2, softmax: true };
        let mut data = [0.0, 0.0, 9.0, 0.0, 1.0, 1.0];
        region.run(Threads::single(), 1, &mut data);
        assert_eq!(data, [0.5, 0.5, 9.0, 0.5, 0.5, 0.5]);
        let region = Region { softmax: false, ..region };
        let mut data = [0.0; 12];
        region.run(Threads::single(), 2, &mut data);
        assert_eq!(data, [0.5, 0.5, 0.5, 0.5, 0.0, 0.0, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5]);
    }
}
