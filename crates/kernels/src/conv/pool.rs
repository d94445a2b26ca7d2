//! Pooling in NHWC: of f32, of quantized values, and of bf16.

use crate::base::num::bf16;
use crate::base::par::Threads;
use crate::conv::tuning::POOL_GRAIN;
use crate::gemm::Window;
use crate::multiversion;
use crate::nn::pool::{Fold, Largest, Mean, Pooling, Sum, Taps};

/// Pooling windows over an NHWC tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct ChannelsPool {
    /// Images in the batch.
    pub batch: usize,
    /// The windows along the spatial axes, filled up to three with [`Window::NONE`].
    pub axes: [Window; 3],
    /// Channels.
    pub channels: usize,
    /// What is computed of each window. Taps are taken in the order of the axes.
    pub pooling: Pooling,
}

impl ChannelsPool {
    /// Pools `from` into `to`.
    ///
    /// # Panics
    /// When a slice does not have the size of the pooling.
    pub fn run(&self, threads: &Threads, from: &[f32], to: &mut [f32]) {
        self.lines(threads, from, to, |image, windows, to| match self.pooling {
            Pooling::Max => largest_of(image, windows, to),
            Pooling::Mean(divisor) => mean_of(image, windows, divisor, to),
        });
    }

    /// Max pooling of quantized values. Every window must read some of the input.
    ///
    /// # Panics
    /// As [`Self::run`].
    pub fn run_quantized(&self, threads: &Threads, from: &[u8], to: &mut [u8]) {
        self.largest(threads, from, to);
    }

    /// Max pooling of bf16. Equals the bf16 of what [`Self::run`] gives for f32, except for the
    /// sign of 0.
    ///
    /// # Panics
    /// As [`Self::run`].
    pub fn run_bf16(&self, threads: &Threads, from: &[bf16], to: &mut [bf16]) {
        self.largest(threads, from, to);
    }

    /// Max pooling, separable: first across the lines of a window, then along the line.
    fn largest<T: Ranked>(&self, threads: &Threads, from: &[T], to: &mut [T]) {
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
        let across: Vec<Taps> = (0..width.output).map(|x| Taps::of(&width, x)).collect();
        let (step, channels) = (width.dilation * self.channels, self.channels);
        let windows = LineWindows { lines: &[0], across: &across, step, channels };
        let grain = POOL_GRAIN.div_ceil(taps(&[depth, height]).saturating_mul(line.max(1)));
        threads.par_chunks_mut(to, out, grain * out, |first, to| {
            let mut above = vec![T::LOWEST; line];
            for (i, to) in to.chunks_exact_mut(out).enumerate() {
                let (batch, rest) = ((first + i) / lines, (first + i) % lines);
                let (z, y) = (rest / height.output, rest % height.output);
                let image = &from[batch * positions..][..positions];
                above.fill(T::LOWEST);
                for z in depth.taps_within(z).filter_map(|tap| depth.position(z, tap)) {
                    for y in height.taps_within(y).filter_map(|tap| height.position(y, tap)) {
                        T::raise(&mut above, &image[(z * height.input + y) * line..][..line]);
                    }
                }
                T::along(&above, &windows, to);
            }
        });
    }

