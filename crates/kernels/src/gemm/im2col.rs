//! Implicit im2col: the windows of a convolution as rows of a matrix that is never stored.
//!
//! Row `i` is the window of output `i`, in the order of the output's axes. Its elements are the
//! channels under each tap. In NHWC the channels of a tap are one run of consecutive elements; in
//! NCHW each element is a run. A tap outside the input is a run of zeros.

use super::k_blocks::KBlocks;
use std::ops::Range;

/// The windows along one spatial axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Size of the input.
    pub input: usize,
    /// Size of the output.
    pub output: usize,
    /// Taps of the kernel.
    pub taps: usize,
    /// Distance from window to window.
    pub stride: usize,
    /// Distance from tap to tap.
    pub dilation: usize,
    /// Position of the first tap of the first window; negative if it lies before the input.
    pub start: isize,
}

/// The positions of a line that windows reach: padding, a part of the input, and padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PaddedLine {
    /// Positions of padding before the input.
    pub(crate) before: usize,
    /// Positions of the input before the first that windows reach.
    pub(crate) skipped: usize,
    /// Positions of the input from there on that windows reach.
    pub(crate) count: usize,
}

/// The windows of a convolution over one to three axes.
#[derive(Clone, Debug)]
pub struct Im2col<'a> {
    /// The input: batch, axes and channels, at these `strides`.
    pub input: &'a [f32],
    /// The spatial axes, outermost first, filled up to three with axes of size 1.
    pub axes: [Window; 3],
    /// The strides of the input.
    pub strides: InputStrides,
    /// The channels that are read under each tap.
    pub channels: Range<usize>,
    /// Zeros for taps outside the input: at least one for each channel.
    pub zeros: &'a [f32],
}

/// Strides of the input of a convolution, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputStrides {
    /// From one image of the batch to the next.
    pub image: usize,
    /// From one position of the innermost axis to the next.
    pub position: usize,
    /// From one channel to the next.
    pub channel: usize,
}

impl InputStrides {
    /// Strides of NHWC.
    pub fn channels_last(positions: usize, channels: usize) -> InputStrides {
        InputStrides { image: positions * channels, position: channels, channel: 1 }
    }

    /// Strides of NCHW.
    pub fn channels_first(positions: usize, channels: usize) -> InputStrides {
        InputStrides { image: positions * channels, position: 1, channel: positions }
    }
}

/// Consecutive windows of one output line, all with their taps within the input along the line.
/// Each run of a window begins `step` elements behind the same run of the window before.
pub(super) struct Line {
    /// Number of runs.
    pub(super) runs: usize,
    /// Elements from one window to the next.
    pub(super) step: usize,
    /// Elements from one element of a run to the next.
    pub(super) inner: usize,
    /// The window that the pointers are set for.
    first: usize,
    /// One past the last window.
    end: usize,
}

/// How windows are grouped into blocks of rows.
pub(super) struct Groups {
    /// Windows in an output line.
    width: usize,
    ends: Ends,
}

/// What ends a block of windows before it has all the rows that fit.
enum Ends {
    /// Nothing.
    Anywhere,
    /// The end of the line. All windows lie within the input along the line, and its blocks are of
    /// equal size.
    Even,
    /// These positions of the line.
    At([usize; 3]),
}

impl Groups {
    /// How many of the next `rows` windows make the next block.
    pub(super) fn next(&self, first: usize, rows: usize) -> usize {
        match self.ends {
            Ends::Anywhere => rows,
            Ends::Even => {
                // Windows of one line need no pointers of their own, which is worth somewhat
                // smaller blocks.
                let left = self.width - first % self.width;
                let on_line = left.div_ceil(left.div_ceil(rows.max(1)));
                if 3 * on_line >= 2 * rows { on_line } else { rows }
            }
            Ends::At(ends) => {
                let x = first % self.width;
                let bound = ends.into_iter().find(|end| *end > x);
                bound.map_or(rows, |end| rows.min(end - x))
            }
        }
    }
}

/// Below this many elements, a run is too short for a pointer of its own.
const SHORT_RUN: usize = 8;

