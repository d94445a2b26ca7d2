//! The input of a quantized convolution: u8 lines with padding, in which every window is a few runs
//! of bytes.

use super::merged_groups::MergedGroups;
use super::params::QuantParams;
use super::tile::{BLOCK_ROWS, Block, OutputRun, TILE_ROWS, Tile, cost_in_rows};
use crate::base::aligned_buf::LINE_BYTES;
use crate::base::par::{Slice, Threads};
use crate::conv::{Convolution, Input};
use crate::gemm::PaddedLine;
use crate::math::quantize::{Quantizer, quantize};
use crate::multiversion;
use crate::quantized::tuning::{INPUT_GRAIN, INPUT_PIECES};
use std::ops::Range;

/// The data of a quantized convolution.
#[derive(Clone, Copy, Debug)]
pub enum Data<'a> {
    /// f32 values in NHWC, and their quantizer.
    F32(Input<'a>, Quantizer),
    /// f32 values in NCHW, and a quantizer for each channel.
    Planes(&'a [f32], &'a [Quantizer]),
    /// Quantized values in NHWC.
    Quantized(&'a [u8]),
}

/// Limit of the image, in bytes per element of the data: a model may have any padding.
const MAX_BYTES_PER_ELEMENT: usize = 16;

/// Bytes past the last position of a line that the last step along k may read.
const SLACK: usize = 64;

/// Elements that are widened at a time, at least.
const WIDENED: usize = 1 << 10;

/// Alignment of the lines, in bytes.
const ALIGN: usize = LINE_BYTES;

/// Channels, padded to a multiple of four.
pub(super) fn padded_channels(conv: &Convolution) -> usize {
    conv.inputs.next_multiple_of(4)
}

/// Whether output lines are joined into one run of rows, with garbage rows in the gaps between
/// lines. Pays for short lines, which fill tiles or vectors of rows badly.
fn is_joined(conv: &Convolution) -> bool {
    let [_, height, width] = conv.axes;
    let all = (height.output - 1) * width.reach() + width.output;
    let by_lines = height.output * cost_in_rows(width.output);
    width.stride == 1 && height.stride == 1 && cost_in_rows(all) < by_lines
}

/// Bytes of an image line.
fn line_bytes(conv: &Convolution) -> usize {
    let line = conv.axes[2].reach() * padded_channels(conv);
    if is_joined(conv) { line } else { (line + SLACK).next_multiple_of(ALIGN) }
}

/// Bytes of the images of all merged groups.
pub(super) fn bytes_of(merged: &MergedGroups) -> usize {
    merged.count * bytes(&merged.dense)
}

/// Bytes of the image of a convolution.
pub(super) fn bytes(conv: &Convolution) -> usize {
    conv.batch * conv.axes[1].reach() * line_bytes(conv) + SLACK
}

/// Whether the images are not far larger than the data.
pub(super) fn fits(merged: &MergedGroups) -> bool {
    let MergedGroups { dense: conv, count, .. } = merged;
    let [_, height, width] = conv.axes;
    let data = conv.axes.iter().map(|a| a.input).product::<usize>() * conv.inputs * count;
    let size = || {
        let line = width.reach().checked_mul(padded_channels(conv))?.checked_add(SLACK + ALIGN)?;
        line.checked_mul(height.reach())?.checked_mul(*count)
    };
    size().is_some_and(|size| {
        size <= data.saturating_mul(MAX_BYTES_PER_ELEMENT).saturating_add(1 << 16)
    })
}

/// Strides of windows in the image, in elements: bytes, or their i16.
#[derive(Clone, Copy, Debug)]
pub(super) struct WindowLayout {
    /// From one window to the next.
    pub(super) row: usize,
    /// Elements of a step along k; a multiple of four.
    pub(super) step: usize,
    /// Steps of a run. A run covers the taps of one line.
    pub(super) steps: usize,
    /// From one step to the next.
    pub(super) step_stride: usize,
    /// From one run to the next.
    pub(super) run: usize,
    /// Runs of a window.
    pub(super) runs: usize,
    /// The channels of a group whose bytes are permuted to the lanes of its outputs. Then a step
    /// covers a tap, and only the channels of a group count along k. 0 without such groups.
    pub(super) group: usize,
}

impl WindowLayout {
    /// Elements along k, padded.
    pub(super) fn k(self) -> usize {
        self.runs * self.steps * self.step
    }

    /// Windows of `runs` runs, each of `steps` steps that follow each other.
    pub(super) fn dense(
        row: usize,
        (step, steps): (usize, usize),
        (run, runs): (usize, usize),
    ) -> WindowLayout {
        WindowLayout { row, step, steps, step_stride: step, run, runs, group: 0 }
    }

    /// The layout of the windows of a dense convolution.
    pub(super) fn of(merged: &MergedGroups) -> WindowLayout {
        let conv = &merged.dense;
        let [_, height, width] = conv.axes;
        let channels = padded_channels(conv);
        let (row, run, runs) =
            (width.stride * channels, height.dilation * line_bytes(conv), height.taps);
        let all = width.taps * channels;
        let steps = all.div_ceil(ALIGN);
        let step = all.div_ceil(steps).next_multiple_of(4);
        match merged.permuted() {
            0 => WindowLayout::dense(row, (step, steps), (run, runs)),
            group => {
                let (steps, step_stride) = (width.taps, channels);
                WindowLayout { row, step: group, steps, step_stride, run, runs, group }
            }
        }
    }
}

/// Whether quantized data can be used in place as the image: the kernel is 1×1, and the steps along
/// k are exactly the channels.
fn is_image(conv: &Convolution, layout: WindowLayout) -> bool {
    conv.is_pointwise() && layout.steps * layout.step == conv.inputs
}

/// Elements that [`Image::widened_for`] needs for so many blocks: their rows, and the slack behind
/// the lines that end within them.
pub(super) fn wide_len(layout: WindowLayout, blocks: usize) -> usize {
    blocks * (BLOCK_ROWS * layout.row + 2 * (SLACK + ALIGN)) + layout.k()
}

/// The data as bytes, padded. If groups are merged, each dense convolution has an image, one behind
/// the other.
#[derive(Clone, Copy)]
pub(super) struct Image<'a> {
    /// One of the dense convolutions.
    conv: &'a Convolution,
    pub(super) bytes: &'a [u8],
    /// Bytes as i16, if they have been widened, and the first of them.
    wide: (&'a [i16], usize),
    pub(super) layout: WindowLayout,
    /// Bytes of an image line.
    line: usize,
}

impl<'a> Image<'a> {
    /// Quantizes and pads the data, unless they can be used in place.
    pub(super) fn new(
        merged: &'a MergedGroups,
        params: QuantParams,
        threads: &Threads,
        data: Data<'a>,
        bytes: &'a mut [u8],
    ) -> Image<'a> {
        let conv = &merged.dense;
        let layout = WindowLayout::of(merged);
        let [_, height, width] = conv.axes;
        let (inside, channels) = (height.input * width.input, conv.inputs * merged.count);
        let count = match data {
            Data::F32(input, _) => input.values.len(),
            Data::Planes(values, quantizers) => {
                assert_eq!(quantizers.len(), channels, "there is a quantizer for each channel");
                values.len()
            }
            Data::Quantized(bytes) => bytes.len(),
        };
        assert_eq!(count, conv.batch * inside * channels, "the data differ");
        if let (Data::Quantized(bytes), 1, true) = (data, merged.count, is_image(conv, layout)) {
            return Image { conv, bytes, wide: (&[], 0), layout, line: width.input * conv.inputs };
        }
        let line = line_bytes(conv);
        let lines = conv.batch * height.reach();
        let all = merged.count * lines;
        // If there are few lines, they are long, and are divided.
        let pieces = (INPUT_PIECES / all).clamp(1, width.reach());
        assert!(bytes_of(merged) <= bytes.len(), "the image has another size");
        let shared = Slice::new(bytes);
        threads.par_ranges(all * pieces, INPUT_GRAIN.div_ceil(line / pieces), |own| {
            for i in own {
                let (line_at, piece) = (i / pieces, i % pieces);
                let (own_index, line_at) = (line_at / lines, line_at % lines);
                let (batch, y) = (line_at / height.reach(), line_at % height.reach());
                let y = height.input_at(y);
                let at = |piece: usize| width.reach() * piece / pieces;
                let positions = at(piece)..at(piece + 1);
                let start = positions.start * padded_channels(conv);
                // The slack behind a line belongs to its last piece.
                let last = piece + 1 == pieces;
                let end = if last { line } else { positions.end * padded_channels(conv) };
                let line_at = own_index * self::bytes(conv) + line_at * line;
                // SAFETY: lines are within the bytes, and pieces disjoint parts of them.
                let to = unsafe { shared.part(line_at + start, end - start) };
                let channels = Channels { all: channels, first: own_index * conv.inputs };
                let from = SourceLine { data, channels, batch, y };
                write_piece(conv, params, from, positions, to);
            }
        });
        Image { conv, bytes, wide: (&[], 0), layout, line }
    }

    /// The image of one of the dense convolutions.
    ///
    /// # Panics
    /// When there is no such one.
    pub(super) fn of_merged(&self, index: usize) -> Image<'a> {
        if index == 0 {
            return *self;
        }
        let from = index * bytes(self.conv);
        let wide = (self.wide.0.get(from..).unwrap_or_default(), 0);
        Image { bytes: &self.bytes[from..], wide, ..*self }
    }

    /// The image with all bytes widened, for CPUs without dot4.
    pub(super) fn widened(self, threads: &Threads, wide: &'a mut [i16]) -> Image<'a> {
        let wide = &mut wide[..self.bytes.len()];
        threads.par_chunks_mut(wide, WIDENED, INPUT_GRAIN / WIDENED, |first, part| {
            widen(&self.bytes[first * WIDENED..], part);
        });
        Image { wide: (wide, 0), ..self }
    }

    /// The image with the bytes widened that consecutive blocks of a 1×1 kernel read.
    ///
    /// # Panics
    /// When they need more than [`wide_len`] elements.
    pub(super) fn widened_for(self, blocks: &[Block], wide: &'a mut [i16]) -> Image<'a> {
        let mut tiles = blocks.iter().flatten().filter(|tile| tile.count > 0);
        let (Some(first), last) = (tiles.next(), tiles.next_back()) else { return self };
        let last = last.unwrap_or(first);
        let end = last.at + (last.count - 1) * self.layout.row + self.layout.k();
        let wide = &mut wide[..end - first.at];
        widen(&self.bytes[first.at..], wide);
        Image { wide: (wide, first.at), ..self }
    }

    /// The widened elements of the image from a byte on.
    pub(super) fn wide_from(&self, at: usize) -> &'a [i16] {
        let (wide, first) = self.wide;
        &wide[at - first..]
    }

    /// The channels of a position; the indices are clamped to the image.
    pub(super) fn position(&self, batch: usize, y: usize, x: usize) -> &'a [u8] {
        let [_, height, width] = self.conv.axes.map(|axis| axis.reach());
        let line = (batch * height + y.min(height - 1)) * self.line;
        let channels = padded_channels(self.conv);
        &self.bytes[line + x.min(width - 1) * channels..][..channels]
    }

    /// Neighbouring windows of a 1×1 kernel, from a position on that is counted over the batch.
    ///
    /// # Panics
    /// When the image has no positions.
    pub(super) fn run_of_windows(&self, first: usize, count: usize) -> Tile {
        let of_image = self.conv.inside();
        let (batch, position) = (first / of_image, first % of_image);
        Tile { at: batch * self.line + position * self.layout.row, count, from: (batch, position) }
    }

    /// Divides the windows into tiles.
    pub(super) fn blocks(&self) -> Blocks<'_> {
        let [_, height, width] = self.conv.axes;
        let lines = self.conv.batch * height.output;
        let (windows, across) = if is_joined(self.conv) {
            ((height.output - 1) * width.reach() + width.output, height.output)
        } else {
            (width.output, 1)
        };
        let tiles = windows.div_ceil(TILE_ROWS);
        let share = Share { least: windows / tiles.max(1), more: windows % tiles.max(1) };
        Blocks { image: self, across, tiles, all: lines / across * tiles, share }
    }

    /// The rows of a tile that are windows, as runs of neighbouring outputs.
    pub(super) fn parts(&self, tile: Tile) -> impl Iterator<Item = OutputRun> {
        let width = self.conv.axes[2];
        let pitch = if is_joined(self.conv) { width.reach() } else { width.output };
        let (line, first) = tile.from;
        let (mut y, mut x) = (first / pitch, first % pitch);
        std::iter::from_fn(move || {
            // Rows in the gap behind a line are not windows.
            if x >= width.output {
                (y, x) = (y + 1, 0);
            }
            let done = y * pitch + x - first;
            let count = (width.output - x).min(tile.count.saturating_sub(done));
            let part = OutputRun { first: done, row: (line + y) * width.output + x, count };
            x += count;
            (count > 0).then_some(part)
        })
    }
}

