//! Attention: `softmax(q kᵀ · scale + mask) v`, some rows at a time, so that the scores of a whole
//! head are never in memory. GEMM and softmax are those of [`gemm`](crate::gemm) and
//! [`softmax`](crate::nn::softmax), with the same bits.

use crate::base::num::UnalignedF32;
use crate::base::par::{Slice, Threads};
use crate::base::scratch::ScratchPool;
use crate::base::slices::LANES;
use crate::gemm::{
    Gemm, Layout, Lhs, Operand, PostOp, Precision, Rhs, RhsSize, SMALL_M_ROWS, add, add_number,
    pack_into, panels_len, rows_per_block,
};
use crate::nn::softmax::softmax_rows;

/// Scores that are computed at a time: they stay in the cache until they are multiplied by the
/// values.
const SCORES: usize = 48 << 10;

/// Multiply-adds that are worth a second thread.
const GRAIN: usize = 1 << 16;

/// What all heads have in common.
#[derive(Clone, Debug, PartialEq)]
pub struct Attention {
    /// Rows of the query and of the output.
    pub rows: usize,
    /// Rows of the key and the value.
    pub terms: usize,
    /// Columns of query and key.
    pub depth: usize,
    /// Columns of value and output.
    pub width: usize,
    /// The factor of q kᵀ.
    pub scale: f32,
    /// Whether row `i` attends to rows `0..=i` of the keys only.
    pub causal: bool,
    /// Distances between the rows of query, key, value and output.
    pub strides: [usize; 4],
    /// What the operands of both GEMMs are converted to, unless there are few rows.
    pub precision: Precision,
}

/// The operands of one head.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// Rows of `depth` elements.
    pub query: &'a [f32],
    /// Rows of `depth` elements.
    pub key: &'a [f32],
    /// Rows of `width` elements.
    pub value: &'a [f32],
    /// What is added to the scores, in this order; ignored if `causal`.
    pub masks: [Option<Mask<'a>>; 2],
    /// A score per row that takes part in the softmax but has no value: one column.
    pub sink: Option<Mask<'a>>,
}

