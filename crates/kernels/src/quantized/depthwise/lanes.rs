//! Vectors in which the values of several lines are joined, channel by channel.

use crate::quantized::tile::WIDTH;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// Lines of taps in a block of a packed panel.
pub(super) const LINES: usize = 4;

/// A vector of joined values, of weights, or of sums.
pub(super) trait Lanes: Copy {
    /// Lines whose values are joined in a lane.
    const LINES: usize;
    /// Channels of a vector.
    const LANES: usize;
    /// Registers of the CPU.
    const REGISTERS: usize;
    /// Whether common windows have unrolled code.
    const UNROLLED: bool = true;

    /// # Safety
    /// The CPU has the instructions.
    unsafe fn zero() -> Self;

    /// The values of two vectors of channels of the first [`Lanes::LINES`] lines. Lanes past
    /// `columns` are unspecified.
    ///
    /// # Safety
    /// The CPU has the instructions; the lines have `room` values from these pointers on, which are
    /// `columns` or as many as two vectors have channels.
    unsafe fn join(lines: [*const u8; LINES], room: usize, columns: usize) -> [Self; 2];

    /// The weights of two vectors of channels, from channel `first` of a row of a panel on.
    ///
    /// # Safety
    /// The CPU has the instructions; the panel has the row.
    unsafe fn weights(panel: &[u32], row: usize, first: usize) -> [Self; 2];

    /// Adds the products of joined values and weights to the sums.
    ///
    /// # Safety
    /// The CPU has the instructions.
    unsafe fn add_products(self, values: Self, weights: Self) -> Self;

    /// Writes two vectors of sums, from channel `first` on.
    ///
    /// # Safety
    /// The CPU has the instructions; there are so many channels.
    unsafe fn store(sums: [Self; 2], to: &mut [i32; WIDTH], first: usize);
}

/// Two lines as i16, on any CPU.
#[derive(Clone, Copy)]
pub(super) struct Pairs([[i32; 8]; 2]);

impl Lanes for Pairs {
    const LINES: usize = 2;
    const LANES: usize = 8;
    const REGISTERS: usize = 16;
    // Few CPUs take this path on x86-64, so less code is compiled for it.
    const UNROLLED: bool = cfg!(target_arch = "aarch64");

    #[inline(always)]
    unsafe fn zero() -> Pairs {
        Pairs([[0; 8]; 2])
    }

    #[inline(always)]
    unsafe fn join(lines: [*const u8; LINES], room: usize, columns: usize) -> [Pairs; 2] {
        debug_assert!(columns.min(16) <= room);
        let mut to = [Pairs([[0; 8]; 2]); 2];
        for line in 0..2 {
            for c in 0..columns.min(16) {
                // SAFETY: the caller's promise.
                to[c / 8].0[line][c % 8] = i32::from(unsafe { *lines[line].add(c) });
            }
        }
        to
    }

    #[inline(always)]
    unsafe fn weights(panel: &[u32], row: usize, first: usize) -> [Pairs; 2] {
        let mut to = [Pairs([[0; 8]; 2]); 2];
        for (c, pair) in panel[row * WIDTH + first..][..16].iter().enumerate() {
            to[c / 8].0[0][c % 8] = i32::from(*pair as i16);
            to[c / 8].0[1][c % 8] = *pair as i32 >> 16;
        }
        to
    }

    #[inline(always)]
    unsafe fn add_products(mut self, values: Pairs, weights: Pairs) -> Pairs {
        for line in 0..2 {
            for c in 0..8 {
                self.0[0][c] += values.0[line][c] * weights.0[line][c];
            }
        }
        self
    }

    #[inline(always)]
    unsafe fn store(sums: [Pairs; 2], to: &mut [i32; WIDTH], first: usize) {
        for (own, to) in sums.iter().zip(to[first..].chunks_exact_mut(8)) {
            to.copy_from_slice(&own.0[0]);
        }
    }
}

/// Two lines as i16, with AVX2.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(super) struct PairsAvx2(__m256i);

#[cfg(target_arch = "x86_64")]
impl PairsAvx2 {
    /// The bytes of 16 channels; those past `columns` are unspecified.
    ///
    /// # Safety
    /// The CPU has AVX2, and the line has `room` bytes, which are `columns` or more than 16.
    #[inline(always)]
    unsafe fn bytes(line: *const u8, room: usize, columns: usize) -> __m128i {
        debug_assert!(columns.min(16) <= room);
        // SAFETY: the caller's promise; 16 bytes are read where the line has them.
        unsafe {
            if room >= 16 {
                return _mm_loadu_si128(line.cast());
            }
            let mut all = [0u8; 16];
            for c in 0..columns.min(16) {
                all[c] = *line.add(c);
            }
            _mm_loadu_si128(all.as_ptr().cast())
        }
    }
}

#[cfg(target_arch = "x86_64")]
impl Lanes for PairsAvx2 {
    const LINES: usize = 2;
    const LANES: usize = 8;
    const REGISTERS: usize = 16;

