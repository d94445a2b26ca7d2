//! Rounding A before the tiles, where they would round the same elements again and again: those
//! under the windows of a convolution, and rows that meet columns of B in turn.

use super::precision::Precision;
use super::round::round_all;
use super::{Left, Place, Product, Windows};
use crate::memory::ScratchPool;
use crate::par::{Slice, Threads};

/// Elements that are worth a second thread.
const GRAIN: usize = 1 << 15;

impl Product<'_> {
    /// Whether rounding A first pays if there are `across` tiles side by side. Pairs must not
    /// reach from one run into the next.
    pub(super) fn rounds_first(&self, across: usize) -> bool {
        let (len, run) = match self.a {
            Left::Rows { stride, .. } => (self.m * stride, stride),
            Left::Runs { values, run, .. } => (values.len(), run),
            Left::Windows(windows) if !windows.reads_all() => return false,
            Left::Windows(windows) => (windows.input.len(), windows.place.position),
            Left::Scaled { .. } | Left::Beside { .. } | Left::Rounded(_) => return false,
        };
        let is_read_again = self.m * self.k * across >= 2 * len;
        let is_even = run.is_multiple_of(2) && self.k.is_multiple_of(2);
        // Rows that become tiles are read once for each tile of C.
        self.precision == Precision::Bf16 && !self.precision.has_tiles() && is_even && is_read_again
    }

    /// Rounds A and calls `then` with the product of what it has become.
    pub(super) fn round_first(
        &self,
        threads: &Threads,
        scratch: &ScratchPool,
        then: impl FnOnce(&Product<'_>),
    ) {
        let values = match self.a {
            Left::Rows { values, stride } => &values[..(self.m - 1) * stride + self.k],
            Left::Runs { values, .. } => values,
            Left::Windows(windows) => windows.input,
            Left::Scaled { .. } | Left::Beside { .. } | Left::Rounded(_) => return then(self),
        };
        let per_lane = self.precision.per_lane();
        let mut lanes = scratch.take::<f32>(values.len() / per_lane);
        let shared = Slice::new(&mut lanes);
        let per_pair = 2 / per_lane;
        threads.ranges(values.len() / 2, GRAIN, |pairs| {
            // SAFETY: the ranges are disjoint.
            let to = unsafe {
                let start = shared.at(pairs.start * per_pair);
                std::slice::from_raw_parts_mut(start, pairs.len() * per_pair)
            };
            round_all(&values[2 * pairs.start..2 * pairs.end], to);
        });
        let windows;
        let a = match self.a {
            Left::Rows { stride, .. } => Left::Rows { values: &lanes, stride: stride / per_lane },
            Left::Runs { runs, run, .. } => {
                Left::Runs { values: &lanes, runs, run: run / per_lane }
            }
            Left::Windows(of) => {
                let (image, position) = (of.place.image / per_lane, of.place.position / per_lane);
                let place = Place { image, position, channel: 1 };
                let channels = (0, of.channels.1 / per_lane);
                windows =
                    Windows { input: &lanes, axes: of.axes, place, channels, zeros: of.zeros };
                Left::Windows(&windows)
            }
            Left::Scaled { .. } | Left::Beside { .. } | Left::Rounded(_) => {
                unreachable!("it has been returned")
            }
        };
        then(&Product { a: Left::Rounded(&a), ..*self });
    }
}