    /// Calls `f` with the image, the windows and the output of each line, or part of a line.
    fn lines(
        &self,
        threads: &Threads,
        from: &[f32],
        to: &mut [f32],
        f: impl Fn(&[f32], &LineWindows<'_>, &mut [f32]) + Sync,
    ) {
        let volume = |f: fn(&Window) -> usize| self.axes.iter().map(f).product::<usize>();
        let positions = volume(|a| a.input) * self.channels;
        assert_eq!(from.len(), self.batch * positions);
        assert_eq!(to.len(), self.batch * volume(|a| a.output) * self.channels);
        if to.is_empty() {
            return;
        }
        let [depth, height, width] = self.axes;
        let across: Vec<Taps> = (0..width.output).map(|x| Taps::of(&width, x)).collect();
        let (channels, step) = (self.channels, width.dilation * self.channels);
        let grain = POOL_GRAIN.div_ceil(taps(&self.axes));
        threads.par_chunks_mut(to, channels, grain, |mut position, mut to| {
            let mut lines = Vec::new();
            while !to.is_empty() {
                let (x, rest) = (position % width.output, position / width.output);
                let (y, rest) = (rest % height.output, rest / height.output);
                let (z, batch) = (rest % depth.output, rest / depth.output);
                let count = (width.output - x).min(to.len() / channels);
                lines.clear();
                for z in depth.taps_within(z).filter_map(|tap| depth.position(z, tap)) {
                    let of = |y| (z * height.input + y) * width.input * channels;
                    let within = height.taps_within(y);
                    lines.extend(within.filter_map(|tap| height.position(y, tap)).map(of));
                }
                let windows =
                    LineWindows { lines: &lines, across: &across[x..][..count], step, channels };
                let (line, others) = to.split_at_mut(count * channels);
                f(&from[batch * positions..][..positions], &windows, line);
                (position, to) = (position + count, others);
            }
        });
    }
}

/// The windows of neighbouring outputs of a line.
struct LineWindows<'a> {
    /// The offsets of the image's lines that the windows read.
    lines: &'a [usize],
    /// The taps of each window along these lines.
    across: &'a [Taps],
    /// Elements from a tap to the next.
    step: usize,
    channels: usize,
}

/// Taps of a window, at least 1; saturates.
fn taps(axes: &[Window]) -> usize {
    axes.iter().fold(1, |all: usize, a| all.saturating_mul(a.taps.max(1)))
}

/// Channels that are folded at a time, in registers.
const LANES: usize = 32;

/// As [`LANES`], for those that are left.
const FEW_LANES: usize = 8;

impl LineWindows<'_> {
    /// Folds each window, channel by channel and in the order of the taps.
    #[inline(always)]
    fn fold<F: Fold<f32>>(&self, f: F, image: &[f32], to: &mut [f32]) {
        for (taps, to) in self.across.iter().zip(to.chunks_exact_mut(self.channels)) {
            let (many, rest) = to.as_chunks_mut::<LANES>();
            let (few, last) = rest.as_chunks_mut::<FEW_LANES>();
            let mut channel = 0;
            for to in many {
                channel = self.fold_some(f, image, *taps, channel, to);
            }
            for to in few {
                channel = self.fold_some(f, image, *taps, channel, to);
            }
            for to in last {
                channel = self.fold_some(f, image, *taps, channel, std::array::from_mut(to));
            }
        }
    }

    /// Folds `N` channels of a window, from `channel` on. Returns the channel behind them.
    #[inline(always)]
    fn fold_some<F: Fold<f32>, const N: usize>(
        &self,
        f: F,
        image: &[f32],
        taps: Taps,
        channel: usize,
        to: &mut [f32; N],
    ) -> usize {
        let mut sums = [f.start(); N];
        for line in self.lines {
            for tap in 0..taps.count {
                let at = line + taps.first * self.channels + tap * self.step + channel;
                let from = &image[at..][..N];
                for i in 0..N {
                    sums[i] = f.step(sums[i], from[i]);
                }
            }
        }
        let count = f32::of_count(self.lines.len() * taps.count);
        for i in 0..N {
            to[i] = f.finish(sums[i], count);
        }
        channel + N
    }
}

multiversion! {
    fn largest_of(image: &[f32], windows: &LineWindows<'_>, to: &mut [f32]) {
        windows.fold(Largest(f32::MIN), image, to);
    }
}

multiversion! {
    fn mean_of(image: &[f32], windows: &LineWindows<'_>, divisor: Option<usize>, to: &mut [f32]) {
        windows.fold(Sum(divisor.map(f32::of_count)), image, to);
    }
}

/// Elements that can be ordered by an integer rank.
trait Ranked: Copy + Send + Sync {
    type Rank: Copy + Sync;
    /// The least rank of any element except NaN.
    const LOWEST: Self::Rank;
    /// Raises each rank to that of its element, if higher.
    fn raise(ranks: &mut [Self::Rank], elements: &[Self]);
    /// Writes, for each window of a line and each channel, the element of the largest rank.
    fn along(line: &[Self::Rank], windows: &LineWindows<'_>, to: &mut [Self]);
}

impl Ranked for u8 {
    type Rank = u8;
    const LOWEST: u8 = 0;

