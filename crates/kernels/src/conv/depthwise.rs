//! Convolutions of each channel with a kernel of its own.

use super::Convolution;
use crate::gemm::{Absorbed, Out, Step, Window, finish, store};
use crate::isa::{Isa, isa};
use crate::par::{Slice, Threads};
use crate::simd::Vector;
use std::ops::Range;

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
    let (then, rest) = Absorbed::of(steps);
    then.check(rows * width.output, channels);
    let inside = width.inside();
    let shared = Slice::new(output);
    let grain = GRAIN.div_ceil((conv.taps() * row_len).max(1));
    threads.ranges(rows, grain, |range| {
        let mut lines = Vec::with_capacity(conv.taps());
        for row in range {
            let (y, above) = (row % height.output, row / height.output);
            let (z, batch) = (above % conv.axes[0].output, above / conv.axes[0].output);
            let image = &input[batch * positions * channels..][..positions * channels];
            find_lines(conv, (z, y), image, weights, &mut lines);
            let first = row * width.output;
            // SAFETY: lines and taps lie within the input and the weights, whose sizes have been
            // shown; rows are disjoint parts of the output.
            unsafe {
                let to = shared.at(first * channels);
                let inside = inside.clone();
                Row { lines: &lines, width, channels, inside, to, first, then }.run();
                finish(rest, first..first + width.output, 0..channels, channels, shared);
            }
        }
    });
}

/// A line of the input, and the weights of the first tap that looks at it.
type Line = (*const f32, *const f32);

/// The input lines that an output line looks at.
fn find_lines(
    conv: &Convolution,
    (z, y): (usize, usize),
    image: &[f32],
    weights: &[f32],
    lines: &mut Vec<Line>,
) {
    let [depth, height, width] = conv.axes;
    lines.clear();
    for kz in 0..depth.taps {
        for ky in 0..height.taps {
            if let (Some(z), Some(y)) = (depth.position(z, kz), height.position(y, ky)) {
                let line = (z * height.input + y) * width.input * conv.inputs;
                let tap = (kz * height.taps + ky) * width.taps * conv.inputs;
                lines.push((image[line..].as_ptr(), weights[tap..].as_ptr()));
            }
        }
    }
}

/// One line of the output.
struct Row<'a> {
    lines: &'a [Line],
    width: Window,
    channels: usize,
    /// The outputs whose taps all lie within the input.
    inside: Range<usize>,
    to: *mut f32,
    /// The first output, counted through all lines.
    first: usize,
    then: Absorbed<'a>,
}

/// Neighbouring outputs, and the taps that they look through.
struct Pixels {
    /// The first output.
    x: usize,
    /// Elements from the start of a line to what its first tap looks at.
    first: usize,
    taps: Range<usize>,
}

impl Row<'_> {
    /// Computes the line.
    ///
    /// # Safety
    /// The lines are as long as the width and the channels tell, and so is the output.
    unsafe fn run(&self) {
        // SAFETY: the caller's promise; `isa` is what the machine has.
        unsafe {
            match isa() {
                #[cfg(target_arch = "x86_64")]
                Isa::Avx512 => avx512(self),
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 => avx2(self),
                _ => self.line::<Narrow>(),
            }
        }
    }

    /// The line, some neighbours at a time where all taps lie within the input.
    ///
    /// # Safety
    /// As [`Row::run`], where the instruction set of `V` is available.
    #[inline(always)]
    unsafe fn line<V: Vector>(&self) {
        let mut x = 0;
        while x < self.width.output {
            let near = if self.inside.contains(&x) { self.inside.end - x } else { 1 };
            let taps = self.width.taps_within(x);
            let first = (x * self.width.stride + taps.start * self.width.dilation) as isize;
            let first = (first + self.width.start).max(0) as usize * self.channels;
            let pixels = Pixels { x, first, taps };
            // SAFETY: the caller's promise; the pixels are within the line.
            unsafe {
                x += match near {
                    8.. => self.channels::<V, 8, 1>(&pixels),
                    4.. => self.channels::<V, 4, 2>(&pixels),
                    2.. => self.channels::<V, 2, 4>(&pixels),
                    _ => self.channels::<V, 1, 4>(&pixels),
                };
            }
        }
    }

    /// `P` neighbours, `L` vectors of channels at a time; returns `P`.
    ///
    /// # Safety
    /// As [`Row::line`].
    #[inline(always)]
    unsafe fn channels<V: Vector, const P: usize, const L: usize>(&self, pixels: &Pixels) -> usize {
        let mut c = 0;
        // SAFETY: the caller's promise.
        unsafe {
            while c + L * V::LANES <= self.channels {
                let load = |from: *const f32, l: usize| V::load(from.add(l * V::LANES));
                self.block::<V, P, L>(pixels, c, L * V::LANES, load);
                c += L * V::LANES;
            }
            while c < self.channels {
                let count = V::LANES.min(self.channels - c);
                self.block::<V, P, 1>(pixels, c, count, |from, _| V::load_some(from, count));
                c += count;
            }
        }
        P
    }

    /// `P` neighbours of `count` channels from `c` on.
    ///
    /// # Safety
    /// As [`Row::line`].
    #[inline(always)]
    unsafe fn block<V: Vector, const P: usize, const L: usize>(
        &self,
        pixels: &Pixels,
        c: usize,
        count: usize,
        load: impl Fn(*const f32, usize) -> V,
    ) {
        let next = self.width.stride * self.channels;
        let step = self.width.dilation * self.channels;
        // SAFETY: the caller's promise.
        unsafe {
            // Loops over indices, not iterators: what is not inlined here is not compiled for the
            // instruction set.
            let mut sums = [[V::zero(); L]; P];
            for &(line, weights) in self.lines {
                let mut from = line.wrapping_add(pixels.first + c);
                let mut weights = weights.wrapping_add(pixels.taps.start * self.channels + c);
                for _ in 0..pixels.taps.len() {
                    for l in 0..L {
                        let weight = load(weights, l);
                        for p in 0..P {
                            sums[p][l] = load(from.add(p * next), l).fma(weight, sums[p][l]);
                        }
                    }
                    // Not beyond the end, even behind the last tap.
                    (from, weights) =
                        (from.wrapping_add(step), weights.wrapping_add(self.channels));
                }
            }
            let out = Out {
                to: self.to.add(pixels.x * self.channels + c),
                stride: self.channels,
                columns: count,
                then: self.then.at(self.first + pixels.x, c),
            };
            store(&out, sums);
        }
    }
}

/// # Safety
/// As [`Row::run`], with AVX-512.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
unsafe fn avx512(row: &Row<'_>) {
    // SAFETY: the caller's promise.
    unsafe { row.line::<crate::simd::Avx512>() }
}

/// # Safety
/// As [`Row::run`], with AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn avx2(row: &Row<'_>) {
    // SAFETY: the caller's promise.
    unsafe { row.line::<crate::simd::Avx2>() }
}

#[cfg(target_arch = "aarch64")]
use crate::simd::Neon as Narrow;
#[cfg(not(target_arch = "aarch64"))]
use crate::simd::Portable as Narrow;
