//! Quantizes rows of A.

#[cfg(target_arch = "x86_64")]
use crate::base::isa::Isa;
use crate::base::isa::isa;
use crate::base::par::{Slice, Threads};
use crate::base::simd::{opaque_index, opaque_ref};
use crate::multiversion;

/// Elements along k of A that share a scale.
pub(super) const GROUP: usize = 32;

/// Bytes along k that one lane of the microkernel multiplies.
const LANE: usize = 4;

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

/// The most rows of a block on any instruction set.
pub(super) const MOST_ROWS: usize = 8;

/// The most rows of a block: as many as fit the registers.
pub(super) fn most_rows() -> usize {
    match isa() {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 | Isa::Amx if is_x86_feature_detected!("avx512vnni") => MOST_ROWS,
        _ => 2,
    }
}

/// Rows that the microkernel computes of `rows` rows, at most [`most_rows`].
pub(super) fn block_rows(rows: usize) -> usize {
    match rows {
        0 | 1 => rows,
        2..=4 => most_rows().min(4),
        _ => most_rows(),
    }
}

/// Memory for quantized rows.
pub(super) struct QuantizedRows<'a> {
    bytes: &'a mut [i8],
    factors: &'a mut [f32],
    k: usize,
    order: TermOrder,
}

/// The number of rows with those of zeros that pad the last block to what the microkernel computes.
pub(super) fn padded(rows: usize) -> usize {
    let rest = rows % most_rows();
    rows - rest + block_rows(rest)
}

/// Quantized rows in blocks. Each group along k of a block has four bytes of every row, the next
/// four of every row, and so on. Its factors are the scales of the rows and then, for each row, the
/// sum of its bytes times the scale.
#[derive(Clone, Copy)]
pub(super) struct PackedRows<'a> {
    pub(super) bytes: &'a [i8],
    pub(super) factors: &'a [f32],
    pub(super) k: usize,
}

impl<'a> PackedRows<'a> {
    /// The block of `count` rows that begins at row `first`.
    pub(super) fn block(&self, first: usize, count: usize) -> PackedRows<'a> {
        let (rows, factors) = (first..first + block_rows(count), 2 * (self.k / GROUP));
        PackedRows {
            bytes: &self.bytes[rows.start * self.k..rows.end * self.k],
            factors: &self.factors[rows.start * factors..rows.end * factors],
            k: self.k,
        }
    }

    /// Rows with padding.
    pub(super) fn count(&self) -> usize {
        self.bytes.len().checked_div(self.k).unwrap_or_default()
    }
}

impl<'a> QuantizedRows<'a> {
    /// Of [`padded`] rows.
    ///
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

    /// Quantizes `count` rows that are `stride` elements apart.
    pub(super) fn quantize(
        self,
        threads: &Threads,
        (a, stride): (&[f32], usize),
        count: usize,
    ) -> PackedRows<'a> {
        let QuantizedRows { bytes, factors, k, order } = self;
        let most = most_rows();
        let (to, parts) = (Slice::new(bytes), Slice::new(factors));
        threads.par_ranges(count.div_ceil(most), GRAIN.div_ceil(most * k + 1), |blocks| {
            for first in blocks.map(|block| block * most) {
                let rows = most.min(count - first);
                let (at, block, groups) = (first * k, block_rows(rows), 2 * k / GROUP);
                // SAFETY: blocks are disjoint parts.
                let (bytes, factors) =
                    unsafe { (to.part(at, block * k), parts.part(first * groups, block * groups)) };
                if rows < block {
                    bytes.fill(0);
                    factors.fill(0.0);
                }
                for row in 0..rows {
                    let from = &a[(first + row) * stride..][..k];
                    quantize_row(from, order, Place { row, rows: block }, bytes, factors);
                }
            }
        });
        PackedRows { bytes, factors, k }
    }
}

/// A row of a block of `rows` rows.
#[derive(Clone, Copy)]
struct Place {
    row: usize,
    rows: usize,
}

/// Magic number: added to an f32 that is not large, it rounds it to an integer, ties to even, in
/// the low bits of the result.
const TO_INTEGER: f32 = 12_582_912.0;

multiversion! {
    fn quantize_row(
        row: &[f32], order: TermOrder, at: Place, bytes: &mut [i8], factors: &mut [f32],
    ) {
        let lanes = bytes.as_chunks_mut::<LANE>().0.chunks_exact_mut(at.rows * (GROUP / LANE));
        let factors = factors.chunks_exact_mut(2 * at.rows);
        for (group, (lanes, factors)) in lanes.zip(factors).enumerate() {
            let row: &[f32; GROUP] = &row.as_chunks().0[opaque_index(group)];
            // For non-negative floats, the order of the bits is that of the values, with NaN last.
            let bits = row.iter().fold(0, |most, x| x.abs().to_bits().max(most));
            let largest = f32::from_bits(bits);
            let inverse = 127.0 / largest;
            // Zeros, and numbers so small that the inverse is infinite.
            let inverse = if inverse.is_finite() { inverse } else { 0.0 };
            let scale = if largest.is_finite() { largest / 127.0 } else { f32::NAN };
            let mut integers = [0i32; GROUP];
            for (integer, x) in integers.iter_mut().zip(row) {
                *integer = i32::from((x * inverse + TO_INTEGER).to_bits() as i8);
            }
            // In memory here and below: else the compiler moves and adds them one by one.
            let integers = opaque_ref(&integers);
            let sum: i32 = integers.iter().sum();
            factors[at.row] = scale;
            factors[at.rows + at.row] = scale * sum as f32;
            let mut quantized = [0i8; GROUP];
            quantized.iter_mut().zip(integers).for_each(|(q, integer)| *q = *integer as i8);
            for (i, eight) in opaque_ref(&quantized).as_chunks::<8>().0.iter().enumerate() {
                let eight = u64::from_le_bytes(eight.map(i8::cast_unsigned));
                let ordered = match order {
                    TermOrder::Plain => eight,
                    TermOrder::Nibbles => even_first(eight),
                };
                for half in 0..2 {
                    let lane = ((ordered >> (32 * half)) as u32).to_le_bytes();
                    lanes[(2 * i + half) * at.rows + at.row] = lane.map(u8::cast_signed);
                }
            }
        }
    }
}

/// The bytes at even positions, then those at odd ones, the first in the low bits.
#[inline(always)]
fn even_first(bytes: u64) -> u64 {
    let swapped = |x: u64, of: u64, by: u32| {
        let differing = (x ^ x >> by) & of;
        x ^ differing ^ differing << by
    };
    swapped(swapped(bytes, 0x0000_ff00_0000_ff00, 8), 0x0000_0000_ffff_0000, 16)
}
