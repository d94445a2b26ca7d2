//! Convolutions of each channel with a kernel of its own.

use super::Convolution;
use crate::gemm::{Absorbed, Out, Step, Window, finish, store};
#[cfg(target_arch = "x86_64")]
use crate::isa::Isa;
use crate::isa::isa;
use crate::par::{Slice, Threads};
use crate::reduce::{Rows, add_rows};
use crate::simd::Vector;
use std::ops::Range;

/// Multiply-adds that are worth a second thread.
const GRAIN: usize = 1 << 15;

/// Convolves each channel with its own kernel: `weights` holds, for each tap, one element for each
/// channel. Adds tap after tap, from 0. `sums` is empty, or gets the sums of each line of the output,
/// position after position.
///
/// # Panics
/// When a slice is not of the size the convolution is for.
pub(super) fn depthwise(
    conv: &Convolution,
    threads: &Threads,
    (input, weights): (&[f32], &[f32]),
    steps: &[Step<'_>],
    (output, sums): (&mut [f32], &mut [f32]),
) {
    let channels = conv.inputs;
    let width = conv.axes[2];
    assert!(conv.groups == channels && conv.outputs == channels);
    assert_eq!(output.len(), conv.batch * conv.positions() * channels);
    assert_eq!(weights.len(), conv.taps() * channels);
    let positions: usize = conv.axes.iter().map(|a| a.input).product();
    assert_eq!(input.len(), conv.batch * positions * channels);
    if output.is_empty() {
        return;
    }
    let rows = output.len() / (width.output * channels);
    assert!(sums.is_empty() || sums.len() == rows * channels);
    let (then, rest) = Absorbed::of(steps);
    then.check(rows * width.output, channels);
    let sums = (!sums.is_empty()).then(|| Slice::new(sums));
    let work = (conv.taps() * output.len()).max(1);
    let grain = |tasks: usize| GRAIN.div_ceil(work.div_ceil(tasks));
    let whole = Work { conv, input, weights, then, rest, output: Slice::new(output), sums };
    let each = channels_of_part(conv, threads.count());
    if each < channels {
        let parts = channels.div_ceil(each);
        return threads.ranges(parts, grain(parts), |parts| {
            whole.part(0..rows, parts.start * each..channels.min(parts.end * each));
        });
    }
    threads.ranges(rows, grain(rows), |rows| whole.part(rows, 0..channels));
}

/// A convolution under way.
struct Work<'a> {
    conv: &'a Convolution,
    input: &'a [f32],
    weights: &'a [f32],
    then: Absorbed<'a>,
    /// What is done to lines once they are written.
    rest: &'a [Step<'a>],
    output: Slice<f32>,
    sums: Option<Slice<f32>>,
}

impl Work<'_> {
    /// Some channels of some lines of the output, which are no other thread's.
    fn part(&self, rows: Range<usize>, part: Range<usize>) {
        let conv = self.conv;
        let (channels, [depth, height, width]) = (conv.inputs, conv.axes);
        let positions = depth.input * height.input * width.input;
        let mut lines = Vec::with_capacity(conv.taps());
        let mut masks = vec![0u8; width.taps];
        for row in rows {
            let (y, above) = (row % height.output, row / height.output);
            let (z, batch) = (above % depth.output, above / depth.output);
            let image = &self.input[batch * positions * channels..][..positions * channels];
            find_lines(conv, (z, y), image, self.weights, &mut lines);
            let first = row * width.output;
            // SAFETY: lines and taps lie within the input and the weights, whose sizes have been
            // shown; rows, and channels of them, are disjoint parts of the output and of the sums.
            unsafe {
                let to = self.output.at(first * channels);
                let line = Row {
                    lines: &lines,
                    width,
                    channels,
                    part: part.clone(),
                    inside: width.inside(),
                    to,
                    first,
                    then: self.then,
                };
                line.run(&mut masks);
                finish(self.rest, first..first + width.output, part.clone(), channels, self.output);
                if let Some(sums) = self.sums {
                    let sums = sums.at(row * channels + part.start);
                    let sums = std::slice::from_raw_parts_mut(sums, part.len());
                    add_rows(Rows::new(to, channels, width.output), part.start, sums);
                }
            }
        }
    }
}

/// Channels that a thread computes of all lines; all channels where lines are divided instead. Channels
/// are divided where a thread's lines would look at as many again that another thread has written.
fn channels_of_part(conv: &Convolution, threads: usize) -> usize {
    /// Channels of whole cache lines, and vectors.
    const UNIT: usize = 32;
    let [depth, height, _] = conv.axes;
    let seen = height.taps.saturating_sub(1) * height.dilation + 1;
    let beyond = seen.saturating_sub(height.stride);
    let lines = conv.batch * depth.output * height.output * height.stride;
    match threads > 1 && beyond * threads >= lines {
        true => conv.inputs.div_ceil(threads).next_multiple_of(UNIT),
        false => conv.inputs,
    }
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
    /// The channels that are computed.
    part: Range<usize>,
    /// The outputs whose taps all lie within the input.
    inside: Range<usize>,
    to: *mut f32,
    /// The first output, counted through all lines.
    first: usize,
    then: Absorbed<'a>,
}

/// Neighbouring outputs.
struct Pixels<'a> {
    /// The first.
    x: usize,
    /// For each tap which of them look through it at the input, where not all of them do.
    masks: &'a [u8],
}