/// A matrix that broadcasts to the scores of a head.
#[derive(Clone, Copy, Debug)]
pub struct Mask<'a> {
    /// Its elements.
    pub values: &'a [f32],
    /// Distance between rows: 0 if all are equal.
    pub row: usize,
    /// Distance between columns: 1, or 0 if all are equal.
    pub column: usize,
}

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
        assert!(self.rows == 1 || self.strides[3] >= self.width, "rows of the output overlap");
        let len = output.len();
        let whole = Slice::new(output);
        let parts = self.parts(heads, threads.count());
        let size = self.rows.div_ceil(parts);
        let scratch_len = self.scratch_len();
        let mut space = scratch.take::<f32>(scratch_len * threads.count());
        let space = Slice::new(&mut space);
        let work = size * self.terms * (self.depth + self.width);
        threads.par_ranges_with(heads * parts, (GRAIN / 4).div_ceil(work + 1), |range, worker| {
            // SAFETY: no two threads are the same worker at a time.
            let space = unsafe { space.part(worker * scratch_len, scratch_len) };
            for task in range {
                let (i, first) = (task / parts, task % parts * size);
                let rows = first..(first + size).min(self.rows);
                let start = at(i);
                assert!(start + (self.rows - 1) * self.strides[3] + self.width <= len);
                self.some_rows(&head(i), rows, space, (whole, start));
            }
        });
    }

    /// Number of tasks that the rows of a head are divided into.
    fn parts(&self, heads: usize, threads: usize) -> usize {
        let wanted = if threads > 1 { 2 * threads } else { 1 };
        wanted.div_ceil(heads).min(self.rows.div_ceil(32)).max(1)
    }

    /// Rows of scores that are computed together: whole blocks of the GEMM.
    fn block(&self) -> usize {
        let most = rows_per_block(self.precision());
        let whole = (SCORES / self.terms.max(1)).clamp(16, 256) / most * most;
        whole.max(most).min(self.rows)
    }

    fn few(&self) -> bool {
        self.rows <= SMALL_M_ROWS
    }

    /// Elements of scratch memory per worker: scores, one row of output, and packed operands.
    fn scratch_len(&self) -> usize {
        let packed = if self.few() {
            0
        } else {
            self.panels_len(self.depth, self.terms) + self.panels_len(self.terms, self.width)
        };
        self.block() * self.columns(true) + packed
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

    /// Columns of the scores, with or without a sink, padded to whole groups of lanes. Padding is
    /// -inf, so its weight is 0.
    fn columns(&self, has_sink: bool) -> usize {
        (self.terms + usize::from(has_sink)).next_multiple_of(LANES)
    }

    /// Computes some rows of a head, block by block.
    fn some_rows(
        &self,
        head: &Head<'_>,
        rows: std::ops::Range<usize>,
        space: &mut [f32],
        (output, start): (Slice<f32>, usize),
    ) {
        let [_, key, value, _] = self.strides;
        let (keys, values) = (Layout::Columns { stride: key }, Layout::Rows { stride: value });
        let (scores, rest) = space.split_at_mut(self.block() * self.columns(true));
        let (keys, values) = if self.few() {
            (
                Rhs::Unpacked(UnalignedF32::of(head.key), keys),
                Rhs::Unpacked(UnalignedF32::of(head.value), values),
            )
        } else {
            let (k, v) = rest.split_at_mut(self.panels_len(self.depth, self.terms));
            let pack = |from: &[f32], layout, size, to: &mut [f32]| {
                let from = UnalignedF32::of(from);
                pack_into(Threads::single(), from, layout, size, self.precision(), to);
            };
            pack(head.key, keys, RhsSize { k: self.depth, n: self.terms }, k);
            pack(head.value, values, RhsSize { k: self.terms, n: self.width }, v);
            (Rhs::Panels(k), Rhs::Panels(v))
        };
        for first in rows.clone().step_by(self.block()) {
            let block = first..(first + self.block()).min(rows.end);
            let columns = self.scores(head, block.clone(), keys, scores);
            // SAFETY: `run` has shown that the rows are within the output.
            let to = unsafe { output.from(start + block.start * self.strides[3]) };
            self.weighted(block, columns, (scores, values), to);
        }
    }

    /// Computes the weights of a block of rows; returns the distance between its rows.
    fn scores(
        &self,
        head: &Head<'_>,
        rows: std::ops::Range<usize>,
        keys: Rhs<'_>,
        scores: &mut [f32],
    ) -> usize {
        let stride = self.columns(head.sink.is_some());
        let count = rows.len();
        let query = head.query.get(rows.start * self.strides[0]..).unwrap_or_default();
        let scale = [PostOp::Multiply(Operand::Number(self.scale))];
        let gemm = Gemm {
            m: count,
            n: self.terms,
            k: self.depth,
            a: Lhs::Rows { values: query, stride: self.strides[0] },
            b: keys,
            c_stride: stride,
            precision: self.precision(),
            post_ops: &scale,
        };
        gemm.run_alone(&mut [], scores);
        for (i, line) in rows.zip(scores.chunks_mut(stride.max(1))) {
            let (line, sink) = line.split_at_mut(self.terms);
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
                _ => add(line, &values[..self.terms]),
            }
        }
    }

    /// Multiplies the weights of a block by the values.
    fn weighted(
        &self,
        rows: std::ops::Range<usize>,
        stride: usize,
        (weights, values): (&[f32], Rhs<'_>),
        to: Slice<f32>,
    ) {
        let gemm = Gemm {
            m: rows.len(),
            n: self.width,
            k: self.terms,
            a: Lhs::Rows { values: weights, stride },
            b: values,
            c_stride: self.strides[3],
            precision: self.precision(),
            post_ops: &[],
        };
        let len = (rows.len() - 1) * self.strides[3] + self.width;
        // SAFETY: these rows belong to this task alone.
        unsafe { gemm.run_at(&mut [], to, len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(len: usize, seed: usize) -> Vec<f32> {
        (0..len).map(|i| ((i * 37 + seed * 11) % 101) as f32 / 50.0 - 1.0).collect()
    }

    /// The definition in f64.
    fn reference(a: &Attention, head: &Head<'_>) -> Vec<f64> {
        let mut out = Vec::new();
        for i in 0..a.rows {
            let score = |j: usize| {
                let pairs = (0..a.depth).map(|k| {
                    let (q, k) = (head.query[i * a.strides[0] + k], head.key[j * a.strides[1] + k]);
                    f64::from(q) * f64::from(k)
                });
                let masks = head.masks.iter().flatten().filter(|_| !a.causal);
                let masked: f32 = masks.map(|m| m.values[i * m.row + j * m.column]).sum();
                if a.causal && j > i {
                    f64::NEG_INFINITY
                } else {
                    pairs.sum::<f64>() * f64::from(a.scale) + f64::from(masked)
                }
            };
            let powers: Vec<f64> = (0..a.terms).map(|j| score(j).exp()).collect();
            let sink = head.sink.map_or(0.0, |s| f64::from(s.values[i * s.row]).exp());
            let sum = powers.iter().sum::<f64>() + sink;
            for v in 0..a.width {
                let weighted = powers.iter().enumerate();
                let of = |(j, p): (usize, &f64)| p * f64::from(head.value[j * a.strides[2] + v]);
                out.push(weighted.map(of).sum::<f64>() / sum);
            }
        }
        out
    }

    #[test]
    fn agrees_with_the_definition() {
        agrees(Precision::F32, 2e-5);
    }

    /// The scores are off by 2⁻⁷ of sums of at most 20 · 0.3, and the weights by as much.
    #[test]
    fn bf16_operands_stay_close() {
        agrees(Precision::Bf16, 0.05);
    }

    /// With enough rows for packing, and with few.
    #[test]
    fn without_terms_rows_are_zeros() {
        for (rows, sink) in [(1, false), (3, true), (70, false), (70, true)] {
            let (terms, depth, width, precision) = (0, 20, 33, Precision::F32);
            let strides = [depth, depth, width, width];
            let (scale, causal) = (0.3, false);
            let a = Attention { rows, terms, depth, width, scale, causal, strides, precision };
            let (q, one) = (numbers(rows * depth, 1), [1.0]);
            let sink = sink.then_some(Mask { values: &one, row: 0, column: 0 });
            let head = |_| Head { query: &q, key: &[], value: &[], masks: [None; 2], sink };
            let mut out = vec![f32::NAN; rows * width];
            a.run(&Threads::new(2), &ScratchPool::default(), 1, head, |_| 0, &mut out);
            assert!(out.iter().all(|x| *x == 0.0));
        }
    }

    fn agrees(precision: Precision, bound: f64) {
        for (rows, terms, causal) in
            [(1, 40, false), (3, 7, true), (300, 150, false), (70, 70, true)]
        {
            for (masked, sink) in [(None, None), (Some(1), None), (Some(0), Some(1))] {
                let (depth, width, heads) = (20, 33, 3);
                // The heads are concatenated in each row.
                let strides = [depth * heads, depth, width, width * heads];
                let a =
                    Attention { rows, terms, depth, width, scale: 0.3, causal, strides, precision };
                let (q, k) = (numbers(rows * strides[0], 1), numbers(heads * terms * depth, 2));
                let (v, m) = (numbers(heads * terms * width, 3), numbers(rows * terms, 4));
                let head = |i: usize| Head {
                    query: &q[i * depth..],
                    key: &k[i * terms * depth..],
                    value: &v[i * terms * width..],
                    masks: [
                        masked.map(|column| Mask { values: &m, row: terms * column, column }),
                        masked.map(|_| Mask { values: &v, row: 0, column: 1 }),
                    ],
                    sink: sink.map(|row| Mask { values: &m, row, column: 0 }),
                };
                let mut results = Vec::new();
                for threads in [1, 2] {
                    let mut out = vec![f32::NAN; rows * strides[3]];
                    let scratch = ScratchPool::default();
                    a.run(&Threads::new(threads), &scratch, heads, head, |i| i * width, &mut out);
                    results.push(out);
                }
                assert_eq!(results[0], results[1]);
                for i in 0..heads {
                    for (at, exact) in reference(&a, &head(i)).iter().enumerate() {
                        let found = results[0][at / width * strides[3] + i * width + at % width];
                        assert!((f64::from(found) - exact).abs() < bound, "{found} {exact}");
                    }
                }
            }
        }
    }
}
