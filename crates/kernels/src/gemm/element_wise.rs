//! Post-ops without a GEMM, block by block in the cache.

use super::post_ops::{Operand, PostOp, Strided, apply_post_ops, apply_to_rows};
use crate::base::par::Threads;
use crate::base::scratch::InOut;
use crate::base::slices::GRAIN;
use crate::math::quantize::{Output, Quantizers};

/// Elements of a block: it and the operands fit L1. Rows that are not longer are computed whole.
pub const BLOCK: usize = 2 << 10;

/// Writes the elements from an offset on.
pub type Fill<'f> = dyn Fn(usize, &mut [f32]) + Sync + 'f;

/// What post-ops are applied to: the input, or what is filled in.
pub struct Elements<'a> {
    /// The input and the output.
    pub io: InOut<'a, f32>,
    /// Writes the elements in place of the input.
    pub fill: Option<&'a Fill<'a>>,
}

impl Elements<'_> {
    /// Computes the elements from `start` to `end` in the output.
    ///
    /// # Safety
    /// Nobody else uses them meanwhile.
    unsafe fn compute(&self, (start, end): (usize, usize), apply: impl FnOnce(&mut [f32])) {
        debug_assert!(start <= end && end <= self.io.len());
        // SAFETY: the caller's promise.
        let mut io = unsafe { self.io.part(start..end) };
        match self.fill {
            Some(fill) => fill(start, io.output(0..end - start)),
            None => {
                if let Ok((from, to)) = io.slices() {
                    to.copy_from_slice(from);
                }
            }
        }
        apply(io.output(0..end - start));
    }
}