impl Im2col<'_> {
    /// Taps of the kernel.
    fn taps(&self) -> usize {
        self.axes.iter().map(|a| a.taps).product()
    }

    /// Outputs of one image.
    fn outputs(&self) -> usize {
        self.axes.iter().map(|a| a.output).product()
    }

    fn positions(&self) -> usize {
        self.axes.iter().map(|a| a.input).product()
    }

    /// Runs of consecutive elements under one tap, and their length.
    fn split(&self) -> (usize, usize) {
        let channels = self.channels.len();
        if self.strides.channel == 1 { (1, channels) } else { (channels, 1) }
    }

    /// Runs of a window.
    pub(super) fn runs(&self) -> usize {
        self.taps() * self.split().0
    }

    /// The blocks of a window along k.
    pub(super) fn k_blocks(&self) -> KBlocks {
        let ([_, _, width], channels) = (self.axes, self.channels.len());
        KBlocks::of_window(self.taps() * channels, width.taps * channels, channels)
    }

    /// Whether the taps along the last axis are contiguous in memory.
    pub(super) fn is_dense(&self) -> bool {
        let [_, _, width] = self.axes;
        width.dilation == 1 && self.reads_all()
    }

    /// Whether all channels are read, and are contiguous.
    pub(super) fn reads_all(&self) -> bool {
        self.strides.channel == 1 && self.channels.len() == self.strides.position
    }

    /// Panics unless there are `m` windows of `k` elements.
    pub(super) fn check(&self, m: usize, k: usize) {
        assert!(self.axes.iter().all(Window::is_countable), "positions cannot be counted");
        let taps =
            self.axes.iter().try_fold(self.channels.len(), |n, axis| n.checked_mul(axis.taps));
        assert_eq!(taps, Some(k), "the windows have another size");
        let batch = m.checked_div(self.outputs()).unwrap_or(0);
        assert_eq!(batch * self.outputs(), m, "the windows have another number");
        let InputStrides { image, position, channel } = self.strides;
        let last = self.channels.end.saturating_sub(1).saturating_mul(channel);
        let reach = self.last().saturating_mul(position).saturating_add(last);
        let is_read = k > 0 && m > 0 && self.positions() > 0;
        assert!(!is_read || reach < image, "A is too short");
        let least = batch.saturating_mul(image);
        assert!(m == 0 || self.input.len() >= least, "A is too short");
        assert!(self.zeros.len() >= self.channels.len(), "there are too few zeros");
    }

    /// The last position under a tap.
    fn last(&self) -> usize {
        let within =
            |all: usize, axis: &Window| all.saturating_mul(axis.input).saturating_add(axis.last());
        self.axes.iter().fold(0, within)
    }

    /// The image in the batch, and the output position along each axis, of a window.
    fn window(&self, index: usize) -> (usize, [usize; 3]) {
        let [_, height, width] = self.axes;
        let (batch, rest) = (index / self.outputs(), index % self.outputs());
        let (x, rest) = (rest % width.output, rest / width.output);
        (batch, [rest / height.output, rest % height.output, x])
    }

    /// Calls `f` for each input line under the window at outputs `z` and `y`: with a pointer to its
    /// first channel, or `None` for a line outside the input.
    #[inline(always)]
    fn lines(&self, batch: usize, z: usize, y: usize, mut f: impl FnMut(Option<*const f32>)) {
        let [depth, height, width] = self.axes;
        let image = batch * self.strides.image + self.channels.start * self.strides.channel;
        for kz in 0..depth.taps {
            let plane = depth.position(z, kz);
            for ky in 0..height.taps {
                let line = plane.zip(height.position(y, ky)).map(|(z, y)| z * height.input + y);
                // `check` has shown that every position lies within the input.
                f(line.map(|line| {
                    let at = image + line * width.input * self.strides.position;
                    self.input.as_ptr().wrapping_add(at)
                }));
            }
        }
    }

    /// Writes pointers to the runs of windows `first..first + rows`, all windows of one run before
    /// the next run. The first pointer of a run is null if it lies outside the input for all
    /// windows.
    pub(super) fn pointers(&self, first: usize, rows: usize, to: &mut [*const f32]) {
        let [depth, height, width] = self.axes;
        let (split, _) = self.split();
        assert!(to.len() >= rows * self.runs());
        let (mut batch, [mut z, mut y, mut x]) = self.window(first);
        for i in 0..rows {
            let mut at = i;
            self.lines(batch, z, y, |line| {
                for kx in 0..width.taps {
                    let tap = line.zip(width.position(x, kx));
                    let tap = tap.map(|(line, x)| line.wrapping_add(x * self.strides.position));
                    for channel in 0..split {
                        let run =
                            |tap: *const f32| tap.wrapping_add(channel * self.strides.channel);
                        to[at] = tap.map_or(self.zeros.as_ptr(), run);
                        at += rows;
                    }
                }
            });
            // The next window, without a division.
            x += 1;
            if x == width.output {
                (x, y) = (0, y + 1);
            }
            if y == height.output {
                (y, z) = (0, z + 1);
            }
            if z == depth.output {
                (z, batch) = (0, batch + 1);
            }
        }
        for run in to.chunks_exact_mut(rows.max(1)).take(self.runs()) {
            if run.iter().all(|pointer| *pointer == self.zeros.as_ptr()) {
                run[0] = std::ptr::null();
            }
        }
    }

    /// How windows are grouped into blocks of rows.
    pub(super) fn groups(&self) -> Groups {
        let [_, _, width] = self.axes;
        let inside = width.inside();
        let have_runs =
            self.strides.channel == 1 && (self.channels.len() >= SHORT_RUN || !self.is_dense());
        let ends = if !have_runs {
            // Short runs need many pointers. Splitting lines where the input ends leaves few
            // windows that need them.
            Ends::At([inside.start, inside.end, width.output])
        } else if inside == (0..width.output) {
            Ends::Even
        } else {
            Ends::Anywhere
        };
        Groups { width: width.output, ends }
    }

    /// The rest of the output line from window `first` on, with pointers to the runs of this
    /// window, null for lines outside the input. `None` if a tap lies outside the input along the
    /// line.
    fn line_from(&self, first: usize, to: &mut [*const f32]) -> Option<Line> {
        let [_, _, width] = self.axes;
        let (batch, [z, y, x]) = self.window(first);
        let inside = width.inside();
        if !inside.contains(&x) {
            return None;
        }
        let taps = if self.is_dense() { 1 } else { width.taps };
        let mut runs = 0;
        self.lines(batch, z, y, |line| {
            for kx in 0..taps {
                let tap = line.zip(width.position(x, kx));
                let run = tap.map(|(line, x)| line.wrapping_add(x * self.strides.position));
                to[runs] = run.unwrap_or(std::ptr::null());
                runs += 1;
            }
        });
        let step = width.stride * self.strides.position;
        let end = first + inside.end - x;
        Some(Line { runs, step, inner: self.strides.channel, first, end })
    }

    /// The line that holds windows `first..first + rows`; `None` if they are on several lines or a
    /// tap lies outside the input along the line. `known` is the last result for the same pointers.
    pub(super) fn line(
        &self,
        (first, rows): (usize, usize),
        known: Option<Line>,
        pointers: &mut [*const f32],
    ) -> Option<Line> {
        let line = match known {
            Some(line) if (line.first..line.end).contains(&first) => {
                let moved = (first - line.first) * line.step;
                for pointer in pointers[..line.runs].iter_mut().filter(|p| !p.is_null()) {
                    *pointer = pointer.wrapping_add(moved);
                }
                Line { first, ..line }
            }
            _ => self.line_from(first, pointers)?,
        };
        (first + rows <= line.end).then_some(line)
    }
}

