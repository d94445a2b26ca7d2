//! Convolutions of each channel with a kernel of its own, or of groups of few channels: vectors of
//! channels, which are those of several groups, at neighbouring positions.

mod line;
mod source;

pub use source::DepthwiseInput;

use super::Convolution;
use crate::base::par::{Slice, Threads};
use crate::base::scratch::ScratchPool;
use crate::gemm::{RegisterPostOps, Step};
use crate::math::quantize::Output;
use crate::reduce::{Rows, add_rows};
use line::Row;
use source::{Source, To};
use std::ops::Range;

/// Multiply-adds that are worth a second thread.
const GRAIN: usize = 1 << 15;

/// Parts of a thread, at most, where lines are levels.
const LEVEL_PARTS: usize = 2;

/// Channels of a group, at most.
pub(super) const MOST_EACH: usize = 8;

/// Channels of each group, if the convolution is computed here: as many inputs as outputs, and a
/// vector holds whole groups, or a group whole vectors.
pub(super) fn each(conv: &Convolution) -> Option<usize> {
    let (inputs, outputs) = conv.group();
    let suits = |each: &usize| each.is_power_of_two() && *each <= MOST_EACH;
    Some(inputs).filter(|_| conv.groups > 1 && inputs == outputs).filter(suits)
}

