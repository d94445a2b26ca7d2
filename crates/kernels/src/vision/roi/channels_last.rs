//! Feature maps in NHWC, so that the channels of a sample are contiguous.

use super::{Maps, Sample};
use crate::base::par::Threads;
use crate::math::real::{Real, StoredReal};
use crate::multiversion;

/// Feature maps in NHWC, in the type of the sums.
pub(super) struct ChannelsLast<W> {
    data: Vec<W>,
    channels: usize,
    plane: usize,
}

/// Elements that are worth a second thread.
const GRAIN: usize = 16 << 10;

/// Positions that are written at a time: those of a channel are one cache line.
const POSITIONS: usize = 16;

impl<W: Real> ChannelsLast<W> {
    /// Transposes maps of at least one channel and one element.
    pub(super) fn new<T: StoredReal<Wide = W>>(threads: &Threads, maps: &Maps<'_, T>) -> Self {
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
        ChannelsLast { data, channels, plane }
    }

    /// The sums of samples for all channels, or their maxima above 0.
    pub(super) fn pool(&self, batch: usize, samples: &[Sample<W>], max: bool, to: &mut [W]) {
        let size = self.plane * self.channels;
        let map = &self.data[batch * size..][..size];
        to.fill(W::of(0.0));
        if max { largest(map, samples, to) } else { sums(map, samples, to) }
    }
}

multiversion! {
    /// Adds samples to one sum per channel.
    fn sums<W: Real>(map: &[W], samples: &[Sample<W>], to: &mut [W]) {
        each(map, samples, to, |sum, x| sum + x);
    }
}

multiversion! {
    /// The maximum of `to` and the samples, for each channel.
    fn largest<W: Real>(map: &[W], samples: &[Sample<W>], to: &mut [W]) {
        each(map, samples, to, |max, x| if x > max { x } else { max });
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
