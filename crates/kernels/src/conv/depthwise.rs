//! Convolutions of each channel with a kernel of its own.

use super::Convolution;
use crate::gemm::{Step, Window, apply_steps};
use crate::multiversion;
use crate::par::{Slice, Threads};

/// Channels whose sums are kept in registers.
const CHANNELS: usize = 32;

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
        let whole = channels / CHANNELS * CHANNELS;
        let mut x = 0;
        while x < width.output {
            let pixels = PIXELS.min(width.output - x);
            for c in (0..whole).step_by(CHANNELS) {
                if pixels == PIXELS {
                    block::<PIXELS, CHANNELS>(image, weights, lines, axis, (x, c), out);
                } else {
                    for x in x..x + pixels {
                        block::<1, CHANNELS>(image, weights, lines, axis, (x, c), out);
                    }
                }
            }
            for c in whole..channels {
                for x in x..x + pixels {
                    block::<1, 1>(image, weights, lines, axis, (x, c), out);
                }
            }
            x += pixels;
        }
    }
}

/// `P` neighbours of `C` channels.
#[inline(always)]
fn block<const P: usize, const C: usize>(
    image: &[f32],
    weights: &[f32],
    lines: &[(usize, usize)],
    (width, channels): (Window, usize),
    (x, c): (usize, usize),
    out: &mut [f32],
) {
    let mut sums = [[0f32; C]; P];
    for &(start, tap) in lines {
        for kx in 0..width.taps {
            let w = &weights[(tap + kx) * channels + c..][..C];
            for (p, sums) in sums.iter_mut().enumerate() {
                let Some(x) = width.position(x + p, kx) else { continue };
                let v = &image[start + x * channels + c..][..C];
                for i in 0..C {
                    sums[i] = v[i].mul_add(w[i], sums[i]);
                }
            }
        }
    }
    for (p, sums) in sums.iter().enumerate() {
        out[(x + p) * channels + c..][..C].copy_from_slice(sums);
    }
}
