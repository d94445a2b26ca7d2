//! The data of a convolution as bytes: lines with their padding, in which every window is some runs.

use super::micro::SIDE;
use crate::conv::{Convolution, Input};
use crate::gemm::Window;
use crate::multiversion;
use crate::par::Threads;
use crate::quantize::{ToLevel, to_levels};

/// The values that data have: level `q`, of at most 256, stands for `(q - zero) · scale`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Levels {
    scale: f32,
    zero: u8,
}

impl Levels {
    /// Levels that begin at `low` and are `scale` apart, at most 256 of them; none if 0 is not one of
    /// them, or not nearly.
    pub fn new(low: f64, scale: f64) -> Option<Levels> {
        /// How far 0 may be from a level, in levels: less than rounding moves a value.
        const NEAR: f64 = 1e-4;
        let zero = -low / scale;
        let is_near = (zero - zero.round()).abs() <= NEAR && (0.0..=255.0).contains(&zero.round());
        let normal = (scale as f32).is_normal() && scale > 0.0;
        (is_near && normal).then(|| Levels { scale: scale as f32, zero: zero.round() as u8 })
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
    pub fn to_level(self) -> Option<ToLevel> {
        let (scale, zero) = (f64::from(self.scale), f64::from(self.zero));
        ToLevel::new((-zero * scale) as f32, ((255.0 - zero) * scale) as f32, 256)
    }
}

/// What is convolved.
#[derive(Clone, Copy, Debug)]
pub enum Data<'a> {
    /// Values, and how the levels of them are found.
    Values(Input<'a>, ToLevel),
    /// Levels, with the channels last.
    Levels(&'a [u8]),
}

/// Bytes of the image for each element of the data, at most: a file may ask for any padding.
const MOST: usize = 16;

/// Bytes behind the last position of a line that steps along k may read.
const SLACK: usize = 64;

/// Lines begin at cache lines.
const ALIGN: usize = 64;

/// Channels with those that make them whole fours.
pub(super) fn channels(conv: &Convolution) -> usize {
    conv.inputs.next_multiple_of(4)
}

/// Positions that the windows along an axis look at, with those outside the input.
fn reach(axis: Window) -> usize {
    (axis.output - 1) * axis.stride + (axis.taps - 1) * axis.dilation + 1
}

fn line_bytes(conv: &Convolution) -> usize {
    let [_, _, width] = conv.axes;
    (reach(width) * channels(conv) + SLACK).next_multiple_of(ALIGN)
}

/// Bytes of the image of a convolution.
pub(super) fn bytes(conv: &Convolution) -> usize {
    conv.batch * reach(conv.axes[1]) * line_bytes(conv)
}

/// Whether the image is not far larger than the data.
pub(super) fn fits(conv: &Convolution) -> bool {
    let reach = |a: Window| {
        let last = (a.output - 1).checked_mul(a.stride)?;
        last.checked_add((a.taps - 1).checked_mul(a.dilation)?)?.checked_add(1)
    };
    let [_, height, width] = conv.axes;
    let data = conv.axes.iter().map(|a| a.input).product::<usize>() * conv.inputs;
    let size = || {
        let line = reach(width)?.checked_mul(channels(conv))?.checked_add(SLACK + ALIGN)?;
        line.checked_mul(reach(height)?)
    };
    size().is_some_and(|size| size <= data.saturating_mul(MOST).saturating_add(1 << 16))
}

/// Some rows of windows, on one line or two: neighbours in the output.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rows {
    /// The first.
    pub(super) row: usize,
    /// How many there are on each.
    pub(super) rows: (usize, usize),
    /// Where the first of each begins.
    pub(super) at: [usize; 2],
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

/// The data as bytes.
pub(super) struct Image<'a> {
    conv: &'a Convolution,
    pub(super) bytes: &'a [u8],
    pub(super) shape: Shape,
}

impl<'a> Image<'a> {
    /// Writes the levels of the data.
    pub(super) fn new(
        conv: &'a Convolution,
        levels: Levels,
        threads: &Threads,
        data: Data<'_>,
        bytes: &'a mut [u8],
    ) -> Image<'a> {
        let [_, height, width] = conv.axes;
        let inside = height.input * width.input;
        let count = match data {
            Data::Values(input, _) => input.values.len(),
            Data::Levels(bytes) => bytes.len(),
        };
        assert_eq!(count, conv.batch * inside * conv.inputs, "the data differ");
        let line = line_bytes(conv);
        threads.chunks(bytes, line, 1 << 14, |first, lines| {
            for (i, to) in lines.chunks_exact_mut(line).enumerate() {
                let (batch, y) = ((first + i) / reach(height), (first + i) % reach(height));
                let y = y.checked_add_signed(height.start).filter(|y| *y < height.input);
                write_line(conv, levels, (data, batch, y), to);
            }
        });
        Image { conv, bytes, shape: Shape::of(conv) }
    }

