//! AMX tiles straight from the windows of a convolution: the input lines are converted to bf16
//! once, with padding, and each row of a tile is read where its window begins.

use crate::base::amx::{TILE_ROW_BYTES, TILE_ROWS};
use crate::gemm::amx::config::{LANES, Scratchpad, TileBlock, TilePair};
use crate::gemm::amx::pack_a::{Elements, store_line};
use crate::gemm::im2col::{Im2col, PaddedLine, Window};
use crate::gemm::tiling::Span;

/// From this many outputs per tile on, windows are read in place; with fewer, packing each window
/// is faster.
const FULL: usize = 12;

/// Limit of the input lines under one line of outputs, in bytes: a model may ask for any padding.
const MAX_LINE_BYTES: usize = 2 << 20;

/// The input lines under some windows, in bf16 and with their padding.
pub(crate) struct Bf16Lines<'a> {
    windows: &'a Im2col<'a>,
    /// Elements that each counted channel stands for: 2 if the input is pairs of bf16.
    per_count: usize,
    rows: Span,
    scratchpad: Scratchpad,
    /// The first input line, counted over the whole batch with padding.
    first: usize,
}

/// Whether this path applies: a 2D kernel of several taps, without dilation, with strides of at
/// most its size; taps of a line contiguous, in runs of equal steps along k, each an even number of
/// bf16; output lines that fill tiles; at most [`MAX_LINE_BYTES`] of input lines. `per_count` is
/// the elements that each counted channel stands for.
pub(crate) fn suits(windows: &Im2col<'_>, per_count: usize) -> bool {
    let [depth, height, width] = windows.axes;
    let is_flat = depth.taps == 1 && depth.input == 1 && depth.output == 1 && depth.start == 0;
    let has_many = width.taps * height.taps > 1;
    let meets = |axis: Window| axis.stride <= axis.taps && axis.dilation == 1;
    let fills = width.output >= FULL * width.output.div_ceil(TILE_ROWS);
    let channels = windows.channels.len() * per_count;
    let run = width.taps * channels;
    let is_even = run > 0 && run.is_multiple_of(2 * run.div_ceil(LANES));
    // Pairs must begin where positions do.
    let is_whole = channels.is_multiple_of(2) && windows.is_dense();
    if !(is_flat && has_many && meets(height) && meets(width) && fills && is_even && is_whole) {
        return false;
    }
    lines(windows, channels).saturating_mul(height.taps * TILE_ROW_BYTES) <= MAX_LINE_BYTES
}

/// Cache lines that one input line takes in the scratchpad.
fn lines(windows: &Im2col<'_>, channels: usize) -> usize {
    let [_, _, width] = windows.axes;
    width.reach().saturating_mul(channels).div_ceil(LANES)
}

/// The first input line under output line `outputs`, both counted over the whole batch.
fn first_line(windows: &Im2col<'_>, outputs: usize) -> usize {
    let [_, height, _] = windows.axes;
    let (batch, y) = (outputs / height.output, outputs % height.output);
    batch * height.reach() + y * height.stride
}

impl<'a> Bf16Lines<'a> {
    /// Converts the lines for a range of outputs.
    pub(crate) fn new((windows, per_count): (&'a Im2col<'a>, usize), rows: Span) -> Bf16Lines<'a> {
        let [_, height, width] = windows.axes;
        let first = first_line(windows, rows.start / width.output);
        let count = first_line(windows, (rows.end - 1) / width.output) + height.taps - first;
        let scratchpad =
            Scratchpad::new(count * lines(windows, windows.channels.len() * per_count));
        let mut image = Bf16Lines { windows, per_count, rows, scratchpad, first };
        for line in 0..count {
            image.convert(line);
        }
        image
    }

    /// Channels of a position, and cache lines of an input line.
    fn size(&self) -> (usize, usize) {
        let channels = self.windows.channels.len() * self.per_count;
        (channels, lines(self.windows, channels))
    }

    /// Converts a line, counted from the first.
    fn convert(&mut self, line: usize) {
        let [_, height, width] = self.windows.axes;
        let ((channels, lines), strides) = (self.size(), self.windows.strides);
        let (batch, y) =
            ((self.first + line) / height.reach(), (self.first + line) % height.reach());
        let y = height.input_at(y);
        let PaddedLine { before, skipped, count } = width.line();
        let within = if y.is_some() { count } else { 0 };
        let at = (y.unwrap_or(0) * width.input + skipped) * strides.position;
        let from = batch * strides.image + self.windows.channels.start + at;
        let from = &self.windows.input[from.min(self.windows.input.len())..];
        assert!(from.len() >= within * self.windows.channels.len(), "A is too short");
        let after = before + within;
        let to = self.scratchpad.lines_mut(line * lines)[..lines * LANES].as_mut_ptr();
        let from = Elements::new(from.as_ptr(), self.per_count);
        // SAFETY: the input has what is read, and the scratchpad the positions of the line; `isa`
        // says that there are tiles, and so AVX512-BF16.
        unsafe {
            store_line((Elements::Zeros, before * channels), to, 1, 0);
            store_line((from, within * channels), to, 1, before * channels);
            let rest = lines * LANES - after * channels;
            store_line((Elements::Zeros, rest), to, 1, after * channels);
        }
    }

    /// The blocks, each of one or two tiles of a line's outputs, in the order of the outputs.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = TileBlock> {
        let mut row = self.rows.start;
        std::iter::from_fn(move || {
            let first = self.part(row)?;
            let second = self.part(row + first).unwrap_or(0);
            let rows = TilePair { first, second };
            let block = self.block(row, rows);
            row += rows.count();
            Some(block)
        })
    }

    /// Rows of the tile that begins at a row: lines are divided into tiles of nearly equal size.
    fn part(&self, row: usize) -> Option<usize> {
        let [_, _, width] = self.windows.axes;
        let (parts, x) = (width.output.div_ceil(TILE_ROWS), row % width.output);
        let mut ends = (1..=parts).map(|i| width.output * i / parts);
        let len = ends.find(|end| *end > x)? - x;
        (row < self.rows.end).then(|| len.min(self.rows.end - row))
    }

    fn block(&self, row: usize, rows: TilePair) -> TileBlock {
        let [_, height, width] = self.windows.axes;
        let (channels, lines) = self.size();
        let position = channels * size_of::<u16>();
        let run = width.taps * channels;
        let steps = run.div_ceil(LANES);
        let source = |row: usize| {
            let line = first_line(self.windows, row / width.output) - self.first;
            let first: *const u8 = self.scratchpad.lines(line * lines).as_ptr().cast();
            first.wrapping_add(row % width.output * width.stride * position)
        };
        let second = if rows.second > 0 { source(row + rows.first) } else { source(row) };
        TileBlock {
            row,
            rows,
            bytes: run / steps * size_of::<u16>(),
            sources: [source(row), second],
            row_bytes: width.stride * position,
            step_bytes: run / steps * size_of::<u16>(),
            run_steps: steps,
            run_bytes: lines * TILE_ROW_BYTES,
            runs: height.taps,
        }
    }
}