/// All windows in blocks of two tiles, in order.
#[derive(Clone, Copy)]
pub(super) struct Blocks<'a> {
    image: &'a Image<'a>,
    /// Output lines of one series of rows, which lie at a fixed stride.
    across: usize,
    /// Tiles of one series, and of all series.
    tiles: usize,
    all: usize,
    share: Share,
}

/// Rows of a tile: the first ones of a series have one more.
#[derive(Clone, Copy)]
struct Share {
    least: usize,
    /// How many have one more.
    more: usize,
}

impl Blocks<'_> {
    /// The number of blocks.
    pub(super) fn count(self) -> usize {
        self.all.div_ceil(2)
    }

    pub(super) fn get(self, block: usize) -> Block {
        let first = self.tile(2 * block);
        let second = 2 * block + 1;
        [first, if second < self.all { self.tile(second) } else { Tile { count: 0, ..first } }]
    }

    fn tile(self, tile: usize) -> Tile {
        let (line, i) = (tile / self.tiles * self.across, tile % self.tiles);
        let Share { least, more } = self.share;
        let (first, count) = (least * i + more.min(i), least + usize::from(i < more));
        let height = self.image.conv.axes[1];
        let (batch, y) = (line / height.output, line % height.output);
        let line_at = (batch * height.reach() + y * height.stride) * self.image.line;
        let at = line_at + first * self.image.layout.row;
        Tile { at, count, from: (line, first) }
    }
}