    fn raise(ranks: &mut [u8], elements: &[u8]) {
        raise_to_quantized(ranks, elements);
    }

    fn along(line: &[u8], windows: &LineWindows<'_>, to: &mut [u8]) {
        quantized_along(line, windows, to);
    }
}

impl Ranked for bf16 {
    type Rank = i16;
    const LOWEST: i16 = total_order(bf16::NEG_INFINITY.to_bits() as i16);

    fn raise(ranks: &mut [i16], elements: &[bf16]) {
        raise_to_halves(ranks, elements);
    }

    fn along(line: &[i16], windows: &LineWindows<'_>, to: &mut [bf16]) {
        halves_along(line, windows, to);
    }
}

/// The rank of an element. NaN is below all others.
#[inline(always)]
fn rank(element: bf16) -> i16 {
    const HIGHEST: i16 = total_order(bf16::INFINITY.to_bits() as i16);
    let rank = total_order(element.to_bits() as i16);
    if rank > HIGHEST { i16::MIN } else { rank }
}

/// The rank of some bits, or the bits of a rank. For negative numbers the other bits are inverted,
/// so that the order is that of the values.
#[inline(always)]
const fn total_order(bits: i16) -> i16 {
    bits ^ (bits >> 15) & i16::MAX
}

multiversion! {
    fn raise_to_quantized(ranks: &mut [u8], quantized: &[u8]) {
        for (to, x) in ranks.iter_mut().zip(quantized) {
            *to = (*to).max(*x);
        }
    }
}

multiversion! {
    fn raise_to_halves(ranks: &mut [i16], halves: &[bf16]) {
        for (to, x) in ranks.iter_mut().zip(halves) {
            *to = (*to).max(rank(*x));
        }
    }
}

multiversion! {
    fn quantized_along(line: &[u8], windows: &LineWindows<'_>, to: &mut [u8]) {
        largest_along(line, windows, to, u8::LOWEST, |rank| rank);
    }
}

multiversion! {
    fn halves_along(line: &[i16], windows: &LineWindows<'_>, to: &mut [bf16]) {
        let bits = |rank| bf16::from_bits(total_order(rank) as u16);
        largest_along(line, windows, to, bf16::LOWEST, bits);
    }
}

/// As [`Ranked::along`]; `of` is the element of a rank.
#[inline(always)]
fn largest_along<T, K: Ord + Copy>(
    line: &[K],
    windows: &LineWindows<'_>,
    to: &mut [T],
    least: K,
    of: impl Fn(K) -> T + Copy,
) {
    for (taps, to) in windows.across.iter().zip(to.chunks_exact_mut(windows.channels)) {
        let (many, rest) = to.as_chunks_mut::<LANES>();
        let (few, last) = rest.as_chunks_mut::<FEW_LANES>();
        let mut channel = 0;
        for to in many {
            channel = windows.raise_some(line, *taps, channel, (least, to), of);
        }
        for to in few {
            channel = windows.raise_some(line, *taps, channel, (least, to), of);
        }
        for to in last {
            let to = std::array::from_mut(to);
            channel = windows.raise_some(line, *taps, channel, (least, to), of);
        }
    }
}

impl LineWindows<'_> {
    /// The largest ranks of `N` channels of a window, from `channel` on. Returns the channel behind
    /// them.
    #[inline(always)]
    fn raise_some<T, K: Ord + Copy, const N: usize>(
        &self,
        line: &[K],
        taps: Taps,
        channel: usize,
        (least, to): (K, &mut [T; N]),
        of: impl Fn(K) -> T,
    ) -> usize {
        let mut ranks = [least; N];
        for tap in 0..taps.count {
            let from = &line[taps.first * self.channels + tap * self.step + channel..][..N];
            for i in 0..N {
                ranks[i] = ranks[i].max(from[i]);
            }
        }
        for i in 0..N {
            to[i] = of(ranks[i]);
        }
        channel + N
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::num::f32_to_bf16;
    use crate::nn::pool::{Axis, Pool};

    fn slide(input: usize, output: usize, taps: usize, stride: usize, start: isize) -> Window {
        Window { input, output, taps, stride, dilation: 1, start }
    }

    /// The same values as NCHW pooling gives: windows at the borders, over three axes, with
    /// dilation, and with more taps than are taken at a time.
    #[test]
    fn agrees_with_planes() {
        let apart = Window { dilation: 2, ..slide(6, 5, 2, 1, 0) };
        agree([Window::NONE, slide(7, 4, 3, 2, -1), slide(6, 3, 2, 2, 0)]);
        agree([slide(3, 2, 2, 1, 0), slide(7, 4, 3, 2, -1), apart]);
        agree([Window::NONE, slide(7, 2, 8, 1, -1), slide(6, 1, 6, 1, 0)]);
    }

    fn agree(axes: [Window; 3]) {
        let volume = |f: fn(&Window) -> usize| axes.iter().map(f).product::<usize>();
        let (inside, outside, channels) = (volume(|a| a.input), volume(|a| a.output), 37);
        let from: Vec<f32> =
            (0..2 * inside * channels).map(|i| (i * 37 % 101) as f32 * 0.37).collect();
        for pooling in [Pooling::Max, Pooling::Mean(None), Pooling::Mean(Some(6))] {
            let mut last = vec![0.0; 2 * outside * channels];
            let pool = ChannelsPool { batch: 2, axes, channels, pooling };
            pool.run(&Threads::new(2), &from, &mut last);
            if pooling == Pooling::Max {
                let levels: Vec<u8> = from.iter().map(|x| (x * 3.0) as u8).collect();
                let mut largest = vec![9; last.len()];
                pool.run_quantized(&Threads::new(2), &levels, &mut largest);
                assert!(last.iter().map(|x| (x * 3.0) as u8).eq(largest));
                let to_bf16 = |x: &f32| f32_to_bf16(x - 9.0);
                let halves: Vec<bf16> = from.iter().map(to_bf16).collect();
                let mut largest = vec![bf16::NAN; last.len()];
                pool.run_bf16(&Threads::new(2), &halves, &mut largest);
                assert!(last.iter().map(to_bf16).eq(largest));
            }
            let plane = |b: usize, c: usize| -> Vec<f32> {
                (0..inside).map(|i| from[(b * inside + i) * channels + c]).collect()
            };
            for (b, c) in [(0, 0), (1, 4), (1, 36)] {
                let mut out = vec![0.0; outside];
                let planes = Pool::new(axes.map(|a| Axis::sliding(&a)));
                planes.run(Threads::single(), pooling, &plane(b, c), &mut out);
                let own: Vec<f32> =
                    (0..outside).map(|i| last[(b * outside + i) * channels + c]).collect();
                // Averages add their taps in another order.
                let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 8.0 * f32::EPSILON * b.abs();
                let exact = matches!(pooling, Pooling::Max);
                assert!(own == out || !exact && own.iter().zip(&out).all(near), "{pooling:?}");
            }
        }
    }

    /// Most taps are in the padding: their number exceeds what can be counted.
    #[test]
    fn windows_may_be_larger_than_can_be_counted() {
        let wide = |input: usize| slide(input, 1, 1 << 22, 1, -1);
        let pool = ChannelsPool {
            batch: 1,
            axes: [wide(2), wide(3), wide(1)],
            channels: 2,
            pooling: Pooling::Max,
        };
        let mut largest = [0.0; 2];
        let from: Vec<f32> = (0..12).map(|i| i as f32).collect();
        pool.run(Threads::single(), &from, &mut largest);
        assert_eq!(largest, [10.0, 11.0]);
        let (mut largest, nan) = ([bf16::ZERO; 2], bf16::NAN);
        let from: Vec<bf16> =
            from.iter().map(|x| if *x > 6.0 { nan } else { f32_to_bf16(*x) }).collect();
        pool.run_bf16(Threads::single(), &from, &mut largest);
        assert_eq!(largest, [6.0, 5.0].map(f32_to_bf16), "numbers before what is none");
        let mut level = [0; 2];
        pool.run_quantized(Threads::single(), &(0..12).collect::<Vec<_>>(), &mut level);
        assert_eq!(level, [10, 11]);
    }
}
