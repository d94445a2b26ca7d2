//! The data of a convolution as bytes: lines with their padding, in which every window is some runs.

use super::kernel::{self, SIDE};
use crate::base::par::{Slice, Threads};
use crate::conv::{Convolution, Input};
use crate::math::quantize::{Quantizer, quantize};
use crate::multiversion;
use std::ops::Range;

/// The values that data have: level `q`, of at most 256, stands for `(q - zero) · scale`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QuantParams {
    scale: f32,
    zero: u8,
}

impl QuantParams {
    /// Those of values that begin at `low` and are `scale` apart, at most 256 of them; none if 0 is
    /// not one of them, or not nearly.
    pub fn new(low: f64, scale: f64) -> Option<QuantParams> {
        /// How far 0 may be from a quantized value, in steps: as far as limits that are stored as f16
        /// may move it, by half a unit in their last place at the middle of 256 values.
        const NEAR: f64 = 1.0 / 16.0;
        let zero = -low / scale;
        let is_near = (zero - zero.round()).abs() <= NEAR && (0.0..=255.0).contains(&zero.round());
        let normal = (scale as f32).is_normal() && scale > 0.0;
        (is_near && normal).then(|| QuantParams { scale: scale as f32, zero: zero.round() as u8 })
    }

    /// The distance between the values of neighbouring levels.
    pub fn scale(self) -> f32 {
        self.scale
    }

    /// The level of 0.
    pub fn zero(self) -> u8 {
        self.zero
    }

    /// How the level of a value is found.
    pub fn quantizer(self) -> Option<Quantizer> {
        let (scale, zero) = (f64::from(self.scale), f64::from(self.zero));
        Quantizer::new((-zero * scale) as f32, ((255.0 - zero) * scale) as f32, 256)
    }
}

/// What is convolved.
#[derive(Clone, Copy, Debug)]
pub enum Data<'a> {
    /// Values, and how they are quantized.
    F32(Input<'a>, Quantizer),
    /// Quantized values, with the channels last.
    Quantized(&'a [u8]),
}

/// Bytes of the image for each element of the data, at most: a file may ask for any padding.
const MOST: usize = 16;

/// Bytes behind the last position of a line that steps along k may read.
const SLACK: usize = 64;

/// Pieces that all lines are divided into, at least.
const PIECES: usize = 16;

/// Bytes that are worth a second thread.
const GRAIN: usize = 1 << 14;

/// Lines begin at cache lines.
const ALIGN: usize = 64;

/// Channels with those that make them whole fours.
pub(super) fn channels(conv: &Convolution) -> usize {
    conv.inputs.next_multiple_of(4)
}

/// Whether windows are taken across the ends of lines, with those between the lines that are no windows:
/// where lines are so short that multiplying line by line takes longer.
fn is_joined(conv: &Convolution) -> bool {
    let [_, height, width] = conv.axes;
    let all = (height.output - 1) * width.reach() + width.output;
    let by_lines = height.output * kernel::rows(width.output);
    width.stride == 1 && height.stride == 1 && kernel::rows(all) < by_lines
}

fn line_bytes(conv: &Convolution) -> usize {
    let line = conv.axes[2].reach() * channels(conv);
    match is_joined(conv) {
        true => line,
        false => (line + SLACK).next_multiple_of(ALIGN),
    }
}

/// Bytes of the image of a convolution.
pub(super) fn bytes(conv: &Convolution) -> usize {
    conv.batch * conv.axes[1].reach() * line_bytes(conv) + SLACK
}

/// Whether the image is not far larger than the data.
pub(super) fn fits(conv: &Convolution) -> bool {
    let [_, height, width] = conv.axes;
    let data = conv.axes.iter().map(|a| a.input).product::<usize>() * conv.inputs;
    let size = || {
        let line = width.reach().checked_mul(channels(conv))?.checked_add(SLACK + ALIGN)?;
        line.checked_mul(height.reach())
    };
    size().is_some_and(|size| size <= data.saturating_mul(MOST).saturating_add(1 << 16))
}

/// Windows side by side in the image, one row of a product each.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tile {
    /// Where the first begins.
    pub(super) at: usize,
    /// How many there are.
    pub(super) count: usize,
    /// The line of outputs that the first is on, counted over the whole batch, and its place there.
    from: (usize, usize),
}

/// Two tiles, of which the second may be empty.
pub(super) type Rows = [Tile; 2];

/// Rows of a tile that are neighbours in the output.
pub(super) struct Part {
    /// The first, in the tile.
    pub(super) first: usize,
    /// The first, in the output.
    pub(super) row: usize,
    /// How many there are.
    pub(super) count: usize,
}

/// How windows lie in the image, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// From one window to the next.
    pub(super) row: usize,
    /// Of a step along k, in fours.
    pub(super) step: usize,
    /// Steps of a run: the taps along a line.
    pub(super) steps: usize,
    /// From run to run.
    pub(super) run: usize,
    /// Runs of a window.
    pub(super) runs: usize,
}

