//! The windows of a convolution as rows of a matrix that is never written down.
//!
//! Row `i` of the matrix is output `i`, in the order of the output's axes; its elements are the
//! channels under each tap. Where the input lies with its channels last, these are a run of
//! consecutive elements; where each channel is a plane of its own, a run is one element. A tap
//! outside the input is a run of zeros.

use std::ops::Range;

/// The window along one spatial axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Positions of the input.
    pub input: usize,
    /// Positions of the output.
    pub output: usize,
    /// Taps of the kernel.
    pub taps: usize,
    /// Distance between windows.
    pub stride: usize,
    /// Distance between taps.
    pub dilation: usize,
    /// Where the first tap of the first window lies, before the input if negative.
    pub start: isize,
}

/// The windows of a convolution over one to three axes.
#[derive(Clone, Debug)]
pub struct Im2col<'a> {
    /// The input: batch, axes, channels, in the order that `place` tells.
    pub input: &'a [f32],
    /// The axes, outermost first; axes of size 1 make them three.
    pub axes: [Window; 3],
    /// Where its elements lie.
    pub place: InputStrides,
    /// The first channel, and how many there are under one tap.
    pub channels: (usize, usize),
    /// At least as many zeros as there are channels.
    pub zeros: &'a [f32],
}

/// Distances between neighbours in the input of a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputStrides {
    /// From one element of the batch to the next.
    pub image: usize,
    /// From one position of the innermost axis to the next.
    pub position: usize,
    /// From one channel to the next.
    pub channel: usize,
}

impl InputStrides {
    /// Where the channels are the last axis.
    pub fn channels_last(positions: usize, channels: usize) -> InputStrides {
        InputStrides { image: positions * channels, position: channels, channel: 1 }
    }

    /// Where the channels lie before the axes.
    pub fn channels_first(positions: usize, channels: usize) -> InputStrides {
        InputStrides { image: positions * channels, position: 1, channel: positions }
    }
}

/// Windows on one line whose taps lie within the input along it: each run of one begins as many
/// elements behind that of its neighbour.
pub(super) struct Line {
    /// Number of runs.
    pub(super) runs: usize,
    /// Elements from window to window.
    pub(super) step: usize,
    /// Elements from one of a run to the next.
    pub(super) inner: usize,
    /// The window that the pointers are for.
    first: usize,
    /// The window behind the last.
    end: usize,
}

/// How windows are grouped into blocks of rows.
pub(super) struct Groups {
    /// Windows of a line.
    width: usize,
    ends: Ends,
}

/// Where a group of windows ends before it has all that it may have.
enum Ends {
    /// Nowhere.
    Anywhere,
    /// With the line, all of whose windows lie within the input along it, in groups of one size.
    Even,
    /// At these places of a line.
    At([usize; 3]),
}

