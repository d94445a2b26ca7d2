//! Quantized GEMM in i16 (`pmaddwd`), for CPUs without dot products of bytes.

use super::rows::TileRows;
use crate::base::isa::{Isa, isa};
use crate::multiversion;
use crate::quantized::input::WindowLayout;
use crate::quantized::tile::{BLOCK_ROWS, DOT4_BYTES, TILE_ROWS, WIDTH};

/// Rows and a panel, widened to i16 pairs along k.
#[derive(Default)]
pub(super) struct I16Kernel {
    rows: Vec<i16>,
    /// Each pair in 32 bits, the first element in the low half.
    panel: Vec<u32>,
    /// The address of the panel that is widened.
    of: usize,
}

impl I16Kernel {
    /// Computes the sums of both tiles. All rows are multiplied by one chunk of the panel, which
    /// stays in L1, before the next chunk.
    pub(super) fn multiply(
        &mut self,
        tiles: &[TileRows<'_>; 2],
        (panel, columns): (&[i8], usize),
        sums: &mut [i32; BLOCK_ROWS * WIDTH],
    ) {
        if self.of != panel.as_ptr().addr() || self.panel.len() != panel.len() / 2 {
            self.of = panel.as_ptr().addr();
            self.panel.resize(panel.len() / 2, 0);
            widen_panel(panel, &mut self.panel);
        }
        let terms = panel.len() / WIDTH;
        let [first, second] = tiles.each_ref().map(|tile| tile.rows);
        self.rows.resize((first + second) * terms, 0);
        let (own, others) = self.rows.split_at_mut(first * terms);
        for (tile, rows) in tiles.iter().zip([own, others]) {
            let WindowLayout { row, step, steps, run, .. } = tile.layout;
            for (i, to) in rows.chunks_exact_mut(terms).enumerate() {
                for (j, to) in to.chunks_exact_mut(steps * step).enumerate() {
                    widen_row(&tile.bytes[i * row + j * run..][..steps * step], to);
                }
            }
        }
        multiply_i16(&self.rows, terms, (&self.panel, columns), sums);
        sums.copy_within(first * WIDTH..(first + second) * WIDTH, TILE_ROWS * WIDTH);
    }
}

/// Multiplies rows of even length by a panel of i16 pairs: for every two elements along k, one pair
/// per column, the first element in the low half. Sums of columns past the first `columns` are
/// unspecified.
#[inline(never)]
pub(in crate::quantized) fn multiply_i16(
    rows: &[i16],
    terms: usize,
    (panel, columns): (&[u32], usize),
    sums: &mut [i32],
) {
    match isa() {
        Isa::Portable => i16_portable(rows, terms, panel, sums),
        #[cfg(target_arch = "x86_64")]
        _ => {
            // SAFETY: the CPU has AVX2.
            unsafe { x86::i16_avx2(rows, terms, (panel, columns), sums) }
        }
        #[cfg(not(target_arch = "x86_64"))]
        _ => i16_portable(rows, terms, panel, sums),
    }
}

multiversion! {
    fn widen_row(from: &[u8], to: &mut [i16]) {
        for (from, to) in from.iter().zip(to) {
            *to = i16::from(*from);
        }
    }
}

multiversion! {
    /// Widens a panel: of every four elements along k, the first two of all columns, then the other
    /// two.
    fn widen_panel(from: &[i8], to: &mut [u32]) {
        let (from, _) = from.as_chunks::<DOT4_BYTES>();
        let (to, _) = to.as_chunks_mut::<{ 2 * WIDTH }>();
        for (from, to) in from.iter().zip(to) {
            for j in 0..WIDTH {
                let four = &from[4 * j..4 * j + 4];
                let low = u32::from(four[0] as u8) | u32::from(four[1] as u8) << 8;
                let x = low | u32::from(four[2] as u8) << 16 | u32::from(four[3] as u8) << 24;
                to[j] = signed(x, 24) & 0xffff | signed(x, 16) << 16;
                to[WIDTH + j] = signed(x, 8) & 0xffff | signed(x, 0) << 16;
            }
        }
    }
}

/// Sign-extends the byte of `x` that has `left` bits above it.
#[inline(always)]
fn signed(x: u32, left: u32) -> u32 {
    // Right shifts of signed numbers are arithmetic.
    ((x << left) as i32 >> 24) as u32
}

/// [`multiply_i16`] on any CPU.
fn i16_portable(rows: &[i16], terms: usize, panel: &[u32], sums: &mut [i32]) {
    for (row, sums) in rows.chunks_exact(terms).zip(sums.as_chunks_mut::<WIDTH>().0) {
        sums.fill(0);
        for (a, b) in row.as_chunks::<2>().0.iter().zip(panel.as_chunks::<WIDTH>().0) {
            let a = a.map(i32::from);
            for j in 0..WIDTH {
                sums[j] += a[0] * i32::from(b[j] as i16) + a[1] * (b[j] as i32 >> 16);
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use crate::base::isa::Isa;
    use crate::quantized::kernel::rows::in_blocks;
    use crate::quantized::tile::{HALF, WIDTH};
    use crate::quantized::tuning::I16_CHUNK;
    use std::arch::x86_64::*;

    /// Half a panel at a time, which leaves registers for more rows.
    ///
    /// # Safety
    /// AVX2.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn i16_avx2(
        rows: &[i16],
        terms: usize,
        (panel, columns): (&[u32], usize),
        sums: &mut [i32],
    ) {
        debug_assert!(Isa::Avx2.is_available());
        let count = rows.len() / terms;
        assert!(panel.len() == terms / 2 * WIDTH && sums.len() >= count * WIDTH);
        sums[..count * WIDTH].fill(0);
        for (chunk, panel) in panel.chunks(I16_CHUNK * WIDTH).enumerate() {
            // Wrapping, since without rows this is past the end.
            let rows = rows.as_ptr().wrapping_add(2 * I16_CHUNK * chunk);
            for half in (0..columns).step_by(HALF) {
                // SAFETY: the caller's promise; the lengths have been checked.
                unsafe {
                    in_blocks!(6: 1 2 3 4 5 6; count, (row, R) => {
                        let own = rows.add(row * terms);
                        let sums = sums[row * WIDTH + half..].as_mut_ptr();
                        i16_rows_avx2::<R>((own, terms), &panel[half..], sums);
                    });
                }
            }
        }
    }

    /// Adds `R` rows, `terms` elements apart, times [`HALF`] columns of a panel to `sums`.
    ///
    /// # Safety
    /// As [`i16_avx2`], for `R` rows and their sums, and for a panel from a column on.
    #[target_feature(enable = "avx2")]
    unsafe fn i16_rows_avx2<const R: usize>(
        (rows, terms): (*const i16, usize),
        panel: &[u32],
        sums: *mut i32,
    ) {
        debug_assert!(panel.len().is_multiple_of(HALF) && 2 * panel.len().div_ceil(WIDTH) <= terms);
        // SAFETY: the caller's promise: rows have the pairs, and the panel has the columns.
        unsafe {
            let sum = |i: usize, p: usize| sums.add(i * WIDTH + 8 * p).cast::<__m256i>();
            let mut own = [[_mm256_setzero_si256(); 2]; R];
            for i in 0..R {
                for p in 0..2 {
                    own[i][p] = _mm256_loadu_si256(sum(i, p));
                }
            }
            for at in 0..panel.len().div_ceil(WIDTH) {
                let b = panel.as_ptr().add(at * WIDTH).cast::<__m256i>();
                let columns = [_mm256_loadu_si256(b), _mm256_loadu_si256(b.add(1))];
                for i in 0..R {
                    let pair = rows.add(i * terms + 2 * at).cast::<i32>().read_unaligned();
                    let a = _mm256_set1_epi32(pair);
                    for p in 0..2 {
                        own[i][p] = _mm256_add_epi32(own[i][p], _mm256_madd_epi16(a, columns[p]));
                    }
                }
            }
            for i in 0..R {
                for p in 0..2 {
                    _mm256_storeu_si256(sum(i, p), own[i][p]);
                }
            }
        }
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    /// On CPUs with better instructions, `IRRUN_ISA` excludes these.
    #[test]
    fn pairs_of_avx2_are_those_of_plain_rust() {
        if !Isa::Avx2.is_available() {
            return;
        }
        // More elements along k than one chunk.
        let (count, terms) = (13, 1036);
        let rows: Vec<i16> = (0..count * terms).map(|i| (i * 37 % 256) as i16).collect();
        let panel: Vec<i8> = (0..terms * WIDTH).map(|i| (i * 91 % 256) as i8).collect();
        let mut words = vec![0; panel.len() / 2];
        widen_panel(&panel, &mut words);
        let panel = words;
        let (mut plain, mut pairs) = (vec![1; count * WIDTH], vec![2; count * WIDTH]);
        i16_portable(&rows, terms, &panel, &mut plain);
        // SAFETY: the CPU has AVX2.
        unsafe {
            x86::i16_avx2(&rows, terms, (&panel, WIDTH), &mut pairs);
            x86::i16_avx2(&[], terms, (&panel, WIDTH), &mut []);
        }
        assert_eq!(pairs, plain);
        // SAFETY: the CPU has AVX2.
        unsafe { x86::i16_avx2(&rows, terms, (&panel, 9), &mut pairs) };
        for (pairs, plain) in pairs.chunks(WIDTH).zip(plain.chunks(WIDTH)) {
            assert_eq!(pairs[..9], plain[..9]);
        }
    }
}
