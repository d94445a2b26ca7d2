//! Feature maps in NHWC, so that the channels of a sample are contiguous.

use super::{Maps, Sample, Window, larger};
use crate::base::par::Threads;
use crate::math::real::{Real, StoredReal};
use crate::multiversion;

/// Channels of which the maximum is kept in registers. Of one in memory, LLVM makes masked stores,
/// which take some twenty cycles on AMD with AVX2.
const LANES: usize = 16;

/// Feature maps in NHWC, in the type of the sums.
pub(super) struct ChannelsLast<W> {
    data: Vec<W>,
    channels: usize,
    width: usize,
    plane: usize,
}

/// From this many channels on, maps are transposed if enough elements are read.
const LEAST_CHANNELS: usize = 8;

/// Elements that are worth a second thread.
const GRAIN: usize = 16 << 10;

/// Positions that are written at a time: those of a channel are one cache line.
const POSITIONS: usize = 16;

impl<W: Real> ChannelsLast<W> {
    /// Transposes maps, if that pays when `reads` elements of each channel are read: it costs about
    /// as much as reading each element twice.
    pub(super) fn if_it_pays<T: StoredReal<Wide = W>>(
        threads: &Threads,
        maps: &Maps<'_, T>,
        reads: usize,
    ) -> Option<Self> {
        let pays = !maps.data.is_empty()
            && maps.channels >= LEAST_CHANNELS
            && reads / 2 >= maps.data.len() / maps.channels;
        pays.then(|| ChannelsLast::new(threads, maps))
    }

    /// Transposes maps of at least one channel and one element.
    fn new<T: StoredReal<Wide = W>>(threads: &Threads, maps: &Maps<'_, T>) -> Self {
        let (channels, plane) = (maps.channels, maps.height * maps.width);
        let mut data = vec![W::default(); maps.data.len()];
        threads.par_chunks_mut(&mut data, channels, GRAIN, |first, part| {
            let mut position = first;
            while position < first + part.len() / channels {
                let (batch, at) = (position / plane, position % plane);
                let to = &mut part[(position - first) * channels..];
                let some = POSITIONS.min(plane - at).min(to.len() / channels);
                for channel in 0..channels {
                    let from = &maps.plane(batch, channel)[at..][..some];
                    let to = to[channel..].iter_mut().step_by(channels);
                    to.zip(from).for_each(|(to, from)| *to = from.widen());
                }
                position += some;
            }
        });
        ChannelsLast { data, channels, width: maps.width, plane }
    }

    /// The sums of samples for all channels, or their maxima above 0.
    pub(super) fn pool(&self, batch: usize, samples: &[Sample<W>], max: bool, to: &mut [W]) {
        let map = self.map(batch);
        to.fill(W::of(0.0));
        if max { largest(map, samples, to) } else { sums(map, samples, to) }
    }

    /// The maxima of a window for all channels; 0 if it is empty.
    pub(super) fn largest(&self, batch: usize, window: &Window, to: &mut [W]) {
        let is_empty = window.area() == 0;
        to.fill(W::of(if is_empty { 0.0 } else { f64::NEG_INFINITY }));
        if !is_empty {
            largest_of_window(self.map(batch), self.width, window, to);
        }
    }

    fn map(&self, batch: usize) -> &[W] {
        let size = self.plane * self.channels;
        &self.data[batch * size..][..size]
    }
}

multiversion! {
    vectors if size_of::<W>() <= size_of::<f32>();
    /// Adds samples to one sum per channel.
    fn sums<W: Real>(map: &[W], samples: &[Sample<W>], to: &mut [W]) {
        each(map, samples, to, |sum, x| sum + x);
    }
}

multiversion! {
    vectors if size_of::<W>() <= size_of::<f32>();
    /// The maximum of `to` and the samples, for each channel.
    fn largest<W: Real>(map: &[W], samples: &[Sample<W>], to: &mut [W]) {
        each(map, samples, to, |max, x| if x > max { x } else { max });
    }
}

multiversion! {
    vectors if size_of::<W>() <= size_of::<f32>();
    /// The maximum of `to` and the elements of a window, for each channel.
    fn largest_of_window<W: Real>(map: &[W], width: usize, window: &Window, to: &mut [W]) {
        let channels = to.len();
        let (groups, rest) = to.as_chunks_mut::<LANES>();
        let whole = groups.len() * LANES;
        for (i, to) in groups.iter_mut().enumerate() {
            let mut best = *to;
            for row in window.rows.clone() {
                for column in window.columns.clone() {
                    let at = (row * width + column) * channels + i * LANES;
                    let x = &map[at..][..LANES];
                    for i in 0..LANES {
                        best[i] = larger(best[i], x[i]);
                    }
                }
            }
            *to = best;
        }
        for (i, to) in rest.iter_mut().enumerate() {
            for row in window.rows.clone() {
                for column in window.columns.clone() {
                    *to = larger(*to, map[(row * width + column) * channels + whole + i]);
                }
            }
        }
    }
}

/// Folds samples of all channels, in order.
#[inline(always)]
fn each<W: Real>(map: &[W], samples: &[Sample<W>], to: &mut [W], f: impl Fn(W, W) -> W) {
    let channels = to.len();
    for Sample { at, weights: [s, t, u, v] } in samples {
        let [a, b, c, d] = at.map(|at| &map[at * channels..][..channels]);
        for (i, to) in to.iter_mut().enumerate() {
            *to = f(*to, *s * a[i] + *t * b[i] + *u * c[i] + *v * d[i]);
        }
    }
}
