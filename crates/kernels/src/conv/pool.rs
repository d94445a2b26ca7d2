//! Pooling of f32 with the channels last.

use crate::gemm::Window;
use crate::multiversion;
use crate::par::Threads;
use crate::pool::Pooling;

/// Elements read that are worth a second thread.
const GRAIN: usize = 1 << 15;

/// Windows that slide over tensors whose channels are the last axis.
#[derive(Clone, Debug, PartialEq)]
pub struct ChannelsPool {
    /// Elements of the batch.
    pub batch: usize,
    /// The windows along the spatial axes; [`Window::NONE`] makes them three.
    pub axes: [Window; 3],
    /// Channels.
    pub channels: usize,
    /// What is taken of each window, its taps in the order of the axes.
    pub pooling: Pooling,
}

impl ChannelsPool {
    /// Pools `from` into `to`.
    ///
    /// # Panics
    /// When a slice is not of the size the pooling is for.
    pub fn run(&self, threads: &Threads, from: &[f32], to: &mut [f32]) {
        self.outputs(threads, from, to, |at, image, to| match self.pooling {
            Pooling::Max => {
                to.fill(f32::MIN);
                self.taps(at, image, |from| greatest(to, from));
            }
            Pooling::Mean(divisor) => {
                to.fill(0.0);
                let mut count = 0;
                self.taps(at, image, |from| {
                    add(to, from);
                    count += 1;
                });
                if count > 0 {
                    divide(to, divisor.unwrap_or(count) as f32);
                }
            }
        });
    }

    /// Takes the largest level of each window, of which each looks at some of the input.
    ///
    /// # Panics
    /// As [`Self::run`].
    pub fn run_on_levels(&self, threads: &Threads, from: &[u8], to: &mut [u8]) {
        let [depth, height, width] = self.axes;
        let line = width.input * self.channels;
        let positions = depth.input * height.input * line;
        let lines = depth.output * height.output;
        assert_eq!(from.len(), self.batch * positions);
        assert_eq!(to.len(), self.batch * lines * width.output * self.channels);
        if to.is_empty() {
            return;
        }
        let out = width.output * self.channels;
        let grain = GRAIN.div_ceil(depth.taps * height.taps * line.max(1));
        threads.chunks(to, out, grain * out, |first, to| {
            let mut above = vec![0; line];
            for (i, to) in to.chunks_exact_mut(out).enumerate() {
                let (batch, rest) = ((first + i) / lines, (first + i) % lines);
                let (z, y) = (rest / height.output, rest % height.output);
                let image = &from[batch * positions..][..positions];
                // The largest along the lines of a window, and of those the largest along it.
                above.fill(0);
                for z in (0..depth.taps).filter_map(|tap| depth.position(z, tap)) {
                    for y in (0..height.taps).filter_map(|tap| height.position(y, tap)) {
                        let from = &image[(z * height.input + y) * line..][..line];
                        greatest_level(&mut above, from);
                    }
                }
                along_line(&above, width, self.channels, to);
            }
        });
    }

    /// Calls `f` with the place of each output, its image and its channels.
    fn outputs(
        &self,
        threads: &Threads,
        from: &[f32],
        to: &mut [f32],
        f: impl Fn([usize; 3], &[f32], &mut [f32]) + Sync,
    ) {
        let volume = |f: fn(&Window) -> usize| self.axes.iter().map(f).product::<usize>();
        let (positions, taps) = (volume(|a| a.input) * self.channels, volume(|a| a.taps));
        assert_eq!(from.len(), self.batch * positions);
        assert_eq!(to.len(), self.batch * volume(|a| a.output) * self.channels);
        if to.is_empty() {
            return;
        }
        let [depth, height, width] = self.axes;
        threads.chunks(to, self.channels, GRAIN.div_ceil(taps), |first, to| {
            for (i, to) in to.chunks_exact_mut(self.channels).enumerate() {
                let (x, rest) = ((first + i) % width.output, (first + i) / width.output);
                let (y, rest) = (rest % height.output, rest / height.output);
                let (z, batch) = (rest % depth.output, rest / depth.output);
                f([z, y, x], &from[batch * positions..][..positions], to);
            }
        });
    }

