//! Attention: `softmax(q kᵀ · scale + mask) v`, some rows at a time, so that the scores of a whole
//! head are never in memory. GEMM and softmax are those of [`gemm`](crate::gemm) and
//! [`softmax`](crate::nn::softmax), with the same bits.

mod problem;
mod visible;

use crate::base::num::UnalignedF32;
use crate::base::par::{Slice, Threads};
use crate::base::scratch::ScratchPool;
use crate::base::slices::LANES;
use crate::gemm::{
    Gemm, Layout, Lhs, Operand, PostOp, Precision, Rhs, RhsSize, SMALL_M_ROWS, add, add_number,
    pack_into, panels_len, rows_per_block,
};
use crate::nn::softmax::softmax_rows;
pub use problem::{Attention, AttentionStrides, Head, MAX_MASKS, Mask};
use std::ops::Range;
use visible::{ROWS_WITH_HIDDEN, VisibleKeys};

/// Scores that are computed at a time: they stay in the cache until they are multiplied by the
/// values.
const SCORES: usize = 48 << 10;

/// Multiply-adds that are worth a second thread.
const GRAIN: usize = 1 << 16;

impl Attention {
    /// Computes `heads` heads; head `i` writes its rows to `output` from element `at(i)` on.
    ///
    /// # Panics
    /// When a slice is too short. Rows of different heads must not overlap in the output.
    pub fn run<'a>(
        &self,
        threads: &Threads,
        scratch: &ScratchPool,
        heads: usize,
        head: impl Fn(usize) -> Head<'a> + Sync,
        at: impl Fn(usize) -> usize + Sync,
        output: &mut [f32],
    ) {
        if self.rows * self.width * heads == 0 {
            return;
        }
        assert!(self.rows == 1 || self.strides.output >= self.width, "rows of the output overlap");
        let len = output.len();
        let whole = Slice::new(output);
        let parts = self.parts(heads, threads.count());
        let size = self.rows.div_ceil(parts);
        let scratch_len = self.scratch_len();
        let mut space = scratch.take::<f32>(scratch_len * threads.count());
        let space = Slice::new(&mut space);
        let work = size * self.keys * (self.depth + self.width);
        threads.par_ranges_with(heads * parts, (GRAIN / 4).div_ceil(work + 1), |range, worker| {
            // SAFETY: no two threads are the same worker at a time.
            let space = unsafe { space.part(worker * scratch_len, scratch_len) };
            for task in range {
                let (i, first) = (task / parts, task % parts * size);
                let rows = first..(first + size).min(self.rows);
                let start = at(i);
                assert!(start + (self.rows - 1) * self.strides.output + self.width <= len);
                self.some_rows(&head(i), rows, space, (whole, start));
            }
        });
    }

    /// Number of tasks that the rows of a head are divided into.
    fn parts(&self, heads: usize, threads: usize) -> usize {
        let wanted = if threads > 1 { 2 * threads } else { 1 };
        wanted.div_ceil(heads).min(self.rows.div_ceil(32)).max(1)
    }

    /// The most rows of scores that are computed together.
    fn block(&self) -> usize {
        self.block_of(false)
    }

    /// Rows of scores that are computed together: whole blocks of the GEMM. Fewer if keys are
    /// hidden, since only those that are hidden from all rows are left out.
    fn block_of(&self, has_hidden: bool) -> usize {
        let most = rows_per_block(self.precision());
        let limit = if has_hidden { ROWS_WITH_HIDDEN } else { 256 };
        let whole = (SCORES / self.keys.max(1)).clamp(16, limit) / most * most;
        whole.max(most).min(self.rows)
    }

    fn few(&self) -> bool {
        self.rows <= SMALL_M_ROWS
    }

    /// Elements of scratch memory per worker: scores and packed operands.
    fn scratch_len(&self) -> usize {
        let packed = if self.few() {
            0
        } else {
            self.panels_len(self.depth, self.keys) + self.panels_len(self.keys, self.width)
        };
        self.block() * Self::columns(self.keys, true) + packed
    }

    /// Bytes of scratch memory that a run takes on this many threads.
    pub fn scratch_bytes(&self, threads: usize) -> usize {
        self.scratch_len() * threads * size_of::<f32>()
    }

    /// The precision of the GEMMs.
    fn precision(&self) -> Precision {
        if self.few() { Precision::F32 } else { self.precision }
    }

    fn panels_len(&self, k: usize, n: usize) -> usize {
        panels_len(k, n, self.precision())
    }

    /// Columns of the scores of `keys` keys, with or without a sink, padded to whole groups of
    /// lanes. Padding is -inf, so its weight is 0.
    fn columns(keys: usize, has_sink: bool) -> usize {
        (keys + usize::from(has_sink)).next_multiple_of(LANES)
    }

    /// Computes some rows of a head, block by block.
    fn some_rows(
        &self,
        head: &Head<'_>,
        rows: Range<usize>,
        space: &mut [f32],
        (output, start): (Slice<f32>, usize),
    ) {
        let (scores, packed) = space.split_at_mut(self.block() * Self::columns(self.keys, true));
        let [keys, values] = self.operands(head, packed);
        // Without its last keys a head has the same bits in f32 only.
        let visible = match values {
            Rhs::LeadingRows { .. } => VisibleKeys::new(self, head, rows.clone()),
            _ => None,
        };
        let size = self.block_of(visible.is_some());
        for first in rows.clone().step_by(size) {
            let block = first..(first + size).min(rows.end);
            let seen = visible.as_ref().map_or(self.keys, |visible| visible.count(block.clone()));
            let stride = self.scores(head, block.clone(), (keys, seen), scores);
            // SAFETY: `run` has shown that the rows are within the output.
            let to = unsafe { output.from(start + block.start * self.strides.output) };
            self.weighted(block, (scores, stride), (values, seen), to);
        }
    }

    /// Keys and values of a head, packed if there are many rows.
    fn operands<'a>(&self, head: &'a Head<'_>, packed: &'a mut [f32]) -> [Rhs<'a>; 2] {
        let AttentionStrides { key, value, .. } = self.strides;
        let (keys, values) = (Layout::Columns { stride: key }, Layout::Rows { stride: value });
        let of = UnalignedF32::of;
        if self.few() {
            return [Rhs::Unpacked(of(head.key), keys), Rhs::Unpacked(of(head.value), values)];
        }
        let pack = |from: &[f32], layout, size, to: &mut [f32]| {
            pack_into(Threads::single(), of(from), layout, size, self.precision(), to);
        };
        let (k, v) = packed.split_at_mut(self.panels_len(self.depth, self.keys));
        pack(head.key, keys, RhsSize { k: self.depth, n: self.keys }, k);
        pack(head.value, values, RhsSize { k: self.keys, n: self.width }, v);
        let values = match self.precision() {
            Precision::F32 => Rhs::LeadingRows { panels: v, rows: self.keys },
            Precision::Bf16 => Rhs::Panels(v),
        };
        [Rhs::Panels(k), values]
    }

    /// Computes the weights of the first `seen` keys for a block of rows; returns the distance
    /// between its rows.
    fn scores(
        &self,
        head: &Head<'_>,
        rows: Range<usize>,
        (keys, seen): (Rhs<'_>, usize),
        scores: &mut [f32],
    ) -> usize {
        let stride = Self::columns(seen, head.sink.is_some());
        let count = rows.len();
        let query = head.query.get(rows.start * self.strides.query..).unwrap_or_default();
        let scale = head.scale.unwrap_or(self.scale);
        let scale = [PostOp::Multiply(Operand::Number(scale))];
        let gemm = Gemm {
            m: count,
            n: seen,
            k: self.depth,
            a: Lhs::Rows { values: query, stride: self.strides.query },
            b: keys,
            c_stride: stride,
            precision: self.precision(),
            post_ops: &scale,
        };
        gemm.run_alone(&mut [], scores);
        for (i, line) in rows.zip(scores.chunks_mut(stride.max(1))) {
            let (line, sink) = line.split_at_mut(seen);
            self.bias(head, i, line);
            sink.fill(f32::NEG_INFINITY);
            if let (Some(to), Some(own)) = (sink.first_mut(), head.sink) {
                *to = own.values[i * own.row];
            }
        }
        // Without keys there are no weights, and the output is zeros.
        if stride > 0 {
            softmax_rows(&mut scores[..count * stride], stride);
        }
        stride
    }

    /// Adds the masks to the scores of row `i`.
    fn bias(&self, head: &Head<'_>, i: usize, line: &mut [f32]) {
        if self.causal {
            let seen = (i + 1).min(line.len());
            line[seen..].fill(f32::NEG_INFINITY);
            return;
        }
        for mask in head.masks.iter().flatten() {
            let values = &mask.values[i * mask.row..];
            match mask.column {
                0 => add_number(line, values[0]),
                _ => add(line, &values[..line.len()]),
            }
        }
    }

    /// Multiplies the weights of a block by the first `seen` values.
    fn weighted(
        &self,
        rows: Range<usize>,
        (weights, stride): (&[f32], usize),
        (values, seen): (Rhs<'_>, usize),
        to: Slice<f32>,
    ) {
        let gemm = Gemm {
            m: rows.len(),
            n: self.width,
            k: seen,
            a: Lhs::Rows { values: weights, stride },
            b: values,
            c_stride: self.strides.output,
            precision: self.precision(),
            post_ops: &[],
        };
        let len = (rows.len() - 1) * self.strides.output + self.width;
        // SAFETY: these rows belong to this task alone.
        unsafe { gemm.run_at(&mut [], to, len) };
    }
}

#[cfg(test)]
mod tests;
