//! Pooling of f32 with the channels last.

use crate::gemm::Window;
use crate::multiversion;
use crate::par::{Slice, Threads};
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
        let volume = |f: fn(&Window) -> usize| self.axes.iter().map(f).product::<usize>();
        let (positions, taps) = (volume(|a| a.input) * self.channels, volume(|a| a.taps));
        assert_eq!(from.len(), self.batch * positions);
        assert_eq!(to.len(), self.batch * volume(|a| a.output) * self.channels);
        if to.is_empty() {
            return;
        }
        let [depth, height, width] = self.axes;
        let out = Slice::new(to);
        let outputs = to_count(&self.axes) * self.batch;
        threads.ranges(outputs, GRAIN.div_ceil(taps * self.channels), |range| {
            for i in range {
                let (x, rest) = (i % width.output, i / width.output);
                let (y, rest) = (rest % height.output, rest / height.output);
                let (z, batch) = (rest % depth.output, rest / depth.output);
                let image = &from[batch * positions..][..positions];
                // SAFETY: outputs are disjoint parts of `to`.
                let to = unsafe {
                    let start = out.at(i * self.channels);
                    std::slice::from_raw_parts_mut(start, self.channels)
                };
                self.window([z, y, x], image, to);
            }
        });
    }

    /// The channels of one output.
    fn window(&self, at: [usize; 3], image: &[f32], to: &mut [f32]) {
        let [_, height, width] = self.axes;
        to.fill(match self.pooling {
            Pooling::Max => f32::MIN,
            Pooling::Mean(_) => 0.0,
        });
        let mut count = 0;
        let within = |axis: usize| self.axes[axis].taps_within(at[axis]);
        let position = |axis: usize, tap| self.axes[axis].position(at[axis], tap).unwrap_or(0);
        for z in within(0).map(|tap| position(0, tap)) {
            for y in within(1).map(|tap| position(1, tap)) {
                for x in within(2).map(|tap| position(2, tap)) {
                    let first = ((z * height.input + y) * width.input + x) * self.channels;
                    let from = &image[first..][..self.channels];
                    match self.pooling {
                        Pooling::Max => greatest(to, from),
                        Pooling::Mean(_) => add(to, from),
                    }
                    count += 1;
                }
            }
        }
        if let Pooling::Mean(divisor) = self.pooling {
            let divisor = divisor.unwrap_or(count);
            if count > 0 {
                divide(to, divisor as f32);
            }
        }
    }
}

fn to_count(axes: &[Window; 3]) -> usize {
    axes.iter().map(|a| a.output).product()
}

multiversion! {
    fn greatest(to: &mut [f32], from: &[f32]) {
        for (to, x) in to.iter_mut().zip(from) {
            *to = if *to < *x { *x } else { *to };
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
