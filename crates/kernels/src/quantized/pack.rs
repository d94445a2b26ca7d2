//! Packs i8 filters into panels of columns, with four elements along k of a column next to each
//! other (dot4), or as pairs of i16 on CPUs without dot4.

use super::input::{WindowLayout, padded_channels};
use super::kernel::i16::widen_panel;
use super::merged_groups::MergedGroups;
use super::params::QuantParams;
use super::tile::{WIDTH, has_dot4};
use crate::base::aligned_buf::AlignedBuf;
use crate::base::workers::Packer;

/// Filters in panels of 32 columns.
#[derive(Debug)]
pub struct PackedFilters {
    values: AlignedBuf,
    /// Bytes of a panel.
    panel: usize,
    /// Zero-point compensation of each column: what the zero point adds to its sums.
    compensation: Vec<i32>,
}

impl PackedFilters {
    /// Packs filters, given by output channel, then input channel of its group, then tap.
    pub(super) fn new(
        merged: &MergedGroups,
        params: QuantParams,
        Packer { threads, arena }: Packer<'_>,
        filters: &[i8],
    ) -> PackedFilters {
        let conv = &merged.dense;
        let [_, height, width] = conv.axes;
        let (layout, taps) = (WindowLayout::of(merged), height.taps * width.taps);
        let k = taps * merged.inputs_of_group();
        assert!(filters.len() >= merged.count * conv.outputs * k, "there are too few filters");
        let run = layout.steps * layout.step;
        let weights = run * layout.runs * WIDTH;
        let panel = weights * bytes_per_weight();
        let mut values = arena.alloc(PackedFilters::bytes_for(merged));
        // The position along k of the first channel under each tap.
        let channels = if layout.group > 0 { layout.group } else { padded_channels(conv) };
        let start = |tap: usize| tap / width.taps * run + tap % width.taps * channels;
        let starts: Vec<usize> = (0..taps).map(start).collect();
        let pack = |i: usize, panel: &mut [i8]| {
            for (column, output) in merged.columns(i).enumerate() {
                let filter = &filters[output * k..][..k];
                pack_weights(filter, (&starts, merged.first_input(output)), column, panel);
            }
        };
        if has_dot4() {
            threads.par_chunks_mut(values.elements_mut::<i8>(), panel, 1 << 14, |first, panels| {
                let panels = panels.chunks_exact_mut(panel).enumerate();
                panels.for_each(|(i, panel)| pack(first + i, panel));
            });
        } else {
            let pairs = panel / size_of::<u32>();
            threads.par_chunks_mut(
                values.elements_mut::<u32>(),
                pairs,
                1 << 12,
                |first, panels| {
                    for (i, panel) in panels.chunks_exact_mut(pairs).enumerate() {
                        let mut narrow = vec![0; weights];
                        pack(first + i, &mut narrow);
                        widen_panel(&narrow, panel);
                    }
                },
            );
        }
        let of_each = filters.chunks_exact(conv.outputs * k).take(merged.count);
        let compensation = of_each.flat_map(|own| compensation(own, k, params)).collect();
        PackedFilters { values, panel, compensation }
    }

    /// Bytes of packed filters.
    pub(super) fn bytes_for(merged: &MergedGroups) -> usize {
        let layout = WindowLayout::of(merged);
        let panel = layout.steps * layout.step * layout.runs * WIDTH * bytes_per_weight();
        panel * merged.panels() * merged.count
    }

    /// Filters that were packed in another layout, in panels of `bytes` each.
    pub(super) fn of_panels(
        values: AlignedBuf,
        bytes: usize,
        compensation: Vec<i32>,
    ) -> PackedFilters {
        PackedFilters { values, panel: bytes, compensation }
    }

    /// Number of panels.
    pub(super) fn count(&self) -> usize {
        self.compensation.len() / WIDTH
    }

    /// Weights in all panels, padded.
    pub(super) fn weights(&self) -> usize {
        self.count() * self.panel / bytes_per_weight()
    }

    /// Panel `i`, for CPUs with dot4.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn dot4(&self, i: usize) -> &[i8] {
        &self.values.elements()[i * self.panel..][..self.panel]
    }

    /// Panel `i` as pairs of i16, for CPUs without dot4.
    pub(super) fn i16_pairs(&self, i: usize) -> &[u32] {
        let pairs = self.panel / size_of::<u32>();
        &self.values.elements()[i * pairs..][..pairs]
    }

    /// Filters that were packed as whole numbers in f32.
    pub(super) fn whole_numbers(&self) -> &[f32] {
        self.values.elements()
    }

    /// The zero-point compensation of panel `i`.
    pub(super) fn compensation(&self, i: usize) -> &[i32] {
        &self.compensation[i * WIDTH..][..WIDTH]
    }
}

/// Bytes of a packed weight.
fn bytes_per_weight() -> usize {
    if has_dot4() { size_of::<i8>() } else { size_of::<i16>() }
}

/// The zero point's contribution to the sums of each column, for filters of `k` elements.
pub(super) fn compensation(filters: &[i8], k: usize, params: QuantParams) -> Vec<i32> {
    let total = |filter: &[i8]| filter.iter().map(|v| i32::from(*v)).sum::<i32>();
    let shift = |filter| total(filter) * i32::from(params.zero_point());
    let mut compensation: Vec<i32> = filters.chunks_exact(k).map(shift).collect();
    compensation.resize(compensation.len().next_multiple_of(WIDTH), 0);
    compensation
}

/// Writes a filter to its column of a panel: for each tap, its channels in groups of four, from the
/// tap's position along k on. `first` is the first channel, a multiple of four.
fn pack_weights(
    filter: &[i8],
    (starts, first): (&[usize], usize),
    column: usize,
    panel: &mut [i8],
) {
    let (taps, fours) = (starts.len(), panel.as_chunks_mut::<4>().0);
    for (tap, start) in starts.iter().enumerate() {
        let first = (start + first) / 4;
        for (i, channels) in filter.chunks(4 * taps).enumerate() {
            let four = &mut fours[(first + i) * WIDTH + column];
            for (to, from) in four.iter_mut().zip(channels[tap..].iter().step_by(taps)) {
                *to = *from;
            }
        }
    }
}