impl Shape {
    pub(super) fn of(conv: &Convolution) -> Shape {
        let [_, height, width] = conv.axes;
        let run = width.taps * channels(conv);
        let steps = run.div_ceil(ALIGN);
        Shape {
            row: width.stride * channels(conv),
            step: run.div_ceil(steps).next_multiple_of(4),
            steps,
            run: height.dilation * line_bytes(conv),
            runs: height.taps,
        }
    }
}

/// Whether levels as they lie are the image: single positions, with as many channels as steps along k
/// read.
fn is_image(conv: &Convolution, shape: Shape) -> bool {
    conv.is_pointwise() && shape.steps * shape.step == conv.inputs
}

/// The data as bytes.
pub(super) struct Image<'a> {
    conv: &'a Convolution,
    pub(super) bytes: &'a [u8],
    pub(super) shape: Shape,
    /// Bytes of a line.
    line: usize,
}

impl<'a> Image<'a> {
    /// Writes the levels of the data, unless they can be read where they lie.
    pub(super) fn new(
        conv: &'a Convolution,
        levels: QuantParams,
        threads: &Threads,
        data: Data<'a>,
        bytes: &'a mut [u8],
    ) -> Image<'a> {
        let shape = Shape::of(conv);
        let [_, height, width] = conv.axes;
        let inside = height.input * width.input;
        let count = match data {
            Data::F32(input, _) => input.values.len(),
            Data::Quantized(bytes) => bytes.len(),
        };
        assert_eq!(count, conv.batch * inside * conv.inputs, "the data differ");
        if let (Data::Quantized(bytes), true) = (data, is_image(conv, shape)) {
            return Image { conv, bytes, shape, line: width.input * conv.inputs };
        }
        let line = line_bytes(conv);
        let lines = conv.batch * height.reach();
        // Few lines are long ones.
        let pieces = (PIECES / lines).clamp(1, width.reach());
        assert!(lines * line <= bytes.len(), "the image has another size");
        let shared = Slice::new(bytes);
        threads.par_ranges(lines * pieces, GRAIN.div_ceil(line / pieces), |own| {
            for i in own {
                let (line_at, piece) = (i / pieces, i % pieces);
                let (batch, y) = (line_at / height.reach(), line_at % height.reach());
                let y = y.checked_add_signed(height.start).filter(|y| *y < height.input);
                let at = |piece: usize| width.reach() * piece / pieces;
                let positions = at(piece)..at(piece + 1);
                let start = positions.start * channels(conv);
                // What is behind the last position of a line belongs to its last piece.
                let last = piece + 1 == pieces;
                let end = if last { line } else { positions.end * channels(conv) };
                // SAFETY: lines are within the bytes, and pieces disjoint parts of them.
                let to = unsafe {
                    let to = shared.at(line_at * line + start);
                    std::slice::from_raw_parts_mut(to, end - start)
                };
                write_piece(conv, levels, (data, batch, y), positions, to);
            }
        });
        Image { conv, bytes, shape, line }
    }

    /// The channels of a position, of the last one of an axis for those behind it.
    pub(super) fn position(&self, batch: usize, y: usize, x: usize) -> &'a [u8] {
        let [_, height, width] = self.conv.axes.map(|axis| axis.reach());
        let line = (batch * height + y.min(height - 1)) * self.line;
        let channels = channels(self.conv);
        &self.bytes[line + x.min(width - 1) * channels..][..channels]
    }

    /// How windows are divided into tiles.
    pub(super) fn blocks(&self) -> Blocks<'_> {
        let [_, height, width] = self.conv.axes;
        let lines = self.conv.batch * height.output;
        let (windows, across) = match is_joined(self.conv) {
            true => ((height.output - 1) * width.reach() + width.output, height.output),
            false => (width.output, 1),
        };
        let tiles = windows.div_ceil(SIDE);
        Blocks { image: self, windows, across, tiles, all: lines / across * tiles }
    }

    /// The rows of a tile that are windows, line by line.
    pub(super) fn parts(&self, tile: Tile) -> impl Iterator<Item = Part> {
        let width = self.conv.axes[2];
        let pitch = if is_joined(self.conv) { width.reach() } else { width.output };
        let (line, first) = tile.from;
        let (mut at, end) = (first, first + tile.count);
        std::iter::from_fn(move || {
            // What is behind the last window of a line is none.
            if at % pitch >= width.output {
                at = at.next_multiple_of(pitch);
            }
            let (y, x) = (at / pitch, at % pitch);
            let count = (width.output - x).min(end.saturating_sub(at));
            let part = Part { first: at - first, row: (line + y) * width.output + x, count };
            at += count;
            (count > 0).then_some(part)
        })
    }
}

/// All windows in blocks of two tiles, first rows first.
#[derive(Clone, Copy)]
pub(super) struct Blocks<'a> {
    image: &'a Image<'a>,
    /// Windows that are evenly apart, and the lines of outputs that they are on.
    windows: usize,
    across: usize,
    /// Tiles that those are, and how many there are in all.
    tiles: usize,
    all: usize,
}

