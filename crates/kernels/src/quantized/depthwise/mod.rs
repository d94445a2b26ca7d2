//! Depthwise convolutions of quantized values: each channel has its own filter and zero point. With
//! VNNI, four lines are interleaved channel by channel, so that a dot product of four bytes covers
//! four taps, one below the other. Elsewhere the f32 kernel computes the same sums: quantized
//! values, filters and sums are whole numbers that f32 holds exactly.

mod layout;
#[cfg(target_arch = "x86_64")]
mod quads;
mod strip;
#[cfg(test)]
mod tests;

use super::grid::Grid;
use super::output::{Columns, To};
use super::pack::PackedFilters;
use super::requantize::{Requantizer, Values};
use super::tile::{DOT4_BYTES, MAX_EXACT_TERMS, TILE_ROWS, WIDTH};
use super::tuning::DEPTHWISE_GRAIN;
use crate::base::aligned_buf::WeightArena;
use crate::base::par::Threads;
use crate::base::workers::Workers;
use crate::conv::Convolution;
use crate::conv::depthwise::{DepthwiseInput, depthwise, pack_weights, quantized_scratch_len};
use crate::gemm::{Operand, PostOp, Window};
use crate::math::quantize::{ColumnQuantizers, Output};
use layout::LINES;
pub(super) use layout::interleaves_lines;
use std::ops::Range;
use strip::{Strip, StripSums};

/// Whether a convolution can run here: each channel has one filter, over two axes at most.
pub(super) fn suits(conv: &Convolution) -> bool {
    let [depth, height, width] = conv.axes;
    let is_depthwise = conv.is_depthwise() && conv.groups == conv.inputs;
    let is_empty = [conv.batch, conv.positions(), conv.inputs, conv.inside()].contains(&0);
    is_depthwise
        && !is_empty
        && depth == Window::NONE
        && (1..=MAX_EXACT_TERMS).contains(&conv.taps())
        && height.is_countable()
        && width.is_countable()
}

/// Blocks of a panel: four taps, one below the other, of 32 channels.
fn blocks(conv: &Convolution) -> usize {
    let [_, height, width] = conv.axes;
    height.taps.div_ceil(LINES) * width.taps
}

/// Bytes of packed filters.
pub(super) fn packed_bytes(conv: &Convolution) -> usize {
    if interleaves_lines() {
        blocks(conv) * DOT4_BYTES * conv.outputs.div_ceil(WIDTH)
    } else {
        conv.taps() * conv.outputs * size_of::<f32>()
    }
}

/// What the packed layout depends on, apart from sizes.
pub(super) fn layout() -> &'static str {
    if interleaves_lines() { "interleaved taps" } else { "taps" }
}

/// Packs filters, given by channel, then tap.
///
/// # Panics
/// When there are too few.
pub(super) fn pack_filters(
    conv: &Convolution,
    zero_points: &[u8],
    arena: &WeightArena,
    filters: &[i8],
) -> PackedFilters {
    let mut values = arena.alloc(packed_bytes(conv));
    if !interleaves_lines() {
        let wide: Vec<f32> = filters.iter().map(|weight| f32::from(*weight)).collect();
        pack_weights(conv, 1, &wide, values.elements_mut());
        let bytes = values.len();
        return PackedFilters::of_panels(values, bytes, Vec::new());
    }
    let (taps, along, bytes) = (conv.taps(), conv.axes[2].taps, blocks(conv) * DOT4_BYTES);
    let mut compensation = vec![0; conv.outputs.next_multiple_of(WIDTH)];
    let panels = filters[..conv.outputs * taps].chunks(WIDTH * taps);
    let packed = values.elements_mut::<i8>().chunks_exact_mut(bytes);
    for (i, (own, panel)) in panels.zip(packed).enumerate() {
        for (c, filter) in own.chunks_exact(taps).enumerate() {
            for (tap, weight) in filter.iter().enumerate() {
                let (y, x) = (tap / along, tap % along);
                let block = y / LINES * along + x;
                panel[block * DOT4_BYTES + c * LINES + y % LINES] = *weight;
            }
            let total: i32 = filter.iter().map(|weight| i32::from(*weight)).sum();
            compensation[i * WIDTH + c] = total * i32::from(zero_points[i * WIDTH + c]);
        }
    }
    PackedFilters::of_panels(values, bytes, compensation)
}