/// Applies post-ops to all rows of `columns` elements, block by block.
///
/// # Panics
/// When a row is not whole, or an operand has too few elements.
pub fn map_rows(
    threads: &Threads,
    columns: usize,
    post_ops: &[PostOp<'_>],
    elements: &Elements<'_>,
) {
    let rows = elements.io.len() / columns.max(1);
    assert_eq!(rows * columns, elements.io.len(), "a row is not whole");
    assert!(post_ops.iter().all(|op| op.reaches(rows, columns)), "an operand is too short");
    if columns > BLOCK {
        let parts = columns.div_ceil(BLOCK);
        return threads.par_ranges(rows * parts, GRAIN / BLOCK, |range| {
            for (row, first) in range.map(|part| (part / parts, part % parts * BLOCK)) {
                let (start, len) = (row * columns + first, BLOCK.min(columns - first));
                // SAFETY: the parts of rows are disjoint.
                unsafe {
                    elements.compute((start, start + len), |run| {
                        apply_post_ops(post_ops, row, first, run);
                    });
                }
            }
        });
    }
    let at_once = BLOCK / columns.max(1);
    threads.par_ranges(rows.div_ceil(at_once), GRAIN.div_ceil(at_once * columns), |blocks| {
        for first in blocks.map(|block| block * at_once) {
            let end = rows.min(first + at_once);
            // SAFETY: the rows of different blocks are disjoint.
            unsafe {
                elements.compute((first * columns, end * columns), |rows| {
                    apply_to_rows(post_ops, first, columns, rows);
                });
            }
        }
    });
}

/// Applies post-ops to rows of `columns` elements that `fill` writes, block by block, and quantizes
/// them if the output is quantized.
///
/// # Panics
/// When a row is not whole, an operand has too few elements, or a row that is quantized is longer
/// than a [`BLOCK`].
pub fn map_rows_to(
    threads: &Threads,
    (columns, post_ops): (usize, &[PostOp<'_>]),
    fill: &Fill<'_>,
    output: Output<'_>,
) {
    let (quantized, quantizers) = match output {
        Output::F32(to) => {
            let elements = Elements { io: InOut::in_place(to), fill: Some(fill) };
            return map_rows(threads, columns, post_ops, &elements);
        }
        Output::Quantized(to, quantizers) => (to, quantizers),
    };
    let rows = quantized.len() / columns.max(1);
    assert!(rows * columns == quantized.len() && columns <= BLOCK, "a row is not whole");
    assert!(post_ops.iter().all(|op| op.reaches(rows, columns)), "an operand is too short");
    let of_block = BLOCK / columns.max(1);
    threads.par_chunks_mut(quantized, of_block * columns, GRAIN, |first, part| {
        let mut values = [0.0; BLOCK];
        for (i, part) in part.chunks_mut(of_block * columns).enumerate() {
            let (row, values) = ((first + i) * of_block, &mut values[..part.len()]);
            fill(row * columns, values);
            apply_to_rows(post_ops, row, columns, values);
            quantizers.rows(columns, values, part);
        }
    });
}

/// An operand of a Concat along rows.
pub struct ConcatOperand<'a> {
    /// Rows of `columns` elements.
    pub rows: &'a [f32],
    /// Elements of a row.
    pub columns: usize,
    /// What is applied to the rows.
    pub post_ops: &'a [PostOp<'a>],
}

/// Writes rows from row `first` on, at most [`BLOCK`] elements. Each holds a row of every operand,
/// one after the other.
///
/// # Panics
/// When there are more elements, or an operand lacks a row.
pub fn concat_rows(operands: &[ConcatOperand<'_>], first: usize, to: &mut [f32]) {
    let all: usize = operands.iter().map(|operand| operand.columns).sum();
    let rows = to.len() / all.max(1);
    let (mut own, mut start) = ([0f32; BLOCK], 0);
    for ConcatOperand { rows: from, columns, post_ops } in operands {
        let mut from = &from[first * columns..][..rows * columns];
        if !post_ops.is_empty() {
            let own = &mut own[..from.len()];
            own.copy_from_slice(from);
            apply_to_rows(post_ops, first, *columns, own);
            from = own;
        }
        for (to, from) in to.chunks_exact_mut(all).zip(from.chunks_exact(*columns)) {
            copy_row(from, &mut to[start..][..*columns]);
        }
        start += columns;
    }
}

/// Quantizes rows of a Concat whose operands have no post-ops.
///
/// # Panics
/// When an operand lacks a row.
pub fn quantize_concat(
    threads: &Threads,
    operands: &[ConcatOperand<'_>],
    (quantizers, quantized): (Quantizers<'_>, &mut [u8]),
) {
    let all: usize = operands.iter().map(|operand| operand.columns).sum();
    let block = (BLOCK / all.max(1)).max(1) * all;
    threads.par_chunks_mut(quantized, block, GRAIN, |first, part| {
        for (i, part) in part.chunks_mut(block).enumerate() {
            let (row, rows) = ((first + i) * block / all, part.len() / all);
            let mut start = 0;
            for ConcatOperand { rows: from, columns, .. } in operands {
                let from = &from[row * columns..][..rows * columns];
                quantizers.columns(start, (*columns, from), (all, &mut part[start..]));
                start += columns;
            }
        }
    });
}

/// Copies a row that is usually too short for `memcpy` to pay.
fn copy_row(from: &[f32], to: &mut [f32]) {
    let ((from, from_rest), (to, to_rest)) = (from.as_chunks::<8>(), to.as_chunks_mut());
    for (to, from) in to.iter_mut().zip(from) {
        *to = *from;
    }
    to_rest.copy_from_slice(from_rest);
}

/// Applies post-ops to planes of `len` elements, block by block. Each channel has a plane, and
/// `channels` of them follow each other; what is given for each column counts for each channel.
///
/// # Panics
/// When a plane is not whole, an operand has too few elements, or a post-op quantizes columns.
pub fn map_planes(
    threads: &Threads,
    (channels, len): (usize, usize),
    post_ops: &[PostOp<'_>],
    elements: &Elements<'_>,
) {
    let (planes, parts) = (elements.io.len() / len.max(1), len.div_ceil(BLOCK));
    assert_eq!(planes * len, elements.io.len(), "a plane is not whole");
    threads.par_ranges(planes * parts, GRAIN.div_ceil(BLOCK.min(len.max(1))), |range| {
        for (plane, first) in range.map(|part| (part / parts, part % parts * BLOCK)) {
            let (start, len_of_part) = (plane * len + first, BLOCK.min(len - first));
            // SAFETY: the parts of planes are disjoint.
            unsafe {
                elements.compute((start, start + len_of_part), |run| {
                    let of_channel = post_ops.iter().map(|op| op.of_channel(plane % channels));
                    of_channel.for_each(|op| op.apply((plane, first), run.len(), run));
                });
            }
        }
    });
}

impl<'a> PostOp<'a> {
    /// The post-op for the plane of a channel, whose operand is that of a column.
    fn of_channel(self, channel: usize) -> PostOp<'a> {
        let operand = |operand: Operand<&'a [f32], Strided<'a, f32>>| match operand {
            Operand::Columns(values) => Operand::Number(values[channel]),
            operand => operand,
        };
        match self {
            PostOp::Add(by) => PostOp::Add(operand(by)),
            PostOp::Multiply(by) => PostOp::Multiply(operand(by)),
            PostOp::Divide(by) => PostOp::Divide(operand(by)),
            PostOp::QuantizeColumns(_) => panic!("planes have no columns"),
            op => op,
        }
    }
}