impl Row<'_> {
    /// Computes the line; `masks` is room for one of each tap.
    ///
    /// # Safety
    /// The lines are as long as the width and the channels tell, and so is the output.
    unsafe fn run(&self, masks: &mut [u8]) {
        // SAFETY: the caller's promise; `isa` is what the machine has.
        unsafe {
            match isa() {
                #[cfg(target_arch = "x86_64")]
                Isa::Avx512 | Isa::Amx => avx512(self, masks),
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 => avx2(self, masks),
                _ => self.line::<Narrow>(masks),
            }
        }
    }

    /// The line, some neighbours at a time: seven where that makes one or two equal parts, as the
    /// last maps of most networks do.
    ///
    /// # Safety
    /// As [`Row::run`], where the instruction set of `V` is available.
    #[inline(always)]
    unsafe fn line<V: Vector>(&self, masks: &mut [u8]) {
        let most = if [7, 14].contains(&self.width.output) { 7 } else { 8 };
        let mut x = 0;
        while x < self.width.output {
            // SAFETY: the caller's promise; the pixels are within the line.
            unsafe {
                x += match (self.width.output - x).min(most) {
                    8 => self.pixels::<V, 8, 1>(x, masks),
                    7 => self.pixels::<V, 7, 1>(x, masks),
                    4.. => self.pixels::<V, 4, 2>(x, masks),
                    2.. => self.pixels::<V, 2, 4>(x, masks),
                    _ => self.pixels::<V, 1, 4>(x, masks),
                };
            }
        }
    }

    /// `P` neighbours from `x` on, `L` vectors of channels at a time; returns `P`.
    ///
    /// # Safety
    /// As [`Row::line`].
    #[inline(always)]
    unsafe fn pixels<V: Vector, const P: usize, const L: usize>(
        &self,
        x: usize,
        masks: &mut [u8],
    ) -> usize {
        let are_inside = self.inside.contains(&x) && x + P <= self.inside.end;
        // SAFETY: the caller's promise.
        unsafe {
            if are_inside {
                self.channels::<V, P, L, false>(&Pixels { x, masks: &[] });
            } else {
                for (tap, mask) in masks.iter_mut().enumerate() {
                    let bit = |p: usize| u8::from(self.width.position(x + p, tap).is_some()) << p;
                    *mask = (0..P).fold(0, |mask, p| mask | bit(p));
                }
                self.channels::<V, P, L, true>(&Pixels { x, masks });
            }
        }
        P
    }

    /// The channels of some pixels, whether all of them look through all taps or not.
    ///
    /// # Safety
    /// As [`Row::line`].
    #[inline(always)]
    unsafe fn channels<V: Vector, const P: usize, const L: usize, const MASKED: bool>(
        &self,
        pixels: &Pixels<'_>,
    ) {
        let (mut c, end) = (self.part.start, self.part.end);
        // SAFETY: the caller's promise.
        unsafe {
            while c + L * V::LANES <= end {
                let load = |from: *const f32, l: usize| V::load(from.add(l * V::LANES));
                self.block::<V, P, L, MASKED>(pixels, (c, L * V::LANES), load);
                c += L * V::LANES;
            }
            while c < end {
                let count = V::LANES.min(end - c);
                let load = |from, _| V::load_some(from, count);
                self.block::<V, P, 1, MASKED>(pixels, (c, count), load);
                c += count;
            }
        }
    }

    /// `count` channels from `c` on.
    ///
    /// # Safety
    /// As [`Row::line`].
    #[inline(always)]
    unsafe fn block<V: Vector, const P: usize, const L: usize, const MASKED: bool>(
        &self,
        pixels: &Pixels<'_>,
        (c, count): (usize, usize),
        load: impl Fn(*const f32, usize) -> V,
    ) {
        let next = self.width.stride * self.channels;
        let step = self.width.dilation * self.channels;
        // Before the line, if the first tap of the first pixel lies there.
        let first = (pixels.x * self.width.stride) as isize + self.width.start;
        let first = first * self.channels as isize + c as isize;
        // SAFETY: the caller's promise; taps outside the input are masked.
        unsafe {
            // Loops over indices, not iterators: what is not inlined here is not compiled for the
            // instruction set.
            let mut sums = [[V::zero(); L]; P];
            let all = u8::MAX >> (8 - P);
            for &(line, weights) in self.lines {
                let mut from = line.wrapping_offset(first);
                let mut weights = weights.wrapping_add(c);
                for tap in 0..self.width.taps {
                    let mask = if MASKED { pixels.masks[tap] } else { all };
                    for l in 0..L {
                        let weight = load(weights, l);
                        if mask == all {
                            for p in 0..P {
                                let value = load(from.wrapping_add(p * next), l);
                                sums[p][l] = value.fma(weight, sums[p][l]);
                            }
                            continue;
                        }
                        for p in 0..P {
                            if mask >> p & 1 == 1 {
                                let value = load(from.wrapping_add(p * next), l);
                                sums[p][l] = value.fma(weight, sums[p][l]);
                            }
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
unsafe fn avx512(row: &Row<'_>, masks: &mut [u8]) {
    // SAFETY: the caller's promise.
    unsafe { row.line::<crate::simd::Avx512>(masks) }
}

/// # Safety
/// As [`Row::run`], with AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn avx2(row: &Row<'_>, masks: &mut [u8]) {
    // SAFETY: the caller's promise.
    unsafe { row.line::<crate::simd::Avx2>(masks) }
}

#[cfg(target_arch = "aarch64")]
use crate::simd::Neon as Narrow;
#[cfg(not(target_arch = "aarch64"))]
use crate::simd::Portable as Narrow;
