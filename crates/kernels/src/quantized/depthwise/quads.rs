//! Vectors in which four lines are interleaved, channel by channel.

use super::layout::LINES;
use crate::quantized::tile::{DOT4_BYTES, WIDTH};
use std::arch::x86_64::*;

/// Four interleaved lines of 16 channels, their weights, or their sums. With AVX-512, VNNI and
/// VBMI.
#[derive(Clone, Copy)]
pub(super) struct Quads(__m512i);

/// Where the bytes of 16 channels are, in two vectors of two lines of 32 channels each.
const INTERLEAVED: [[u8; 64]; 2] = {
    let mut to = [[0; 64]; 2];
    let mut i = 0;
    while i < 128 {
        let (channel, line) = (i / 4, i % 4);
        to[i / 64][i % 64] = (line * 32 + channel) as u8;
        i += 1;
    }
    to
};

impl Quads {
    /// Channels of a vector.
    pub(super) const LANES: usize = 16;

    /// The bytes of 32 channels of two lines; those past `columns` are 0.
    ///
    /// # Safety
    /// The CPU has the instructions; the lines have `columns` bytes, or 32.
    #[inline(always)]
    unsafe fn two(a: *const u8, b: *const u8, columns: usize) -> __m512i {
        debug_assert!(columns > 0);
        let mask = u32::MAX >> (32 - columns.min(32));
        // SAFETY: the caller's promise; masked bytes are not read.
        unsafe {
            let a = _mm256_maskz_loadu_epi8(mask, a.cast());
            let b = _mm256_maskz_loadu_epi8(mask, b.cast());
            _mm512_inserti64x4::<1>(_mm512_castsi256_si512(a), b)
        }
    }

    /// # Safety
    /// The CPU has the instructions.
    #[inline(always)]
    pub(super) unsafe fn zero() -> Quads {
        // SAFETY: the caller's promise.
        unsafe { Quads(_mm512_setzero_si512()) }
    }

    /// Four lines of two vectors of channels. Lanes past `columns` are unspecified.
    ///
    /// # Safety
    /// The CPU has the instructions; the lines have `columns` values, or 32.
    #[inline(always)]
    pub(super) unsafe fn interleave(lines: [*const u8; LINES], columns: usize) -> [Quads; 2] {
        debug_assert!(columns > 0);
        // SAFETY: the caller's promise.
        unsafe {
            let a = Quads::two(lines[0], lines[1], columns);
            let b = Quads::two(lines[2], lines[3], columns);
            let low = _mm512_loadu_si512(INTERLEAVED[0].as_ptr().cast());
            let high = _mm512_loadu_si512(INTERLEAVED[1].as_ptr().cast());
            let low = _mm512_permutex2var_epi8(a, low, b);
            [Quads(low), Quads(_mm512_permutex2var_epi8(a, high, b))]
        }
    }

    /// The weights of two vectors of channels, which are a row of a panel.
    ///
    /// # Safety
    /// The CPU has the instructions; the panel has the row.
    #[inline(always)]
    pub(super) unsafe fn weights(panel: &[i8], row: usize) -> [Quads; 2] {
        debug_assert!((row + 1) * DOT4_BYTES <= panel.len());
        // SAFETY: the caller's promise.
        unsafe {
            let from = panel.as_ptr().add(row * DOT4_BYTES).cast::<__m512i>();
            [Quads(_mm512_loadu_si512(from)), Quads(_mm512_loadu_si512(from.add(1)))]
        }
    }

    /// Adds the products of interleaved values and weights to the sums.
    ///
    /// # Safety
    /// The CPU has the instructions.
    #[inline(always)]
    pub(super) unsafe fn add_products(self, values: Quads, weights: Quads) -> Quads {
        // SAFETY: the caller's promise.
        unsafe { Quads(_mm512_dpbusd_epi32(self.0, values.0, weights.0)) }
    }

    /// Sums in a vector.
    #[inline(always)]
    pub(super) fn of_sums(sums: __m512i) -> Quads {
        Quads(sums)
    }

    /// The sums in two vectors.
    #[inline(always)]
    pub(super) fn sums(of: [Quads; 2]) -> [__m512i; 2] {
        const { assert!(2 * Quads::LANES == WIDTH) };
        of.map(|Quads(sums)| sums)
    }
}