/// Convolves with the f32 kernel, where lines are not interleaved. Its sums are exact; they are
/// scaled before the other post-ops.
///
/// # Panics
/// When the data do not have the size of the convolution.
pub(super) fn run_exact(
    conv: &Convolution,
    workers: Workers<'_>,
    (data, zero_points): (&[u8], &[u8]),
    (filters, scales): (&PackedFilters, &[f32]),
    (post_ops, output): (&[PostOp<'_>], Output<'_>),
) {
    let low = zero_points.iter().map(|zero| -f32::from(*zero));
    // Nothing is quantized by these, so that only the scale and the lowest number count.
    let own = [0.0, 1.0, 1.0].into_iter().flat_map(|x| std::iter::repeat_n(x, conv.inputs));
    let parameters: Vec<f32> = own.chain(low).collect();
    let input = DepthwiseInput::Quantized(data, ColumnQuantizers::new(&parameters, 0.0));
    let scale = PostOp::Multiply(Operand::Columns(scales));
    let all: Vec<PostOp<'_>> = [scale].into_iter().chain(post_ops.iter().copied()).collect();
    depthwise(conv, workers, (input, filters.whole_numbers()), &all, (output, &mut []));
}

/// Bytes of scratch memory for a run on this many threads; with the f32 kernel, as many as a
/// quantized output takes.
pub(super) fn scratch_bytes(conv: &Convolution, threads: usize) -> usize {
    if interleaves_lines() {
        return line_bytes(conv);
    }
    quantized_scratch_len(conv, threads) * size_of::<f32>()
}

/// Bytes of a line of the data.
pub(super) fn line_bytes(conv: &Convolution) -> usize {
    conv.axes[2].input * conv.inputs
}

/// Fills a line of padding with the zero points of the channels.
pub(super) fn fill_padding(zero_points: &[u8], padding: &mut [u8]) {
    for position in padding.chunks_exact_mut(zero_points.len()) {
        position.copy_from_slice(zero_points);
    }
}

/// What all parts of a convolution share.
#[derive(Clone, Copy)]
pub(super) struct Depthwise<'a> {
    pub(super) conv: &'a Convolution,
    /// A line of zero points.
    pub(super) padding: &'a [u8],
    pub(super) filters: &'a PackedFilters,
    /// The scales of the sums.
    pub(super) scales: &'a [f32],
    pub(super) post_ops: &'a [PostOp<'a>],
    pub(super) output: To<'a>,
}

impl<'a> Depthwise<'a> {
    /// Convolves NHWC data.
    ///
    /// # Panics
    /// When the data do not have the size of the convolution.
    pub(super) fn run(&self, threads: &Threads, data: &[u8]) {
        let (conv, len) = (self.conv, self.padding.len());
        assert_eq!(data.len(), conv.batch * conv.inside() * conv.inputs, "the data differ");
        let (lines, panels) = (conv.batch * conv.axes[1].output, self.filters.count());
        let grid = grid(conv, lines, panels, threads.count());
        threads.run(grid.tasks(), &|task, _| {
            let mut part = self.part(grid.panels(task, panels));
            for line in grid.rows(task, lines) {
                let batch = line / conv.axes[1].output;
                part.compute(line, |y| &data[(batch * conv.axes[1].input + y) * len..][..len]);
            }
        });
    }

    /// Prepares some panels, for one thread.
    pub(super) fn part(&self, panels: Range<usize>) -> Part<'a> {
        let panels = panels.map(|panel| (panel, self.requantizer(panel))).collect();
        Part { whole: *self, panels, sums: StripSums::default(), values: Values::default() }
    }

    /// The requantizer of a panel's channels.
    fn requantizer(&self, panel: usize) -> Requantizer<'a> {
        let columns = Columns::of(self.filters, self.scales, panel);
        let rows = self.conv.batch * self.conv.positions();
        Requantizer::new(columns, self.post_ops, self.output, (rows, self.conv.outputs))
    }
}

/// How lines and panels are divided among threads. Panels are divided if there are few lines, of
/// which each part would read several.
fn grid(conv: &Convolution, lines: usize, panels: usize, threads: usize) -> Grid {
    /// Parts for each thread, which even out the speed of the threads.
    const PARTS: usize = 4;
    let work = conv.batch * conv.positions() * conv.outputs * conv.taps();
    if threads == 1 || work <= DEPTHWISE_GRAIN {
        return Grid::ONE;
    }
    let most = threads * PARTS;
    if lines >= most * conv.axes[1].taps || panels < threads {
        Grid { down: most.min(lines), across: 1 }
    } else {
        Grid { down: 1, across: panels.min(most) }
    }
}

/// Some panels of a convolution, and what a thread needs to compute them.
pub(super) struct Part<'a> {
    whole: Depthwise<'a>,
    panels: Vec<(usize, Requantizer<'a>)>,
    sums: StripSums,
    values: Values,
}

impl Part<'_> {
    /// Computes a line of the output, counted over the whole batch. `input` gives the lines of its
    /// image.
    pub(super) fn compute<'d>(&mut self, line: usize, input: impl Fn(usize) -> &'d [u8]) {
        let Depthwise { conv, padding, filters, .. } = self.whole;
        let [_, height, width] = conv.axes;
        // Filled up to whole blocks with padding, whose weights are 0.
        let of_tap = |tap: usize| -> &[u8] {
            match height.position(line % height.output, tap).filter(|_| tap < height.taps) {
                Some(y) => input(y),
                None => padding,
            }
        };
        let lines: Vec<&[u8]> = (0..height.taps.next_multiple_of(LINES)).map(of_tap).collect();
        for x in (0..width.output).step_by(TILE_ROWS) {
            let outputs = x..width.output.min(x + TILE_ROWS);
            for (panel, requantizer) in &self.panels {
                let channels = panel * WIDTH..panel * WIDTH + requantizer.width();
                let (lines, outputs) = (&lines[..], outputs.clone());
                let count = outputs.len();
                let strip = Strip { conv, lines, padding, channels, outputs };
                let row = line * width.output + x;
                if let Some(affine) = requantizer.in_registers() {
                    // SAFETY: these rows are within the output, and no other task has these columns
                    // of them.
                    unsafe { strip.requantize(filters, *panel, affine.from(row)) };
                    continue;
                }
                strip.multiply(filters, *panel, &mut self.sums);
                let sums = &self.sums.rows()[..count];
                // SAFETY: as above.
                unsafe { requantizer.write(sums, row, &mut self.values) };
            }
        }
    }
}
