//! Converts A to bf16 once, before the tiles, if several tiles would convert the same elements:
//! those under overlapping windows of a convolution, or rows that are multiplied by many tiles of
//! columns. The lines of a convolution's input are padded with zeros on the way.

use crate::base::par::{Slice, Threads};
use crate::base::scratch::ScratchPool;
use crate::gemm::im2col::{Im2col, InputStrides, Window};
use crate::gemm::pack::bf16::convert_to_bf16;
use crate::gemm::precision::Precision;
use crate::gemm::problem::{Gemm, Lhs};

/// Elements that are worth a second thread.
const GRAIN: usize = 1 << 15;

/// Limit of a padded line, as a multiple of the line: a model may ask for any padding.
const MAX_PADDED: usize = 4;

impl Gemm<'_> {
    /// Whether converting A first pays if `across` tiles read each row. A pair must not span two
    /// runs.
    pub(crate) fn converts_a_first(&self, across: usize) -> bool {
        let (len, run) = match self.a {
            Lhs::Rows { stride, .. } => (self.m * stride, stride),
            Lhs::Runs { values, run, .. } => (values.len(), run),
            Lhs::Im2col(windows) if !windows.reads_all() => return false,
            Lhs::Im2col(windows) => (windows.input.len(), windows.strides.position),
            Lhs::Bf16(Lhs::Im2col(windows)) => {
                let [_, _, width] = windows.axes;
                let gains = windows.reads_all() && padded(width) != width;
                return gains && !self.precision.has_tiles();
            }
            Lhs::Scaled { .. } | Lhs::Concat { .. } | Lhs::Bf16(_) => return false,
        };
        let is_read_again = self.m * self.k * across >= 2 * len;
        let is_even = run.is_multiple_of(2) && self.k.is_multiple_of(2);
        // With AMX rows are packed, and so converted once, for each tile of C.
        self.precision == Precision::Bf16 && !self.precision.has_tiles() && is_even && is_read_again
    }

    /// Converts A and calls `then` with the GEMM of the result.
    pub(crate) fn convert_a_first(
        &self,
        threads: &Threads,
        scratch: &ScratchPool,
        then: impl FnOnce(&Gemm<'_>),
    ) {
        let values = match self.a {
            Lhs::Rows { values, stride } => &values[..(self.m - 1) * stride + self.k],
            Lhs::Runs { values, .. } => values,
            Lhs::Im2col(of) | Lhs::Bf16(&Lhs::Im2col(of)) => {
                return self.convert_windows(of, threads, scratch, then);
            }
            Lhs::Scaled { .. } | Lhs::Concat { .. } | Lhs::Bf16(_) => return then(self),
        };
        let per_lane = self.precision.per_lane();
        let mut lanes = scratch.take::<f32>(values.len() / per_lane);
        let shared = Slice::new(&mut lanes);
        let per_pair = 2 / per_lane;
        threads.par_ranges(values.len() / 2, GRAIN, |pairs| {
            // SAFETY: the ranges are disjoint.
            let to = unsafe { shared.part(pairs.start * per_pair, pairs.len() * per_pair) };
            convert_to_bf16(&values[2 * pairs.start..2 * pairs.end], to);
        });
        let a = match self.a {
            Lhs::Runs { runs, run, .. } => Lhs::Runs { values: &lanes, runs, run: run / per_lane },
            Lhs::Rows { stride, .. } => Lhs::Rows { values: &lanes, stride: stride / per_lane },
            other => other,
        };
        then(&Gemm { a: Lhs::Bf16(&a), ..*self });
    }

    /// The same for windows. The input may already be bf16; then it is only padded, since windows
    /// that reach past a line need a pointer for each tap.
    fn convert_windows(
        &self,
        of: &Im2col<'_>,
        threads: &Threads,
        scratch: &ScratchPool,
        then: impl FnOnce(&Gemm<'_>),
    ) {
        let [depth, height, own] = of.axes;
        let width = padded(own);
        let is_bf16 = matches!(self.a, Lhs::Bf16(_));
        let per_lane = if is_bf16 { 1 } else { self.precision.per_lane() };
        let position = of.strides.position / per_lane;
        let (line, lines) = (width.input * position, depth.input * height.input);
        let batch = of.input.len() / of.strides.image.max(1);
        let before = (width.start - own.start).unsigned_abs() * position;
        let mut lanes = scratch.take::<f32>(batch * lines * line);
        threads.par_chunks_mut(&mut lanes, line, GRAIN / per_lane, |first, part| {
            for (i, to) in part.chunks_exact_mut(line.max(1)).enumerate() {
                let (batch, y) = ((first + i) / lines, (first + i) % lines);
                let len = own.input * of.strides.position;
                let (left, rest) = to.split_at_mut(before);
                let (inside, right) = rest.split_at_mut(own.input * position);
                let from = &of.input[batch * of.strides.image + y * len..][..len];
                left.fill(0.0);
                if is_bf16 {
                    inside.copy_from_slice(from);
                } else {
                    convert_to_bf16(from, inside);
                }
                right.fill(0.0);
            }
        });
        let windows = Im2col {
            input: &lanes,
            axes: [depth, height, width],
            strides: InputStrides { image: lines * line, position, channel: 1 },
            channels: 0..of.channels.len() / per_lane,
            zeros: of.zeros,
        };
        then(&Gemm { a: Lhs::Bf16(&Lhs::Im2col(&windows)), ..*self });
    }
}

/// The windows over padded lines, unless the padding is far longer than the line.
fn padded(width: Window) -> Window {
    let wide = width.with_zeros();
    if wide.input <= width.input.saturating_mul(MAX_PADDED) { wide } else { width }
}