impl Groups {
    /// How many of the next `rows` windows make the next block.
    pub(super) fn next(&self, first: usize, rows: usize) -> usize {
        match self.ends {
            Ends::Anywhere => rows,
            Ends::Even => {
                // Windows on a line need no pointers of their own, which is worth somewhat fewer
                // rows.
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

/// Below so many elements, runs are too short to be taken one by one.
const SHORT_RUN: usize = 8;

impl Im2col<'_> {
    /// Taps of the kernel.
    fn taps(&self) -> usize {
        self.axes.iter().map(|a| a.taps).product()
    }

    /// Outputs for one element of the batch.
    fn outputs(&self) -> usize {
        self.axes.iter().map(|a| a.output).product()
    }

    fn positions(&self) -> usize {
        self.axes.iter().map(|a| a.input).product()
    }

    /// Runs of consecutive elements under one tap, and their length.
    fn split(&self) -> (usize, usize) {
        let (_, channels) = self.channels;
        if self.place.channel == 1 { (1, channels) } else { (channels, 1) }
    }

    /// Runs that a window consists of.
    pub(super) fn runs(&self) -> usize {
        self.taps() * self.split().0
    }

    /// Whether the taps of the last axis are neighbours without a gap.
    pub(super) fn is_dense(&self) -> bool {
        let [_, _, width] = self.axes;
        width.dilation == 1 && self.reads_all()
    }

    /// Whether all channels are read, and are contiguous.
    pub(super) fn reads_all(&self) -> bool {
        self.place.channel == 1 && self.channels.1 == self.place.position
    }

    /// Panics unless there are `m` windows of `k` elements.
    pub(super) fn check(&self, m: usize, k: usize) {
        assert!(self.axes.iter().all(Window::is_countable), "positions cannot be counted");
        let taps = self.axes.iter().try_fold(self.channels.1, |n, axis| n.checked_mul(axis.taps));
        assert_eq!(taps, Some(k), "the windows have another size");
        let batch = m.checked_div(self.outputs()).unwrap_or(0);
        assert_eq!(batch * self.outputs(), m, "the windows have another number");
        let InputStrides { image, position, channel } = self.place;
        let (first, count) = self.channels;
        let last = (first + count).saturating_sub(1).saturating_mul(channel);
        let reach = self.last().saturating_mul(position).saturating_add(last);
        let is_read = k > 0 && m > 0 && self.positions() > 0;
        assert!(!is_read || reach < image, "A is too short");
        let least = batch.saturating_mul(image);
        assert!(m == 0 || self.input.len() >= least, "A is too short");
        assert!(self.zeros.len() >= count, "there are too few zeros");
    }

    /// The last position that may be under a tap.
    fn last(&self) -> usize {
        let within =
            |all: usize, axis: &Window| all.saturating_mul(axis.input).saturating_add(axis.last());
        self.axes.iter().fold(0, within)
    }

    /// The batch element, and the outputs along the axes, of a window.
    fn window(&self, index: usize) -> (usize, [usize; 3]) {
        let [_, height, width] = self.axes;
        let (batch, rest) = (index / self.outputs(), index % self.outputs());
        let (x, rest) = (rest % width.output, rest / width.output);
        (batch, [rest / height.output, rest % height.output, x])
    }

    /// Calls `f` with the lines of the input that a window at outputs `z` and `y` looks at: where
    /// the first channel of each begins, none for lines outside the input.
    #[inline(always)]
    fn lines(&self, batch: usize, z: usize, y: usize, mut f: impl FnMut(Option<*const f32>)) {
        let [depth, height, width] = self.axes;
        let image = batch * self.place.image + self.channels.0 * self.place.channel;
        for kz in 0..depth.taps {
            let plane = depth.position(z, kz);
            for ky in 0..height.taps {
                let line = plane.zip(height.position(y, ky)).map(|(z, y)| z * height.input + y);
                // `check` has shown that every position lies within the input.
                f(line.map(|line| {
                    let at = image + line * width.input * self.place.position;
                    self.input.as_ptr().wrapping_add(at)
                }));
            }
        }
    }

    /// Pointers to the runs of windows `first..first + rows`: for each run those of all rows. The
    /// first is null where the run lies outside the input for all rows.
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
                    let tap = tap.map(|(line, x)| line.wrapping_add(x * self.place.position));
                    for channel in 0..split {
                        let run = |tap: *const f32| tap.wrapping_add(channel * self.place.channel);
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
            self.place.channel == 1 && (self.channels.1 >= SHORT_RUN || !self.is_dense());
        let ends = if !have_runs {
            // Pointers to single elements, or to a few, are many: windows that need them are few
            // when lines are taken apart where the input ends.
            Ends::At([inside.start, inside.end, width.output])
        } else if inside == (0..width.output) {
            Ends::Even
        } else {
            Ends::Anywhere
        };
        Groups { width: width.output, ends }
    }

    /// The line that window `first` lies on, from there on, with pointers to the runs of this
    /// window, null for those outside the input along the other axes; none if a tap lies outside
    /// the input along the last.
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
                let run = tap.map(|(line, x)| line.wrapping_add(x * self.place.position));
                to[runs] = run.unwrap_or(std::ptr::null());
                runs += 1;
            }
        });
        let step = width.stride * self.place.position;
        let end = first + inside.end - x;
        Some(Line { runs, step, inner: self.place.channel, first, end })
    }

    /// The line of windows `first..first + rows`, if they lie on one and all their taps within the
    /// input along it; `known` is what was returned before with the same pointers.
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
    /// An axis that is not there.
    pub const NONE: Window =
        Window { input: 1, output: 1, taps: 1, stride: 1, dilation: 1, start: 0 };

    /// Whether every position under a tap, within the input or not, can be counted from its
    /// beginning: which taps lie within is computed so.
    pub(crate) fn is_countable(&self) -> bool {
        let most = isize::MAX as usize / 2;
        self.reach() <= most && self.input <= most && self.start.unsigned_abs() <= most
    }

    /// The same windows over an input that holds the zeros before and behind it.
    pub(crate) fn with_zeros(self) -> Window {
        let before = self.start.min(0).unsigned_abs();
        let reach = self.reach().saturating_add(self.start.max(0).unsigned_abs());
        let input = self.input.saturating_add(before).max(reach);
        Window { input, start: self.start.max(0), ..self }
    }

    /// Where tap `tap` of window `output` lies, if within the input.
    #[inline]
    pub fn position(&self, output: usize, tap: usize) -> Option<usize> {
        let at = (output * self.stride + tap * self.dilation) as isize + self.start;
        (at >= 0 && (at as usize) < self.input).then_some(at as usize)
    }

    /// The last position under a tap that lies within the input, or the first of the input.
    fn last(&self) -> usize {
        let last = (self.reach() - 1).saturating_add_signed(self.start);
        last.min(self.input.saturating_sub(1))
    }

    /// Positions from the first tap of the first window to the last of the last one, those outside
    /// the input included: at least one, and no more than can be counted.
    pub(crate) fn reach(&self) -> usize {
        let outputs = (self.output.max(1) - 1).saturating_mul(self.stride);
        let taps = (self.taps.max(1) - 1).saturating_mul(self.dilation);
        outputs.saturating_add(taps).saturating_add(1)
    }

    /// The taps of window `output` that lie within the input.
    pub fn taps_within(&self, output: usize) -> Range<usize> {
        let first = (output * self.stride) as isize + self.start;
        within(first, self.dilation, self.taps, self.input)
    }

    /// The windows whose taps all lie within the input.
    pub fn inside(&self) -> Range<usize> {
        let first = self.outputs_within(0);
        let last = self.outputs_within(self.taps.max(1) - 1);
        first.start.max(last.start)..first.end.min(last.end)
    }

    /// The windows whose tap `tap` lies within the input.
    pub fn outputs_within(&self, tap: usize) -> Range<usize> {
        let first = (tap * self.dilation) as isize + self.start;
        within(first, self.stride, self.output, self.input)
    }
}

/// Which of `count` positions, `step` apart from `first` on, are below `size` and not negative.
fn within(first: isize, step: usize, count: usize, size: usize) -> Range<usize> {
    let below = |limit: isize| (limit.max(0) as usize).div_ceil(step).min(count);
    let end = below(size as isize - first);
    below(-first).min(end)..end
}