/// The channels of the data, and the first that a dense convolution reads.
#[derive(Clone, Copy)]
struct Channels {
    all: usize,
    first: usize,
}

/// A line of the data, or of padding above and below them.
#[derive(Clone, Copy)]
struct SourceLine<'a> {
    data: Data<'a>,
    channels: Channels,
    batch: usize,
    y: Option<usize>,
}

/// Writes some positions of an image line: those of the data, quantized, with the zero point as
/// padding on both sides and in the slack.
fn write_piece(
    conv: &Convolution,
    params: QuantParams,
    SourceLine { data, channels, batch, y }: SourceLine<'_>,
    own_positions: Range<usize>,
    to: &mut [u8],
) {
    let [_, height, width] = conv.axes;
    let (own, all) = (conv.inputs, padded_channels(conv));
    let PaddedLine { before, skipped, count } = width.line();
    let first = own_positions.start.max(before);
    let count = own_positions.end.min(before + count).saturating_sub(first);
    let Some(y) = y.filter(|_| count > 0) else { return to.fill(params.zero_point()) };
    let (left, rest) = to.split_at_mut((first - own_positions.start) * all);
    let (inside, right) = rest.split_at_mut(count * all);
    left.fill(params.zero_point());
    right.fill(params.zero_point());
    let line = y * width.input + skipped + first - before;
    let positions = height.input * width.input;
    let run = (batch * positions + line) * channels.all;
    let run = run..run + count * channels.all;
    match data {
        Data::Planes(values, quantizers) => {
            // The weights of padded channels are 0.
            let plane = |c: usize| {
                let c = channels.first + c.min(own - 1);
                let values = &values[(batch * channels.all + c) * positions + line..][..count];
                Plane { values, quantizer: quantizers[c] }
            };
            for c in (0..all).step_by(4) {
                let four = [plane(c), plane(c + 1), plane(c + 2), plane(c + 3)];
                let (fours, _) = inside[c..].as_chunks_mut::<4>();
                match all {
                    4 => interleave_four(four, fours),
                    _ => interleave_four_strided(four, all / 4, fours),
                }
            }
        }
        Data::F32(Input { values, factors: Some(factors), .. }, quantizer) => {
            let factors = &factors[batch * channels.all + channels.first..][..own];
            let each = channels.positions(&values[run], own).zip(inside.chunks_exact_mut(all));
            each.for_each(|(from, to)| quantize_products(quantizer, from, factors, to));
        }
        Data::F32(Input { values, .. }, quantizer) => {
            let quantize = |from: &[f32], to: &mut [u8]| quantize(quantizer, from, to);
            channels.each_position(&values[run], (own, all), inside, quantize);
        }
        // A call for so few bytes takes longer than to copy them.
        Data::Quantized(bytes) if channels.all > own => match own {
            8 => channels.copy_array::<8>(&bytes[run], inside),
            16 => channels.copy_array::<16>(&bytes[run], inside),
            32 => channels.copy_array::<32>(&bytes[run], inside),
            _ => channels.each_position(&bytes[run], (own, all), inside, copy),
        },
        Data::Quantized(bytes) => channels.each_position(&bytes[run], (own, all), inside, copy),
    }
}

