//! Depthwise convolutions, and those with few channels per group. A vector holds the channels of
//! several groups; several neighbouring outputs are computed together.

mod line;
mod source;
pub(crate) mod tile;

pub use source::DepthwiseInput;
pub(super) use tile::{accepts_quantized, group_channels};

use crate::base::par::{Slice, Threads};
use crate::base::workers::Workers;
use crate::conv::problem::Convolution;
use crate::conv::tuning::{DEPTHWISE_GRAIN, DEPTHWISE_QUANTIZED_PARTS};
use crate::gemm::{PostOp, RegisterPostOps, Window};
use crate::math::quantize::Output;
use crate::reduce::{ReducedRows, add_rows};
use line::Row;
use source::{Source, To};
use std::ops::Range;
use tile::InputLine;

/// Packs filters for [`depthwise`]: for each line of taps, input of a group, and tap, one element
/// per channel. They are given by channel, then input of the group, then tap.
///
/// # Panics
/// When there are too few.
pub(crate) fn pack_weights(conv: &Convolution, each: usize, filters: &[f32], to: &mut [f32]) {
    let (taps, channels, along) = (conv.taps(), conv.outputs, conv.axes[2].taps);
    if taps == 0 {
        return;
    }
    for (i, to) in to.chunks_exact_mut(channels).enumerate() {
        let (line, input, tap) = (i / along / each, i / along % each, i % along);
        for (c, to) in to.iter_mut().enumerate() {
            *to = filters[(c * each + input) * taps + line * along + tap];
        }
    }
}

