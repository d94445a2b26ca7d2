//! Pooling of boxes (regions of interest) of feature maps, of any size, to a fixed number of bins:
//! by samples between the elements ([`Align`]), by the elements ([`BoxPool`]), and with channels
//! for each bin ([`PositionPool`]).
//!
//! Boxes are divided among threads. f16 and bf16 are computed in f32, coordinates included.

mod align;
mod box_pool;
mod channels_last;
mod position_pool;

pub use align::{Align, Alignment, MOST_SAMPLES, TooManySamples};
pub use box_pool::BoxPool;
pub use position_pool::{Offsets, PositionMode, PositionPool};

use crate::base::num::Stored;
use crate::base::par::Threads;
use crate::math::real::{Real, StoredReal};
use std::ops::Range;

/// Feature maps: `[batch, channels, height, width]`.
#[derive(Clone, Copy, Debug)]
pub struct Maps<'a, T> {
    /// The elements.
    pub data: &'a [T],
    /// Channels of an image.
    pub channels: usize,
    /// Rows of a plane.
    pub height: usize,
    /// Columns of a plane.
    pub width: usize,
}

impl<'a, T> Maps<'a, T> {
    fn plane(&self, batch: usize, channel: usize) -> &'a [T] {
        let size = self.height * self.width;
        &self.data[(batch * self.channels + channel) * size..][..size]
    }
}

/// A point between four elements of a plane: their indices and weights.
#[derive(Clone, Copy, Debug)]
struct Sample<W> {
    at: [usize; 4],
    weights: [W; 4],
}

impl<W: Real> Sample<W> {
    /// A point of the maps. It may be up to `margin` outside the centres of the outermost elements,
    /// and is moved there; `None` if it is further outside.
    fn new<T>(maps: &Maps<'_, T>, (x, y): (W, W), margin: f64) -> Option<Sample<W>> {
        let axis = |v: W, size: usize| {
            let last = W::of(size.checked_sub(1)? as f64);
            if !(v >= W::of(-margin) && v <= last + W::of(margin)) {
                return None;
            }
            let v = v.greatest(W::of(0.0)).least(last);
            let low = v.floor();
            let (first, rest) = (low.to_f64() as usize, v - low);
            Some((first, (first + 1).min(size - 1), rest))
        };
        let (left, right, fx) = axis(x, maps.width)?;
        let (top, bottom, fy) = axis(y, maps.height)?;
        let at = [(top, left), (top, right), (bottom, left), (bottom, right)];
        let (gx, gy) = (W::of(1.0) - fx, W::of(1.0) - fy);
        Some(Sample {
            at: at.map(|(row, column)| row * maps.width + column),
            weights: [gy * gx, gy * fx, fy * gx, fy * fx],
        })
    }

    /// The value at the point.
    #[inline(always)]
    fn value<T: Stored<Wide = W>>(&self, plane: &[T]) -> W {
        let [a, b, c, d] = [0, 1, 2, 3].map(|i| self.weights[i] * plane[self.at[i]].widen());
        a + b + c + d
    }
}

/// Rows and columns of a plane.
#[derive(Clone, Debug)]
struct Window {
    rows: Range<usize>,
    columns: Range<usize>,
}

impl Window {
    /// Number of elements.
    fn area(&self) -> usize {
        self.rows.len() * self.columns.len()
    }
}

/// The larger of two values; NaN if the second is.
#[inline(always)]
fn larger<W: Real>(best: W, x: W) -> W {
    if best >= x { best } else { x }
}

/// Elements read that are worth a second thread.
const GRAIN: usize = 8 << 10;

/// Calls `f(box, image, its part of the output)` for every box with an image; the others give
/// zeros. Each element of the output reads `reads` elements.
fn each_box<T: Stored>(
    threads: &Threads,
    (batches, size, reads): (&[usize], usize, usize),
    to: &mut [T],
    f: impl Fn(usize, usize, &mut [T]) + Sync,
) {
    let (boxes, rest) = to.split_at_mut(batches.len() * size);
    rest.fill(T::default());
    let grain = GRAIN.div_ceil(reads.max(1));
    threads.par_chunks_mut(boxes, size.max(1), grain, |first, part| {
        for (i, to) in part.chunks_exact_mut(size).enumerate() {
            f(first + i, batches[first + i], to);
        }
    });
}

/// The coordinates of a box, scaled.
fn corners<T: StoredReal>(rois: &[T], scale: f64) -> [T::Wide; 4] {
    [0, 1, 2, 3].map(|i| rois[i].widen() * <T::Wide as Real>::of(scale))
}