/// Copies bytes to the first of others.
fn copy(from: &[u8], to: &mut [u8]) {
    to[..from.len()].copy_from_slice(from);
}

impl Channels {
    /// The channels of each position that the dense convolution reads.
    fn positions<T>(self, from: &[T], own: usize) -> impl Iterator<Item = &[T]> {
        from.chunks_exact(self.all).map(move |all| &all[self.first..][..own])
    }

    /// Copies the `N` channels of each position, of which none is padded.
    fn copy_array<const N: usize>(self, from: &[u8], to: &mut [u8]) {
        for (from, to) in self.positions(from, N).zip(to.as_chunks_mut::<N>().0) {
            if let Some(from) = from.first_chunk::<N>() {
                *to = *from;
            }
        }
    }

    /// Calls `f` with the `own` channels of each position and where they go, `padded`, or with all
    /// positions at once if the dense convolution reads all channels and none is padded.
    fn each_position<T>(
        self,
        from: &[T],
        (own, padded): (usize, usize),
        to: &mut [u8],
        f: impl Fn(&[T], &mut [u8]),
    ) {
        if own == padded && own == self.all {
            return f(from, to);
        }
        for (from, to) in self.positions(from, own).zip(to.chunks_exact_mut(padded)) {
            f(from, to);
        }
    }
}

