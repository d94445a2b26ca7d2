//! Quantizes rows of A.

use crate::base::par::{Slice, Threads};
use crate::base::simd::opaque_index;
use crate::multiversion;
use std::ops::Range;

/// Elements along k of A that share a scale.
pub(super) const GROUP: usize = 32;

/// Elements that are worth a second thread.
const GRAIN: usize = 1 << 14;

/// The order of the elements in a group, the same as in the weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TermOrder {
    /// Consecutive.
    Plain,
    /// In each eight, the even ones first, then the odd: the order of low and high nibbles.
    Nibbles,
}

/// Memory for quantized rows.
pub(super) struct QuantizedRows<'a> {
    bytes: &'a mut [i8],
    factors: &'a mut [f32],
    k: usize,
    order: TermOrder,
}

/// Quantized rows: for each group of a row its bytes, its scale, and the sum of its bytes times the
/// scale.
#[derive(Clone, Copy)]
pub(super) struct RowGroups<'a> {
    pub(super) bytes: &'a [i8],
    /// Pairs of scale and scaled sum.
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
    /// When `k` is not a multiple of [`GROUP`].
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

/// Magic number: added to an f32 that is not large, it rounds it to an integer, ties to even, in
/// the low bits of the result.
const TO_INTEGER: f32 = 12_582_912.0;

multiversion! {
    fn quantize_row(row: &[f32], order: TermOrder, bytes: &mut [i8], factors: &mut [f32]) {
        let (groups, factors) = (bytes.as_chunks_mut::<GROUP>().0, factors.as_chunks_mut::<2>().0);
        for (group, (bytes, factors)) in groups.iter_mut().zip(factors).enumerate() {
            let row: &[f32; GROUP] = &row.as_chunks().0[opaque_index(group)];
            // For non-negative floats, the order of the bits is that of the values, with NaN last.
            let bits = row.iter().fold(0, |most, x| x.abs().to_bits().max(most));
            let largest = f32::from_bits(bits);
            let inverse = 127.0 / largest;
            // Zeros, and numbers so small that the inverse is infinite.
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