    #[inline(always)]
    unsafe fn zero() -> PairsAvx2 {
        // SAFETY: the caller's promise.
        unsafe { PairsAvx2(_mm256_setzero_si256()) }
    }

    #[inline(always)]
    unsafe fn join(lines: [*const u8; LINES], room: usize, columns: usize) -> [PairsAvx2; 2] {
        // SAFETY: the caller's promise.
        unsafe {
            let a = PairsAvx2::bytes(lines[0], room, columns);
            let b = PairsAvx2::bytes(lines[1], room, columns);
            let (low, high) = (_mm_unpacklo_epi8(a, b), _mm_unpackhi_epi8(a, b));
            [PairsAvx2(_mm256_cvtepu8_epi16(low)), PairsAvx2(_mm256_cvtepu8_epi16(high))]
        }
    }

    #[inline(always)]
    unsafe fn weights(panel: &[u32], row: usize, first: usize) -> [PairsAvx2; 2] {
        debug_assert!(row * WIDTH + first + 16 <= panel.len());
        // SAFETY: the caller's promise.
        unsafe {
            let from = panel.as_ptr().add(row * WIDTH + first).cast::<__m256i>();
            [PairsAvx2(_mm256_loadu_si256(from)), PairsAvx2(_mm256_loadu_si256(from.add(1)))]
        }
    }

    #[inline(always)]
    unsafe fn add_products(self, values: PairsAvx2, weights: PairsAvx2) -> PairsAvx2 {
        // SAFETY: the caller's promise.
        unsafe { PairsAvx2(_mm256_add_epi32(self.0, _mm256_madd_epi16(values.0, weights.0))) }
    }

    #[inline(always)]
    unsafe fn store(sums: [PairsAvx2; 2], to: &mut [i32; WIDTH], first: usize) {
        debug_assert!(first + 16 <= WIDTH);
        // SAFETY: the caller's promise.
        unsafe {
            let to = to.as_mut_ptr().add(first).cast::<__m256i>();
            _mm256_storeu_si256(to, sums[0].0);
            _mm256_storeu_si256(to.add(1), sums[1].0);
        }
    }
}

/// Four lines as bytes, with AVX-512, VNNI and VBMI.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(super) struct Quads(__m512i);

/// Where the bytes of 16 channels are, in two vectors of two lines of 32 channels each.
#[cfg(target_arch = "x86_64")]
const JOINED: [[u8; 64]; 2] = {
    let mut to = [[0; 64]; 2];
    let mut i = 0;
    while i < 128 {
        let (channel, line) = (i / 4, i % 4);
        to[i / 64][i % 64] = (line * 32 + channel) as u8;
        i += 1;
    }
    to
};

#[cfg(target_arch = "x86_64")]
impl Quads {
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
}

#[cfg(target_arch = "x86_64")]
impl Lanes for Quads {
    const LINES: usize = 4;
    const LANES: usize = 16;
    const REGISTERS: usize = 32;

    #[inline(always)]
    unsafe fn zero() -> Quads {
        // SAFETY: the caller's promise.
        unsafe { Quads(_mm512_setzero_si512()) }
    }

    #[inline(always)]
    unsafe fn join(lines: [*const u8; LINES], room: usize, columns: usize) -> [Quads; 2] {
        debug_assert!(columns.min(32) <= room);
        // SAFETY: the caller's promise.
        unsafe {
            let a = Quads::two(lines[0], lines[1], columns);
            let b = Quads::two(lines[2], lines[3], columns);
            let low = _mm512_loadu_si512(JOINED[0].as_ptr().cast());
            let high = _mm512_loadu_si512(JOINED[1].as_ptr().cast());
            let low = _mm512_permutex2var_epi8(a, low, b);
            [Quads(low), Quads(_mm512_permutex2var_epi8(a, high, b))]
        }
    }

    #[inline(always)]
    unsafe fn weights(panel: &[u32], row: usize, first: usize) -> [Quads; 2] {
        debug_assert!(row * WIDTH + first + 32 <= panel.len());
        // SAFETY: the caller's promise.
        unsafe {
            let from = panel.as_ptr().add(row * WIDTH + first).cast::<__m512i>();
            [Quads(_mm512_loadu_si512(from)), Quads(_mm512_loadu_si512(from.add(1)))]
        }
    }

    #[inline(always)]
    unsafe fn add_products(self, values: Quads, weights: Quads) -> Quads {
        // SAFETY: the caller's promise.
        unsafe { Quads(_mm512_dpbusd_epi32(self.0, values.0, weights.0)) }
    }

    #[inline(always)]
    unsafe fn store(sums: [Quads; 2], to: &mut [i32; WIDTH], first: usize) {
        debug_assert!(first == 0);
        // SAFETY: the caller's promise.
        unsafe {
            let to = to.as_mut_ptr().add(first).cast::<__m512i>();
            _mm512_storeu_si512(to, sums[0].0);
            _mm512_storeu_si512(to.add(1), sums[1].0);
        }
    }
}