multiversion! {
    /// Multiplies elements by factors and quantizes the products.
    fn quantize_products(quantizer: Quantizer, values: &[f32], factors: &[f32], to: &mut [u8]) {
        for ((value, factor), to) in values.iter().zip(factors).zip(to) {
            *to = quantizer.byte(value * factor);
        }
    }
}

/// A run of positions of one channel, and its quantizer.
#[derive(Clone, Copy)]
struct Plane<'a> {
    values: &'a [f32],
    quantizer: Quantizer,
}

multiversion! {
    /// Quantizes four planes and interleaves them.
    fn interleave_four(planes: [Plane<'_>; 4], to: &mut [[u8; 4]]) {
        let [a, b, c, d] = planes.map(|plane| plane.quantizer);
        let [w, x, y, z] = planes.map(|plane| plane.values);
        for ((((to, w), x), y), z) in to.iter_mut().zip(w).zip(x).zip(y).zip(z) {
            *to = [a.byte(*w), b.byte(*x), c.byte(*y), d.byte(*z)];
        }
    }
}

multiversion! {
    /// As [`interleave_four`], writing every `step`th group of four.
    fn interleave_four_strided(planes: [Plane<'_>; 4], step: usize, to: &mut [[u8; 4]]) {
        let [a, b, c, d] = planes.map(|plane| plane.quantizer);
        let [w, x, y, z] = planes.map(|plane| plane.values);
        for ((((to, w), x), y), z) in to.iter_mut().step_by(step).zip(w).zip(x).zip(y).zip(z) {
            *to = [a.byte(*w), b.byte(*x), c.byte(*y), d.byte(*z)];
        }
    }
}

multiversion! {
    fn widen(from: &[u8], to: &mut [i16]) {
        for (from, to) in from.iter().zip(to) {
            *to = i16::from(*from);
        }
    }
}