    /// Calls `f` with the channels under each tap that lies within the image.
    fn taps(&self, at: [usize; 3], image: &[f32], mut f: impl FnMut(&[f32])) {
        let [_, height, width] = self.axes;
        let within = |axis: usize| self.axes[axis].taps_within(at[axis]);
        let position = |axis: usize, tap| self.axes[axis].position(at[axis], tap).unwrap_or(0);
        for z in within(0).map(|tap| position(0, tap)) {
            for y in within(1).map(|tap| position(1, tap)) {
                for x in within(2).map(|tap| position(2, tap)) {
                    let first = ((z * height.input + y) * width.input + x) * self.channels;
                    f(&image[first..][..self.channels]);
                }
            }
        }
    }
}

multiversion! {
    fn greatest(to: &mut [f32], from: &[f32]) {
        for (to, x) in to.iter_mut().zip(from) {
            *to = if *to < *x { *x } else { *to };
        }
    }
}

multiversion! {
    fn greatest_level(to: &mut [u8], from: &[u8]) {
        for (to, x) in to.iter_mut().zip(from) {
            *to = (*to).max(*x);
        }
    }
}

multiversion! {
    fn along_line(line: &[u8], width: Window, channels: usize, to: &mut [u8]) {
        for (x, to) in to.chunks_exact_mut(channels).enumerate() {
            to.fill(0);
            for tap in 0..width.taps {
                if let Some(at) = width.position(x, tap) {
                    let from = &line[at * channels..][..channels];
                    for j in 0..channels {
                        to[j] = to[j].max(from[j]);
                    }
                }
            }
        }
    }
}

multiversion! {
    fn add(to: &mut [f32], from: &[f32]) {
        for (to, x) in to.iter_mut().zip(from) {
            *to += x;
        }
    }
}

multiversion! {
    fn divide(to: &mut [f32], by: f32) {
        for to in to {
            *to /= by;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::{Axis, Pool};

    /// The same numbers as with the channels first.
    #[test]
    fn agrees_with_planes() {
        let slide = |input, output, taps, stride, start| Window {
            input,
            output,
            taps,
            stride,
            dilation: 1,
            start,
        };
        let axes = [Window::NONE, slide(7, 4, 3, 2, -1), slide(6, 3, 2, 2, 0)];
        let channels = 5;
        let from: Vec<f32> = (0..2 * 42 * channels).map(|i| (i * 37 % 101) as f32 * 0.37).collect();
        for pooling in [Pooling::Max, Pooling::Mean(None), Pooling::Mean(Some(6))] {
            let mut last = vec![0.0; 2 * 12 * channels];
            let pool = ChannelsPool { batch: 2, axes, channels, pooling };
            pool.run(Threads::single(), &from, &mut last);
            if pooling == Pooling::Max {
                let levels: Vec<u8> = from.iter().map(|x| (x * 3.0) as u8).collect();
                let mut largest = vec![9; last.len()];
                pool.run_on_levels(Threads::single(), &levels, &mut largest);
                assert!(last.iter().map(|x| (x * 3.0) as u8).eq(largest));
            }
            let plane = |b: usize, c: usize| -> Vec<f32> {
                (0..42).map(|i| from[(b * 42 + i) * channels + c]).collect()
            };
            for (b, c) in [(0, 0), (1, 4), (1, 2)] {
                let mut out = vec![0.0; 12];
                let planes = Pool::new(axes.map(|a| Axis::sliding(&a)));
                planes.run(Threads::single(), pooling, &plane(b, c), &mut out);
                let own: Vec<f32> = (0..12).map(|i| last[(b * 12 + i) * channels + c]).collect();
                // Means add their taps in another order.
                let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 4.0 * f32::EPSILON * b.abs();
                let exact = matches!(pooling, Pooling::Max);
                assert!(own == out || !exact && own.iter().zip(&out).all(near), "{pooling:?}");
            }
        }
    }
}