    /// All windows, first rows first.
    pub(super) fn blocks(&self) -> impl Iterator<Item = Rows> {
        let [_, height, width] = self.conv.axes;
        let total = self.conv.batch * height.output * width.output;
        let parts = width.output.div_ceil(SIDE);
        let line = line_bytes(self.conv);
        // An even part of a line.
        let part = move |row: usize| {
            let x = row % width.output;
            let mut ends = (1..=parts).map(|i| width.output * i / parts);
            ends.find(|end| *end > x).filter(|_| row < total).map(|end| end - x)
        };
        let at = move |row: usize| {
            let (line_of, x) = (row / width.output, row % width.output);
            let (batch, y) = (line_of / height.output, line_of % height.output);
            (batch * reach(height) + y * height.stride) * line + x * self.shape.row
        };
        let mut row = 0;
        std::iter::from_fn(move || {
            let first = part(row)?;
            let second = part(row + first).unwrap_or(0);
            let rows = Rows {
                row,
                rows: (first, second),
                at: [at(row), if second > 0 { at(row + first) } else { at(row) }],
            };
            row += first + second;
            Some(rows)
        })
    }
}

/// Writes a line: the levels of line `y` of the data, and that of 0 around them.
fn write_line(
    conv: &Convolution,
    levels: Levels,
    (data, batch, y): (Data<'_>, usize, Option<usize>),
    to: &mut [u8],
) {
    let [_, height, width] = conv.axes;
    let (own, all) = (conv.inputs, channels(conv));
    let before = width.start.min(0).unsigned_abs().min(reach(width));
    let skipped = width.start.max(0).unsigned_abs();
    let count = width.input.saturating_sub(skipped).min(reach(width) - before);
    let Some(y) = y.filter(|_| count > 0) else { return to.fill(levels.zero) };
    let (left, rest) = to.split_at_mut(before * all);
    let (inside, right) = rest.split_at_mut(count * all);
    left.fill(levels.zero);
    right.fill(levels.zero);
    if own < all {
        inside.fill(levels.zero);
    }
    let line = y * width.input + skipped;
    let positions = height.input * width.input;
    let run = (batch * positions + line) * own..(batch * positions + line + count) * own;
    match data {
        Data::Values(Input { values, channels_first: true, .. }, level) => {
            for c in 0..own {
                let plane = &values[(batch * own + c) * positions + line..][..count];
                quantize_apart(plane, level, (all, c), inside);
            }
        }
        Data::Values(Input { values, .. }, level) => {
            each_position(&values[run], own, inside, all, |from, to| to_levels(level, from, to));
        }
        Data::Levels(bytes) => {
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
    /// To every `places.0`th byte, from `places.1` on.
    fn quantize_apart(from: &[f32], level: ToLevel, places: (usize, usize), to: &mut [u8]) {
        for (from, to) in from.iter().zip(to.chunks_exact_mut(places.0)) {
            to[places.1] = level.byte(*from);
        }
    }
}