/// Convolves each channel with its kernel for each input of its group. `weights` come from
/// [`pack_weights`]. A sum runs over lines of taps, then inputs of the group, then taps of the
/// line, from 0. Unless `sums` is empty, it gets the sums of each output line over its positions,
/// in order.
/// # Panics
/// When a slice does not have the size of the convolution, or the data are quantized and it does
/// not [`accepts_quantized`].
pub(crate) fn depthwise(
    conv: &Convolution,
    Workers { threads, scratch }: Workers<'_>,
    (input, weights): (DepthwiseInput<'_>, &[f32]),
    post_ops: &[PostOp<'_>],
    (output, sums): (Output<'_>, &mut [f32]),
) {
    let channels = conv.inputs;
    let width = conv.axes[2];
    assert_eq!(conv.outputs, channels);
    let inputs = group_channels(conv).expect("a depthwise convolution");
    assert!(conv.axes.iter().all(Window::is_countable), "positions cannot be counted");
    assert_eq!(output.len(), conv.batch * conv.positions() * channels);
    assert_eq!(weights.len(), conv.taps() * channels * inputs);
    let positions: usize = conv.axes.iter().map(|a| a.input).product();
    input.check(conv, conv.batch * positions * channels);
    if output.len() == 0 {
        return;
    }
    let rows = output.len() / (width.output * channels);
    assert!(sums.is_empty() || sums.len() == rows * channels);
    let (absorbed, rest) = RegisterPostOps::of(post_ops);
    absorbed.check(rows * width.output, channels);
    let sums = (!sums.is_empty()).then(|| Slice::new(sums));
    let work = (conv.taps() * inputs * output.len()).max(1);
    let grain = |tasks: usize| DEPTHWISE_GRAIN.div_ceil(work.div_ceil(tasks));
    let lens = (input.scratch_len(conv), source::scratch_len(conv, &output));
    let mut space = scratch.take::<f32>((lens.0 + lens.1) * threads.count());
    let space = Slice::new(&mut space);
    let workspace = |worker: usize| {
        let len = lens.0 + lens.1;
        // SAFETY: no two threads are the same worker at a time.
        let own = unsafe { space.part(worker * len, len) };
        own.split_at_mut(lens.0)
    };
    let output = To::new(output);
    let whole = Work { conv, each: inputs, input, weights, absorbed, rest, output, sums };
    let own = channels_of_part(conv, threads.count());
    if own < channels {
        let parts = channels.div_ceil(own);
        return threads.par_ranges_with(parts, grain(parts), |parts, worker| {
            let channels = parts.start * own..channels.min(parts.end * own);
            whole.part((0..rows, channels), workspace(worker));
        });
    }
    // Lines at the borders of parts are dequantized twice, so parts must not be small.
    let least =
        if lens.0 > 0 { rows.div_ceil(DEPTHWISE_QUANTIZED_PARTS * threads.count()) } else { 1 };
    threads.par_ranges_with(rows, grain(rows).max(least), |rows, worker| {
        whole.part((rows, 0..channels), workspace(worker));
    });
}

/// Elements of scratch memory on this many threads, for quantized data and a quantized output.
pub(crate) fn quantized_scratch_len(conv: &Convolution, threads: usize) -> usize {
    (source::dequantized_len(conv) + source::output_line_len(conv)) * threads
}

/// Repeats each element two to four times, until `to` is full.
///
/// # Panics
/// When `to` has another size.
pub(super) fn repeat(threads: &Threads, from: &[f32], to: &mut [f32]) {
    let Some(each) = to.len().checked_div(from.len()) else { return };
    assert_eq!(to.len(), from.len() * each);
    match each {
        2 => repeat_each::<2>(threads, from, to),
        3 => repeat_each::<3>(threads, from, to),
        4 => repeat_each::<4>(threads, from, to),
        _ => unreachable!("channels have two to four filters"),
    }
}

/// Repeats each element `EACH` times.
fn repeat_each<const EACH: usize>(threads: &Threads, from: &[f32], to: &mut [f32]) {
    threads.par_chunks_mut(to, EACH, DEPTHWISE_GRAIN, |first, part| {
        for (to, value) in part.chunks_exact_mut(EACH).zip(&from[first..]) {
            to.fill(*value);
        }
    });
}

/// A convolution that is running.
struct Work<'a> {
    conv: &'a Convolution,
    /// Channels of a group.
    each: usize,
    input: DepthwiseInput<'a>,
    weights: &'a [f32],
    absorbed: RegisterPostOps<'a>,
    /// Post-ops that are applied to lines once they are written.
    rest: &'a [PostOp<'a>],
    output: To<'a>,
    sums: Option<Slice<f32>>,
}

impl Work<'_> {
    /// Computes some channels of some lines of the output. If data or results are quantized,
    /// `values` holds lines of the input, and `line_scratch` one line of the output.
    fn part(
        &self,
        (rows, part): (Range<usize>, Range<usize>),
        (values, line_scratch): (&mut [f32], &mut [f32]),
    ) {
        let conv = self.conv;
        let (channels, [depth, height, width]) = (conv.inputs, conv.axes);
        let mut lines = Vec::with_capacity(conv.taps());
        let mut masks = vec![0u8; width.taps];
        let mut source = Source::new(self.input, conv, part.clone(), values);
        for row in rows {
            let (y, above) = (row % height.output, row / height.output);
            let (z, batch) = (above % depth.output, above / depth.output);
            self.find_lines(batch, (z, y), &mut source, &mut lines);
            let first = row * width.output;
            // SAFETY: lines and taps are within the input and the weights, whose sizes have been
            // checked; rows, and channels of them, are disjoint parts of the output and of the
            // sums.
            unsafe {
                let to = self.output.line(first * channels, line_scratch);
                let line = Row {
                    lines: &lines,
                    width,
                    channels,
                    each: self.each,
                    part: part.clone(),
                    inside: width.inside(),
                    to,
                    first,
                    absorbed: self.absorbed,
                };
                line.run(&mut masks);
                self.output.finish(self.rest, first, (width.output, channels), &part, to);
                if let Some(sums) = self.sums {
                    let sums = sums.part(row * channels + part.start, part.len());
                    add_rows(ReducedRows::new(to, channels, width.output), part.start, sums);
                }
            }
        }
    }

    /// Finds the lines of an image that an output line reads.
    fn find_lines(
        &self,
        batch: usize,
        (z, y): (usize, usize),
        source: &mut Source<'_>,
        lines: &mut Vec<InputLine>,
    ) {
        let [depth, height, width] = self.conv.axes;
        lines.clear();
        for kz in 0..depth.taps {
            for ky in 0..height.taps {
                if let (Some(z), Some(y)) = (depth.position(z, kz), height.position(y, ky)) {
                    let tap = (kz * height.taps + ky) * width.taps * self.each * self.conv.inputs;
                    let values = source.line((batch * depth.input + z) * height.input + y);
                    lines.push(InputLine { values, weights: self.weights[tap..].as_ptr() });
                }
            }
        }
    }
}

/// Channels in one part of the work; all of them if lines are divided instead. Channels are divided
/// if each thread would read as many lines from other threads' caches as it has lines of its own.
fn channels_of_part(conv: &Convolution, threads: usize) -> usize {
    /// Channels are divided at multiples of this: two cache lines.
    const UNIT: usize = 32;
    /// Parts per thread.
    const PARTS: usize = 3;
    let [depth, height, _] = conv.axes;
    let beyond = height.span().saturating_sub(height.stride);
    let lines = conv.batch * depth.output * height.output * height.stride;
    if threads > 1 && beyond * threads >= lines {
        conv.inputs.div_ceil(threads * PARTS).next_multiple_of(UNIT)
    } else {
        conv.inputs
    }
}
