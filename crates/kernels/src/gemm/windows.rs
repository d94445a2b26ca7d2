//! The windows of a convolution as rows of a matrix that is never written down.
//!
//! The input lies with its channels last, so that the channels under one tap of a window are a
//! run of consecutive elements. Row `i` of the matrix is output `i`, in the order of the output's
//! axes; its runs are the taps of the kernel. A tap outside the input is a run of zeros.

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
pub struct Windows<'a> {
    /// The input: batch, axes, channels.
    pub input: &'a [f32],
    /// The axes, outermost first; axes of size 1 make them three.
    pub axes: [Window; 3],
    /// Elements from one position to the next: all channels.
    pub step: usize,
    /// The first channel, and how many there are under one tap.
    pub channels: (usize, usize),
    /// At least as many zeros as there are channels.
    pub zeros: &'a [f32],
}

impl Windows<'_> {
    /// Taps of the kernel.
    pub fn taps(&self) -> usize {
        self.axes.iter().map(|a| a.taps).product()
    }

    /// Outputs for one element of the batch.
    pub fn outputs(&self) -> usize {
        self.axes.iter().map(|a| a.output).product()
    }

    fn positions(&self) -> usize {
        self.axes.iter().map(|a| a.input).product()
    }

    /// Panics unless there are `m` windows of `k` elements.
    pub(super) fn check(&self, m: usize, k: usize) {
        assert_eq!(self.taps() * self.channels.1, k, "the windows have another size");
        let batch = m.checked_div(self.outputs()).unwrap_or(0);
        assert_eq!(batch * self.outputs(), m, "the windows have another number");
        assert!(self.input.len() >= batch * self.positions() * self.step, "A is too short");
        // A run may go on into the positions that follow, but not beyond the last.
        let [_, _, width] = self.axes;
        let run_end = width.last() * self.step + self.channels.0 + self.channels.1;
        assert!(m == 0 || run_end <= width.input * self.step, "a run leaves its line");
        assert!(self.zeros.len() >= self.channels.1, "there are too few zeros");
    }

    /// Pointers to the runs of windows `first..first + rows`: for each tap those of all rows.
    pub(super) fn pointers(&self, first: usize, rows: usize, to: &mut [*const f32]) {
        let [depth, height, width] = self.axes;
        let (outputs, positions) = (self.outputs(), self.positions());
        let (mut batch, rest) = (first / outputs, first % outputs);
        let (mut x, rest) = (rest % width.output, rest / width.output);
        let (mut y, mut z) = (rest % height.output, rest / height.output);
        assert!(to.len() >= rows * self.taps());
        for i in 0..rows {
            let image = batch * positions;
            let mut tap = i;
            for kz in 0..depth.taps {
                let plane = depth.position(z, kz).map(|z| image + z * height.input * width.input);
                for ky in 0..height.taps {
                    let line = height.position(y, ky).map(|y| y * width.input);
                    let line = plane.and_then(|plane| Some(plane + line?));
                    for kx in 0..width.taps {
                        to[tap] = match (line, width.position(x, kx)) {
                            (Some(line), Some(x)) => {
                                // `check` has shown that every position lies within the input.
                                let at = (line + x) * self.step + self.channels.0;
                                self.input.as_ptr().wrapping_add(at)
                            }
                            _ => self.zeros.as_ptr(),
                        };
                        tap += rows;
                    }
                }
            }
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
    }
}

impl Window {
    /// An axis that is not there.
    pub const NONE: Window =
        Window { input: 1, output: 1, taps: 1, stride: 1, dilation: 1, start: 0 };

    /// The last position of the input that a window looks at.
    fn last(&self) -> usize {
        let taps = (self.taps.max(1) - 1) * self.dilation;
        let reach = (self.output.max(1) - 1) * self.stride + taps;
        reach.saturating_add_signed(self.start).min(self.input.max(1) - 1)
    }

    /// Where tap `tap` of window `output` lies, if within the input.
    #[inline]
    pub fn position(&self, output: usize, tap: usize) -> Option<usize> {
        let at = (output * self.stride + tap * self.dilation) as isize + self.start;
        (at >= 0 && (at as usize) < self.input).then_some(at as usize)
    }

    /// The taps of window `output` that lie within the input.
    pub fn taps_within(&self, output: usize) -> Range<usize> {
        let first = (output * self.stride) as isize + self.start;
        within(first, self.dilation, self.taps, self.input)
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