/// Filters as [`depthwise`] takes them, given for each channel, for each input of its group, tap by
/// tap: for each line of taps, for each input, for each tap one element for each channel.
///
/// # Panics
/// When there are too few.
pub(super) fn pack_weights(conv: &Convolution, each: usize, filters: &[f32], to: &mut [f32]) {
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

/// Whether it can read levels: of one line of them at a time, not of several planes.
pub(super) fn accepts_quantized(conv: &Convolution) -> bool {
    each(conv).is_some() && conv.axes[0].taps == 1
}

/// Convolves each channel with its own kernel for each input of its group: `weights` as [`pack_weights`]
/// writes them. Adds line of taps after line of taps, from 0; of each line one input of the group
/// after the other. `sums` is empty, or gets the sums of each line of the output,
/// position after position.
///
/// # Panics
/// When a slice is not of the size the convolution is for, or it cannot read levels.
pub(super) fn depthwise(
    conv: &Convolution,
    (threads, scratch): (&Threads, &ScratchPool),
    (input, weights): (DepthwiseInput<'_>, &[f32]),
    steps: &[Step<'_>],
    (output, sums): (Output<'_>, &mut [f32]),
) {
    let channels = conv.inputs;
    let width = conv.axes[2];
    assert_eq!(conv.outputs, channels);
    let inputs = each(conv).expect("few channels in each group, as many as it gives");
    assert_eq!(output.len(), conv.batch * conv.positions() * channels);
    assert_eq!(weights.len(), conv.taps() * channels * inputs);
    let positions: usize = conv.axes.iter().map(|a| a.input).product();
    input.check(conv, conv.batch * positions * channels);
    if output.len() == 0 {
        return;
    }
    let rows = output.len() / (width.output * channels);
    assert!(sums.is_empty() || sums.len() == rows * channels);
    let (then, rest) = RegisterPostOps::of(steps);
    then.check(rows * width.output, channels);
    let sums = (!sums.is_empty()).then(|| Slice::new(sums));
    let work = (conv.taps() * inputs * output.len()).max(1);
    let grain = |tasks: usize| GRAIN.div_ceil(work.div_ceil(tasks));
    let rooms = (input.room(conv), source::room(conv, &output));
    let mut space = scratch.take::<f32>((rooms.0 + rooms.1) * threads.count());
    let space = Slice::new(&mut space);
    let room = |worker: usize| {
        let len = rooms.0 + rooms.1;
        // SAFETY: no two threads are the same worker at a time.
        let own = unsafe { std::slice::from_raw_parts_mut(space.at(worker * len), len) };
        own.split_at_mut(rooms.0)
    };
    let output = To::new(output);
    let whole = Work { conv, each: inputs, input, weights, then, rest, output, sums };
    let own = channels_of_part(conv, threads.count());
    if own < channels {
        let parts = channels.div_ceil(own);
        return threads.par_ranges_with(parts, grain(parts), |parts, worker| {
            let channels = parts.start * own..channels.min(parts.end * own);
            whole.part((0..rows, channels), room(worker));
        });
    }
    // Lines at the borders of parts become values twice.
    let least = if rooms.0 > 0 { rows.div_ceil(LEVEL_PARTS * threads.count()) } else { 1 };
    threads.par_ranges_with(rows, grain(rows).max(least), |rows, worker| {
        whole.part((rows, 0..channels), room(worker));
    });
}

/// Writes each element two to four times, next to each other, as often as makes `to` full.
///
/// # Panics
/// When `to` is of another size.
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

/// Writes each element `EACH` times, a number that the compiler knows.
fn repeat_each<const EACH: usize>(threads: &Threads, from: &[f32], to: &mut [f32]) {
    threads.par_chunks_mut(to, EACH, GRAIN, |first, part| {
        for (to, value) in part.chunks_exact_mut(EACH).zip(&from[first..]) {
            to.fill(*value);
        }
    });
}

/// A convolution under way.
struct Work<'a> {
    conv: &'a Convolution,
    /// Channels of a group.
    each: usize,
    input: DepthwiseInput<'a>,
    weights: &'a [f32],
    then: RegisterPostOps<'a>,
    /// What is done to lines once they are written.
    rest: &'a [Step<'a>],
    output: To<'a>,
    sums: Option<Slice<f32>>,
}

impl Work<'_> {
    /// Some channels of some lines of the output, which are no other thread's. There is room for lines
    /// of the input and for one of the output, where they are levels.
    fn part(
        &self,
        (rows, part): (Range<usize>, Range<usize>),
        (values, line_room): (&mut [f32], &mut [f32]),
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
            // SAFETY: lines and taps lie within the input and the weights, whose sizes have been
            // shown; rows, and channels of them, are disjoint parts of the output and of the sums.
            unsafe {
                let to = self.output.line(first * channels, line_room);
                let line = Row {
                    lines: &lines,
                    width,
                    channels,
                    each: self.each,
                    part: part.clone(),
                    inside: width.inside(),
                    to,
                    first,
                    then: self.then,
                };
                line.run(&mut masks);
                self.output.finish(self.rest, first, (width.output, channels), &part, to);
                if let Some(sums) = self.sums {
                    let sums = sums.at(row * channels + part.start);
                    let sums = std::slice::from_raw_parts_mut(sums, part.len());
                    add_rows(Rows::new(to, channels, width.output), part.start, sums);
                }
            }
        }
    }

    /// The lines of an element of the batch that an output line looks at.
    fn find_lines(
        &self,
        batch: usize,
        (z, y): (usize, usize),
        source: &mut Source<'_>,
        lines: &mut Vec<Line>,
    ) {
        let [depth, height, width] = self.conv.axes;
        lines.clear();
        for kz in 0..depth.taps {
            for ky in 0..height.taps {
                if let (Some(z), Some(y)) = (depth.position(z, kz), height.position(y, ky)) {
                    let tap = (kz * height.taps + ky) * width.taps * self.each * self.conv.inputs;
                    let line = source.line((batch * depth.input + z) * height.input + y);
                    lines.push((line, self.weights[tap..].as_ptr()));
                }
            }
        }
    }
}

/// A line of the input, and the weights of the first tap that looks at it.
type Line = (*const f32, *const f32);

/// Channels that are computed of all lines at once; all channels where lines are divided instead. Channels
/// are divided where a thread's lines would look at as many again that another thread has written.
fn channels_of_part(conv: &Convolution, threads: usize) -> usize {
    /// Channels of whole cache lines, and vectors.
    const UNIT: usize = 32;
    /// Parts of a thread: all lines of some channels meet the other thread's lines sooner than the
    /// first lines of all channels do.
    const PARTS: usize = 3;
    let [depth, height, _] = conv.axes;
    let seen = height.taps.saturating_sub(1) * height.dilation + 1;
    let beyond = seen.saturating_sub(height.stride);
    let lines = conv.batch * depth.output * height.output * height.stride;
    match threads > 1 && beyond * threads >= lines {
        true => conv.inputs.div_ceil(threads * PARTS).next_multiple_of(UNIT),
        false => conv.inputs,
    }
}