impl Window {
    /// The window of an axis that does not exist.
    pub const NONE: Window =
        Window { input: 1, output: 1, taps: 1, stride: 1, dilation: 1, start: 0 };

    /// Whether every position under a tap, within the input or not, fits `isize`: which taps lie
    /// within the input is computed so.
    pub(crate) fn is_countable(&self) -> bool {
        let most = isize::MAX as usize / 2;
        self.reach() <= most && self.input <= most && self.start.unsigned_abs() <= most
    }

    /// The same windows over an input that includes its padding.
    pub(crate) fn with_zeros(self) -> Window {
        let before = self.start.min(0).unsigned_abs();
        let reach = self.reach().saturating_add(self.start.max(0).unsigned_abs());
        let input = self.input.saturating_add(before).max(reach);
        Window { input, start: self.start.max(0), ..self }
    }

    /// Position of tap `tap` of window `output`, if within the input.
    #[inline]
    pub fn position(&self, output: usize, tap: usize) -> Option<usize> {
        let at = (output * self.stride + tap * self.dilation) as isize + self.start;
        (at >= 0 && (at as usize) < self.input).then_some(at as usize)
    }

    /// The last position under a tap that lies within the input; 0 if none does.
    fn last(&self) -> usize {
        let last = (self.reach() - 1).saturating_add_signed(self.start);
        last.min(self.input.saturating_sub(1))
    }

    /// Positions from the first tap of the first window to the last tap of the last, including
    /// those outside the input. At least 1; saturates.
    pub(crate) fn reach(&self) -> usize {
        let outputs = (self.output.max(1) - 1).saturating_mul(self.stride);
        outputs.saturating_add(self.span())
    }

    /// Positions from the first tap of a window to its last, including those between taps. At least
    /// 1; saturates.
    pub(crate) fn span(&self) -> usize {
        (self.taps.max(1) - 1).saturating_mul(self.dilation).saturating_add(1)
    }

    /// The part of a line that windows reach.
    pub(crate) fn line(&self) -> PaddedLine {
        let before = self.start.min(0).unsigned_abs().min(self.reach());
        let skipped = self.start.max(0).unsigned_abs();
        let count = self.input.saturating_sub(skipped).min(self.reach() - before);
        PaddedLine { before, skipped, count }
    }

    /// The position in the input that is `offset` positions after the first tap of the first
    /// window; `None` if it is padding.
    pub(crate) fn input_at(&self, offset: usize) -> Option<usize> {
        offset.checked_add_signed(self.start).filter(|at| *at < self.input)
    }

    /// The taps of window `output` that lie within the input.
    pub fn taps_within(&self, output: usize) -> Range<usize> {
        let first = (output * self.stride) as isize + self.start;
        within(first, self.dilation, self.taps, self.input)
    }

    /// The windows with all their taps within the input.
    pub fn inside(&self) -> Range<usize> {
        let first = self.outputs_within(0);
        let last = self.outputs_within(self.taps.max(1) - 1);
        first.start.max(last.start)..first.end.min(last.end)
    }

    /// The windows with tap `tap` within the input.
    pub fn outputs_within(&self, tap: usize) -> Range<usize> {
        let first = (tap * self.dilation) as isize + self.start;
        within(first, self.stride, self.output, self.input)
    }
}

/// The indices below `count` with `first + index · step` in `0..size`.
fn within(first: isize, step: usize, count: usize, size: usize) -> Range<usize> {
    let below = |limit: isize| (limit.max(0) as usize).div_ceil(step).min(count);
    let end = below(size as isize - first);
    below(-first).min(end)..end
}
