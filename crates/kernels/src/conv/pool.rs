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
        self.outputs(threads, from, to, |image, places, to| match self.pooling {
            Pooling::Max => greatest(image, places, to),
            Pooling::Mean(_) if places.is_empty() => to.fill(0.0),
            Pooling::Mean(divisor) => {
                mean(image, places, divisor.unwrap_or(places.len()) as f32, to);
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

    /// Calls `f` with the image of each output, where the channels begin under each tap that lies within
    /// it, and the channels of the output.
    fn outputs(
        &self,
        threads: &Threads,
        from: &[f32],
        to: &mut [f32],
        f: impl Fn(&[f32], &[usize], &mut [f32]) + Sync,
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
            let mut places = Vec::new();
            for (i, to) in to.chunks_exact_mut(self.channels).enumerate() {
                let (x, rest) = ((first + i) % width.output, (first + i) / width.output);
                let (y, rest) = (rest % height.output, rest / height.output);
                let (z, batch) = (rest % depth.output, rest / depth.output);
                self.places([z, y, x], &mut places);
                f(&from[batch * positions..][..positions], &places, to);
            }
        });
    }

    /// Where the channels begin under each tap that lies within the image.
    fn places(&self, at: [usize; 3], places: &mut Vec<usize>) {
        let [_, height, width] = self.axes;
        let within = |axis: usize| self.axes[axis].taps_within(at[axis]);
        let position = |axis: usize, tap| self.axes[axis].position(at[axis], tap).unwrap_or(0);
        places.clear();
        for z in within(0).map(|tap| position(0, tap)) {
            for y in within(1).map(|tap| position(1, tap)) {
                let line = (z * height.input + y) * width.input;
                places.extend(within(2).map(|tap| (line + position(2, tap)) * self.channels));
            }
        }
    }
}

/// Channels that are computed side by side, in registers.
const LANES: usize = 16;

/// Combines what lies at some places, channel by channel and in order, beginning with a value.
#[inline(always)]
fn combine(
    image: &[f32],
    places: &[usize],
    to: &mut [f32],
    begin: f32,
    step: impl Fn(f32, f32) -> f32,
) {
    let (groups, rest) = to.as_chunks_mut::<LANES>();
    let whole = groups.len() * LANES;
    for (i, to) in groups.iter_mut().enumerate() {
        let mut all = [begin; LANES];
        for place in places {
            let from = &image[place + i * LANES..][..LANES];
            for j in 0..LANES {
                all[j] = step(all[j], from[j]);
            }
        }
        *to = all;
    }
    if rest.is_empty() {
        return;
    }
    rest.fill(begin);
    for place in places {
        let from = &image[place + whole..][..rest.len()];
        for (one, x) in rest.iter_mut().zip(from) {
            *one = step(*one, *x);
        }
    }
}

multiversion! {
    fn greatest(image: &[f32], places: &[usize], to: &mut [f32]) {
        combine(image, places, to, f32::MIN, |a, b| if a < b { b } else { a });
    }
}

multiversion! {
    fn mean(image: &[f32], places: &[usize], divisor: f32, to: &mut [f32]) {
        combine(image, places, to, 0.0, |a, b| a + b);
        to.iter_mut().for_each(|sum| *sum /= divisor);
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
        let channels = 37;
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
