//! Filters of integers, laid out to be multiplied: panels of columns, in each four terms of a column
//! side by side.

use super::input::{QuantParams, Shape, channels};
use super::kernel::WIDTH;
use super::winograd;
use crate::base::aligned_buf::{AlignedBuf, WeightArena};
use crate::base::par::Threads;
use crate::conv::Convolution;
use crate::conv::winograd::TAPS;

/// Filters in panels of 32 columns.
#[derive(Debug)]
pub struct PackedFilters {
    values: AlignedBuf,
    /// Bytes of a panel.
    panel: usize,
    /// For each column what the level of 0 adds to its sums.
    compensation: Vec<i32>,
}

impl PackedFilters {
    /// Lays out filters, given for each output channel, for each input channel, tap by tap.
    pub(super) fn new(
        conv: &Convolution,
        levels: QuantParams,
        (threads, arena): (&Threads, &WeightArena),
        filters: &[i8],
    ) -> PackedFilters {
        let [_, height, width] = conv.axes;
        let (shape, taps) = (Shape::of(conv), height.taps * width.taps);
        let k = taps * conv.inputs;
        assert!(filters.len() >= conv.outputs * k, "there are too few filters");
        let run = shape.steps * shape.step;
        let panel = run * shape.runs * WIDTH;
        let mut values = arena.alloc(panel * conv.outputs.div_ceil(WIDTH));
        // Where the channels under each tap begin, in terms.
        let start = |tap: usize| tap / width.taps * run + tap % width.taps * channels(conv);
        let starts: Vec<usize> = (0..taps).map(start).collect();
        threads.par_chunks_mut(values.elements_mut::<i8>(), panel, 1 << 14, |first, panels| {
            for (i, panel) in panels.chunks_exact_mut(panel).enumerate() {
                let own = filters.chunks_exact(k).take(conv.outputs).skip((first + i) * WIDTH);
                for (column, filter) in own.take(WIDTH).enumerate() {
                    pack_weights(filter, &starts, column, panel);
                }
            }
        });
        PackedFilters { values, panel, compensation: compensation(conv, levels, filters) }
    }

    /// The same for [`winograd::pays`].
    pub(super) fn of_winograd(
        conv: &Convolution,
        levels: QuantParams,
        (threads, arena): (&Threads, &WeightArena),
        filters: &[i8],
    ) -> PackedFilters {
        let (k, panel) = (TAPS * conv.inputs, winograd::panel_pairs(conv));
        assert!(filters.len() >= conv.outputs * k, "there are too few filters");
        let filters = &filters[..conv.outputs * k];
        let bytes = panel * size_of::<u32>();
        let mut values = arena.alloc(bytes * conv.outputs.div_ceil(WIDTH));
        threads.par_chunks_mut(values.elements_mut::<u32>(), panel, 1 << 12, |first, panels| {
            let own = filters.chunks(WIDTH * k).skip(first);
            for (panel, filters) in panels.chunks_exact_mut(panel).zip(own) {
                winograd::pack_weights(conv, filters, panel);
            }
        });
        PackedFilters { values, panel: bytes, compensation: compensation(conv, levels, filters) }
    }

    /// Number of panels.
    pub(super) fn count(&self) -> usize {
        self.compensation.len() / WIDTH
    }

    /// Bytes of all panels.
    pub(super) fn bytes(&self) -> usize {
        self.count() * self.panel
    }

    pub(super) fn panel(&self, i: usize) -> &[i8] {
        &self.values.elements()[i * self.panel..][..self.panel]
    }

    /// The pairs of words of a panel of [`PackedFilters::of_winograd`].
    pub(super) fn words(&self, i: usize) -> &[u32] {
        let pairs = self.panel / size_of::<u32>();
        &self.values.elements()[i * pairs..][..pairs]
    }

    /// What the level of 0 adds to the sums of a panel.
    pub(super) fn compensation(&self, i: usize) -> &[i32] {
        &self.compensation[i * WIDTH..][..WIDTH]
    }
}

/// What the level of 0 adds to the sums of each column.
fn compensation(conv: &Convolution, levels: QuantParams, filters: &[i8]) -> Vec<i32> {
    let k = conv.taps() * conv.inputs;
    let total = |filter: &[i8]| filter.iter().map(|v| i32::from(*v)).sum::<i32>();
    let shift = |filter| total(filter) * i32::from(levels.zero());
    let mut compensation: Vec<i32> =
        filters.chunks_exact(k).take(conv.outputs).map(shift).collect();
    compensation.resize(conv.outputs.next_multiple_of(WIDTH), 0);
    compensation
}

/// Writes a filter to its column of a panel: the channels under each tap from its start on, in fours.
fn pack_weights(filter: &[i8], starts: &[usize], column: usize, panel: &mut [i8]) {
    let (taps, fours) = (starts.len(), panel.as_chunks_mut::<4>().0);
    for (tap, start) in starts.iter().enumerate() {
        let first = start / 4;
        for (i, channels) in filter.chunks(4 * taps).enumerate() {
            let four = &mut fours[(first + i) * WIDTH + column];
            for (to, from) in four.iter_mut().zip(channels[tap..].iter().step_by(taps)) {
                *to = *from;
            }
        }
    }
}