impl Blocks<'_> {
    /// How many there are.
    pub(super) fn count(self) -> usize {
        self.all.div_ceil(2)
    }

    pub(super) fn get(self, block: usize) -> Rows {
        let first = self.tile(2 * block);
        let second = 2 * block + 1;
        [first, if second < self.all { self.tile(second) } else { Tile { count: 0, ..first } }]
    }

    fn tile(self, tile: usize) -> Tile {
        let (line, i) = (tile / self.tiles * self.across, tile % self.tiles);
        let (first, end) = (self.windows * i / self.tiles, self.windows * (i + 1) / self.tiles);
        let height = self.image.conv.axes[1];
        let (batch, y) = (line / height.output, line % height.output);
        let line_at = (batch * height.reach() + y * height.stride) * self.image.line;
        let at = line_at + first * self.image.shape.row;
        Tile { at, count: end - first, from: (line, first) }
    }
}

/// Writes some positions of a line: the levels of line `y` of the data, and that of 0 around them, and
/// behind them as far as there is room.
fn write_piece(
    conv: &Convolution,
    levels: QuantParams,
    (data, batch, y): (Data<'_>, usize, Option<usize>),
    own_positions: Range<usize>,
    to: &mut [u8],
) {
    let [_, height, width] = conv.axes;
    let (own, all) = (conv.inputs, channels(conv));
    let before = width.start.min(0).unsigned_abs().min(width.reach());
    let skipped = width.start.max(0).unsigned_abs();
    let count = width.input.saturating_sub(skipped).min(width.reach() - before);
    let first = own_positions.start.max(before);
    let count = own_positions.end.min(before + count).saturating_sub(first);
    let Some(y) = y.filter(|_| count > 0) else { return to.fill(levels.zero) };
    let (left, rest) = to.split_at_mut((first - own_positions.start) * all);
    let (inside, right) = rest.split_at_mut(count * all);
    left.fill(levels.zero);
    right.fill(levels.zero);
    let line = y * width.input + skipped + first - before;
    let positions = height.input * width.input;
    let run = (batch * positions + line) * own..(batch * positions + line + count) * own;
    match data {
        Data::F32(Input { values, channels_first: true, .. }, level) => {
            // Channels that are missing have no weight.
            let plane = |c: usize| {
                let c = batch * own + c.min(own - 1);
                &values[c * positions + line..][..count]
            };
            for c in (0..all).step_by(4) {
                let four = [plane(c), plane(c + 1), plane(c + 2), plane(c + 3)];
                let (fours, _) = inside[c..].as_chunks_mut::<4>();
                match all {
                    4 => four_side_by_side(four, level, fours),
                    _ => four_apart(four, level, all / 4, fours),
                }
            }
        }
        Data::F32(Input { values, factors: Some(factors), .. }, level) => {
            let factors = &factors[batch * own..][..own];
            let each = values[run].chunks_exact(own).zip(inside.chunks_exact_mut(all));
            each.for_each(|(from, to)| products_to_levels(level, from, factors, to));
        }
        Data::F32(Input { values, .. }, level) => {
            each_position(&values[run], own, inside, all, |from, to| quantize(level, from, to));
        }
        Data::Quantized(bytes) => {
            each_position(&bytes[run], own, inside, all, |from, to| {
                to[..from.len()].copy_from_slice(from);
            });
        }
    }
}

/// Calls `f` with the channels of each position, or with all at once if none are missing.
fn each_position<T>(
    from: &[T],
    own: usize,
    to: &mut [u8],
    all: usize,
    f: impl Fn(&[T], &mut [u8]),
) {
    if own == all {
        return f(from, to);
    }
    for (from, to) in from.chunks_exact(own).zip(to.chunks_exact_mut(all)) {
        f(from, to);
    }
}

multiversion! {
    /// The levels of elements that are multiplied by factors.
    fn products_to_levels(level: Quantizer, values: &[f32], factors: &[f32], levels: &mut [u8]) {
        for ((value, factor), to) in values.iter().zip(factors).zip(levels) {
            *to = level.byte(value * factor);
        }
    }
}

multiversion! {
    fn four_side_by_side(planes: [&[f32]; 4], level: Quantizer, to: &mut [[u8; 4]]) {
        let [a, b, c, d] = planes;
        for ((((to, a), b), c), d) in to.iter_mut().zip(a).zip(b).zip(c).zip(d) {
            *to = [level.byte(*a), level.byte(*b), level.byte(*c), level.byte(*d)];
        }
    }
}

multiversion! {
    /// To every `step`th place.
    fn four_apart(planes: [&[f32]; 4], level: Quantizer, step: usize, to: &mut [[u8; 4]]) {
        let [a, b, c, d] = planes;
        for ((((to, a), b), c), d) in to.iter_mut().step_by(step).zip(a).zip(b).zip(c).zip(d) {
            *to = [level.byte(*a), level.byte(*b), level.byte(*c), level.byte(*d)];
        }
    }
}
