//! Rows of A, quantized.

use crate::base::par::{Slice, Threads};
use crate::multiversion;
use std::ops::Range;

/// Terms of A that share a scale.
pub(super) const GROUP: usize = 32;

/// Elements that are worth a second thread.
const GRAIN: usize = 1 << 14;

/// In which order the terms of a group lie, as those of the weights do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TermOrder {
    /// One after the other.
    Plain,
    /// Of each eight first the even ones, then the odd: the low and the high four bits of bytes.
    Nibbles,
}

/// Memory for quantized rows.
pub(super) struct QuantizedRows<'a> {
    bytes: &'a mut [i8],
    factors: &'a mut [f32],
    k: usize,
    order: TermOrder,
}

/// Quantized rows: for each group of a row its bytes, its scale, and the sum of its bytes times
/// that.
#[derive(Clone, Copy)]
pub(super) struct RowGroups<'a> {
    pub(super) bytes: &'a [i8],
    /// Pairs of the scale and the scaled sum.
    pub(super) factors: &'a [f32],
    pub(super) k: usize,
}

impl<'a> RowGroups<'a> {
    /// Some of the rows.
    pub(super) fn rows(&self, rows: Range<usize>) -> RowGroups<'a> {
        let factors = 2 * (self.k / GROUP);
        RowGroups {
            bytes: &self.bytes[rows.start * self.k..rows.end * self.k],
            factors: &self.factors[rows.start * factors..rows.end * factors],
            k: self.k,
        }
    }

    pub(super) fn count(&self) -> usize {
        self.bytes.len().checked_div(self.k).unwrap_or_default()
    }
}

impl<'a> QuantizedRows<'a> {
    /// # Panics
    /// Unless rows of `k` terms are whole groups.
    pub(super) fn new(
        bytes: &'a mut [i8],
        factors: &'a mut [f32],
        k: usize,
        order: TermOrder,
    ) -> QuantizedRows<'a> {
        assert!(k.is_multiple_of(GROUP) && factors.len() == 2 * (bytes.len() / GROUP));
        QuantizedRows { bytes, factors, k, order }
    }

    /// Quantizes rows that are `stride` elements apart.
    pub(super) fn quantize(self, threads: &Threads, a: &[f32], stride: usize) -> RowGroups<'a> {
        let QuantizedRows { bytes, factors, k, order } = self;
        let groups = k / GROUP;
        let count = bytes.len().checked_div(k).unwrap_or_default();
        let (to, parts) = (Slice::new(bytes), Slice::new(factors));
        threads.par_ranges(count, GRAIN.div_ceil(k + 1), |rows| {
            for row in rows {
                // SAFETY: rows are disjoint parts.
                let (bytes, factors) =
                    unsafe { (to.part(row * k, k), parts.part(2 * row * groups, 2 * groups)) };
                quantize_row(&a[row * stride..][..k], order, bytes, factors);
            }
        });
        RowGroups { bytes, factors, k }
    }
}

/// Adding it to a number that is not large rounds to an integer, ties to even, whose low bits are
/// those of the sum.
const TO_INTEGER: f32 = 12_582_912.0;

multiversion! {
    fn quantize_row(row: &[f32], order: TermOrder, bytes: &mut [i8], factors: &mut [f32]) {
        let groups = row.as_chunks::<GROUP>().0.iter().zip(bytes.as_chunks_mut::<GROUP>().0);
        for ((row, bytes), factors) in groups.zip(factors.as_chunks_mut::<2>().0) {
            // Of numbers without a sign, bits are in the order of the values, and NaN comes last.
            let bits = row.iter().fold(0, |most, x| x.abs().to_bits().max(most));
            let largest = f32::from_bits(bits);
            let inverse = 127.0 / largest;
            // Zeros, and numbers so small that their inverse is none.
            let inverse = if inverse.is_finite() { inverse } else { 0.0 };
            let scale = if largest.is_finite() { largest / 127.0 } else { f32::NAN };
            let quantized = row.map(|x| (x * inverse + TO_INTEGER).to_bits() as i8);
            let sum: i32 = quantized.iter().map(|q| i32::from(*q)).sum();
            *factors = [scale, scale * sum as f32];
            *bytes = match order {
                TermOrder::Plain => quantized,
                TermOrder::Nibbles => std::array::from_fn(|i| {
                    quantized[i / 8 * 8 + i % 4 * 2 + i % 8 / 4]
                }),
            };
        }
    }
}
