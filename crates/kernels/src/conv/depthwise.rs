//! Convolutions of each channel with a kernel of its own.

use super::Convolution;
use crate::gemm::{Step, Window, apply_steps};
use crate::multiversion;
use crate::par::{Slice, Threads};

/// Channels whose sums are kept in registers.
const CHANNELS: usize = 32;

/// Fewer channels, for what is left.
const HALF: usize = 16;

/// Neighbouring outputs computed together.
const PIXELS: usize = 4;

/// Multiply-adds that are worth a second thread.
const GRAIN: usize = 1 << 15;

/// Convolves each channel with its own kernel: `weights` holds, for each tap, one element for each
/// channel. Adds tap after tap, from 0.
///
/// # Panics
/// When a slice is not of the size the convolution is for.
pub(super) fn depthwise(
    conv: &Convolution,
    threads: &Threads,
    (input, weights): (&[f32], &[f32]),
    steps: &[Step<'_>],
    output: &mut [f32],
) {
    let channels = conv.inputs;
    let [_, height, width] = conv.axes;
    assert!(conv.groups == channels && conv.outputs == channels);
    assert_eq!(output.len(), conv.batch * conv.positions() * channels);
    assert_eq!(weights.len(), conv.taps() * channels);
    let positions: usize = conv.axes.iter().map(|a| a.input).product();
    assert_eq!(input.len(), conv.batch * positions * channels);
    if output.is_empty() {
        return;
    }
    let row_len = width.output * channels;
    let rows = output.len() / row_len;
    let shared = Slice::new(output);
    let grain = GRAIN.div_ceil((conv.taps() * row_len).max(1));
    threads.ranges(rows, grain, |range| {
        for row in range {
            let (y, rest) = (row % height.output, row / height.output);
            let (z, batch) = (rest % conv.axes[0].output, rest / conv.axes[0].output);
            let image = &input[batch * positions * channels..][..positions * channels];
            // SAFETY: rows are disjoint parts of the output.
            let out = unsafe { std::slice::from_raw_parts_mut(shared.at(row * row_len), row_len) };
            let lines = lines(conv, z, y);
            line(image, weights, &lines, (width, channels), out);
            for (x, run) in out.chunks_mut(channels).enumerate() {
                apply_steps(steps, row * width.output + x, 0, run);
            }
        }
    });
}

/// The input lines that an output line looks at: where each begins, and the first of its taps.
fn lines(conv: &Convolution, z: usize, y: usize) -> Vec<(usize, usize)> {
    let [depth, height, width] = conv.axes;
    let mut lines = Vec::with_capacity(depth.taps * height.taps);
    for kz in 0..depth.taps {
        for ky in 0..height.taps {
            if let (Some(z), Some(y)) = (depth.position(z, kz), height.position(y, ky)) {
                let start = (z * height.input + y) * width.input * conv.inputs;
                lines.push((start, (kz * height.taps + ky) * width.taps));
            }
        }
    }
    lines
}

multiversion! {
    /// One line of the output, some neighbours and some channels at a time.
    fn line(
        image: &[f32], weights: &[f32], lines: &[(usize, usize)], axis: (Window, usize), out: &mut [f32],
    ) {
        let (width, channels) = axis;
        let inside = inside(&width);
        let mut x = 0;
        while x < width.output {
            let whole = inside.contains(&x) && x + PIXELS <= inside.end;
            let pixels = if whole { PIXELS } else { 1 };
            let taps = if whole { 0..width.taps } else { width.taps_within(x) };
            let first = (x * width.stride + taps.start * width.dilation) as isize + width.start;
            let columns = Columns {
                x,
                first: first.max(0) as usize * channels,
                taps,
                step: width.dilation * channels,
                next: width.stride * channels,
            };
            for (c, lanes) in groups(channels) {
                match (whole, lanes) {
                    (true, CHANNELS) => {
                        block::<PIXELS, CHANNELS>(image, weights, lines, &columns, (c, channels), out);
                    }
                    (true, HALF) => {
                        block::<PIXELS, HALF>(image, weights, lines, &columns, (c, channels), out);
                    }
                    (false, CHANNELS) => {
                        block::<1, CHANNELS>(image, weights, lines, &columns, (c, channels), out);
                    }
                    (false, HALF) => {
                        block::<1, HALF>(image, weights, lines, &columns, (c, channels), out);
                    }
                    (true, _) => block::<PIXELS, 1>(image, weights, lines, &columns, (c, channels), out),
                    (false, _) => block::<1, 1>(image, weights, lines, &columns, (c, channels), out),
                }
            }
            x += pixels;
        }
    }
}

/// The outputs whose taps all lie within the input.
fn inside(width: &Window) -> std::ops::Range<usize> {
    let all = |x: &usize| width.taps_within(*x).len() == width.taps;
    let first = (0..width.output).find(all).unwrap_or(width.output);
    let last = (first..width.output).rev().find(all).map_or(first, |x| x + 1);
    first..last
}

/// Groups of channels, as many as fit together; the last may go over some a second time.
#[inline(always)]
fn groups(channels: usize) -> impl Iterator<Item = (usize, usize)> {
    let whole = channels / CHANNELS;
    let rest = channels % CHANNELS;
    let lanes = match rest {
        0 => 0,
        _ if channels < HALF => 1,
        1..=HALF => HALF,
        _ if channels < CHANNELS => HALF,
        _ => CHANNELS,
    };
    let count = match lanes {
        0 => 0,
        1 => rest,
        _ => rest.div_ceil(lanes),
    };
    let tail = (0..count).map(move |i| {
        let at = whole * CHANNELS + i * lanes;
        (at.min(channels - lanes), lanes)
    });
    (0..whole).map(|i| (i * CHANNELS, CHANNELS)).chain(tail)
}

/// Some neighbouring outputs and the taps that they look through.
struct Columns {
    /// The first output.
    x: usize,
    /// Where the channels under its first tap lie in a line.
    first: usize,
    taps: std::ops::Range<usize>,
    /// Elements from tap to tap, and from output to output.
    step: usize,
    next: usize,
}

/// `P` neighbours of `C` channels.
#[inline(always)]
fn block<const P: usize, const C: usize>(
    image: &[f32],
    weights: &[f32],
    lines: &[(usize, usize)],
    columns: &Columns,
    (c, channels): (usize, usize),
    out: &mut [f32],
) {
    let mut sums = [[0f32; C]; P];
    let count = columns.taps.len();
    if count == 0 {
        return store(&sums, columns.x, (c, channels), out);
    }
    for &(start, tap) in lines {
        let from = start + columns.first + c;
        let reach = from + (count - 1) * columns.step + (P - 1) * columns.next + C;
        let first = (tap + columns.taps.start) * channels + c;
        assert!(reach <= image.len() && first + (count - 1) * channels + C <= weights.len());
        // SAFETY: the last element of the last tap and output has just been shown to be within.
        unsafe {
            let (mut v, mut w) = (image.as_ptr().add(from), weights.as_ptr().add(first));
            for _ in 0..count {
                for p in 0..P {
                    let v = v.add(p * columns.next);
                    for j in 0..C {
                        sums[p][j] = (*v.add(j)).mul_add(*w.add(j), sums[p][j]);
                    }
                }
                // Not beyond the end, even behind the last tap.
                (v, w) = (v.wrapping_add(columns.step), w.wrapping_add(channels));
            }
        }
    }
    store(&sums, columns.x, (c, channels), out);
}

/// Writes the sums of some neighbours.
#[inline(always)]
fn store<const P: usize, const C: usize>(
    sums: &[[f32; C]; P],
    x: usize,
    (c, channels): (usize, usize),
    out: &mut [f32],
) {
    for (p, sums) in sums.iter().enumerate() {
        out[(x + p) * channels + c..][..C].copy_from_slice(sums);
    }
}
