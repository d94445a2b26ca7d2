//! Filters of integers, laid out to be multiplied: panels of columns, in each four terms of a column
//! side by side.

use super::image::{Levels, Shape, channels};
use super::micro::WIDTH;
use crate::conv::Convolution;
use crate::memory::Lines;
use crate::par::Threads;

/// Filters in panels of 32 columns.
#[derive(Debug)]
pub struct Panels {
    values: Lines,
    /// Bytes of a panel.
    panel: usize,
    /// For each column what the level of 0 adds to its sums.
    shifts: Vec<i32>,
}

impl Panels {
    /// Lays out filters, given for each output channel, for each input channel, tap by tap.
    pub(super) fn new(
        conv: &Convolution,
        levels: Levels,
        threads: &Threads,
        filters: &[i8],
    ) -> Panels {
        let [_, height, width] = conv.axes;
        let (shape, taps) = (Shape::of(conv), height.taps * width.taps);
        let k = taps * conv.inputs;
        assert!(filters.len() >= conv.outputs * k, "there are too few filters");
        let run = shape.steps * shape.step;
        let panel = run * shape.runs * WIDTH;
        let mut values = Lines::zeroed(panel * conv.outputs.div_ceil(WIDTH));
        threads.chunks(values.elements_mut::<i8>(), panel, 1 << 14, |first, panels| {
            for (i, panel) in panels.chunks_exact_mut(panel).enumerate() {
                let columns = filters.chunks_exact(k).take(conv.outputs).enumerate();
                for (column, filter) in columns.skip((first + i) * WIDTH).take(WIDTH) {
                    for (at, value) in filter.iter().enumerate() {
                        let (c, tap) = (at / taps, at % taps);
                        let (y, x) = (tap / width.taps, tap % width.taps);
                        let term = y * run + x * channels(conv) + c;
                        panel[term / 4 * 4 * WIDTH + column % WIDTH * 4 + term % 4] = *value;
                    }
                }
            }
        });
        let total = |filter: &[i8]| filter.iter().map(|v| i32::from(*v)).sum::<i32>();
        let shift = |filter| total(filter) * i32::from(levels.zero());
        let mut shifts: Vec<i32> = filters.chunks_exact(k).take(conv.outputs).map(shift).collect();
        shifts.resize(conv.outputs.next_multiple_of(WIDTH), 0);
        Panels { values, panel, shifts }
    }

    /// Panels.
    pub(super) fn count(&self) -> usize {
        self.shifts.len() / WIDTH
    }

    /// Bytes of all panels.
    pub(super) fn bytes(&self) -> usize {
        self.count() * self.panel
    }

    pub(super) fn panel(&self, i: usize) -> &[i8] {
        &self.values.elements()[i * self.panel..][..self.panel]
    }

    /// What the level of 0 adds to the sums of a panel.
    pub(super) fn shifts(&self, i: usize) -> &[i32] {
        &self.shifts[i * WIDTH..][..WIDTH]
    }
}
