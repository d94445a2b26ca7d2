//! Quantized GEMM in i16 (`pmaddwd`), for CPUs without dot products of bytes.

use super::rows::TileRows;
use crate::base::isa::{Isa, isa};
use crate::multiversion;
use crate::quantized::input::WindowLayout;
use crate::quantized::tile::{DOT4_BYTES, HALF, WIDTH};
use crate::quantized::tuning::I16_CHUNK;

/// The offset of a pair of a column, in a panel of so many `pairs` along k. They lie in the order
/// in which they are read: [`I16_CHUNK`] pairs of half the columns, those of the other half, the
/// next.
pub(in crate::quantized) fn pair_offset(pairs: usize, pair: usize, column: usize) -> usize {
    let first = pair - pair % I16_CHUNK;
    let chunk = I16_CHUNK.min(pairs - first);
    first * WIDTH + (column / HALF * chunk + pair - first) * HALF + column % HALF
}

/// Multiplies the rows of a tile by a panel of i16 pairs: for every two elements along k, one pair
/// per column, the first element in the low half, at its [`pair_offset`]. Sums of columns past the
/// first `columns` are unspecified.
///
/// # Panics
/// When a row is not within the elements, the panel has another `k`, or there are too few sums.
#[inline(never)]
pub(in crate::quantized) fn multiply_i16(
    tile: &TileRows<'_, i16>,
    (panel, columns): (&[u32], usize),
    sums: &mut [i32],
) {
    assert!(tile.suit(2 * panel.len(), sums) && columns <= WIDTH, "the operands differ");
    match isa() {
        Isa::Portable => i16_portable(tile, panel, sums),
        #[cfg(target_arch = "x86_64")]
        _ => {
            // SAFETY: the CPU has AVX2; the operands have been checked.
            unsafe { x86::i16_avx2(tile, (panel, columns), sums) }
        }
        #[cfg(not(target_arch = "x86_64"))]
        _ => i16_portable(tile, panel, sums),
    }
}

multiversion! {
    /// Widens a panel that is packed for dot4 to i16 pairs, each at its [`pair_offset`].
    pub(in crate::quantized) fn widen_panel(from: &[i8], to: &mut [u32]) {
        let chunks = from.chunks(I16_CHUNK / 2 * DOT4_BYTES);
        for (from, to) in chunks.zip(to.chunks_mut(I16_CHUNK * WIDTH)) {
            let (from, _) = from.as_chunks::<DOT4_BYTES>();
            let (first, second) = to.split_at_mut(to.len() / 2);
            for (i, half) in [first, second].into_iter().enumerate() {
                let (half, _) = half.as_chunks_mut::<{ 2 * HALF }>();
                for (from, to) in from.iter().zip(half) {
                    for j in 0..HALF {
                        let four = &from[4 * (i * HALF + j)..][..4];
                        let low = u32::from(four[0] as u8) | u32::from(four[1] as u8) << 8;
                        let high = u32::from(four[2] as u8) | u32::from(four[3] as u8) << 8;
                        let x = low | high << 16;
                        to[j] = signed(x, 24) & 0xffff | signed(x, 16) << 16;
                        to[HALF + j] = signed(x, 8) & 0xffff | signed(x, 0) << 16;
                    }
                }
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
fn i16_portable(tile: &TileRows<'_, i16>, panel: &[u32], sums: &mut [i32]) {
    let WindowLayout { row, step, steps, run, runs, .. } = tile.layout;
    for (i, sums) in sums.as_chunks_mut::<WIDTH>().0.iter_mut().take(tile.rows).enumerate() {
        sums.fill(0);
        let row = (0..runs).flat_map(|j| &tile.elements[i * row + j * run..][..steps * step]);
        let mut row = row.map(|a| i32::from(*a));
        let pairs = panel.len() / WIDTH;
        for pair in 0..pairs {
            let a = [row.next().unwrap_or(0), row.next().unwrap_or(0)];
            for (column, sum) in sums.iter_mut().enumerate() {
                let b = panel[pair_offset(pairs, pair, column)];
                *sum += a[0] * i32::from(b as i16) + a[1] * (b as i32 >> 16);
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::TileRows;
    use crate::base::isa::Isa;
    use crate::base::simd::prefetch;
    use crate::quantized::input::WindowLayout;
    use crate::quantized::kernel::rows::in_blocks;
    use crate::quantized::tile::{HALF, WIDTH};
    use crate::quantized::tuning::I16_CHUNK;
    use std::arch::x86_64::*;
    use std::ops::Range;

    /// Half a panel at a time, which leaves registers for more rows.
    ///
    /// # Safety
    /// The CPU has AVX2; the rows are within the elements, the panel has their `k`, and `sums` has
    /// a row for each.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn i16_avx2(
        tile: &TileRows<'_, i16>,
        (panel, columns): (&[u32], usize),
        sums: &mut [i32],
    ) {
        debug_assert!(Isa::Avx2.is_available() && tile.suit(2 * panel.len(), sums));
        let pairs = panel.len() / WIDTH;
        for (i, panel) in panel.chunks(I16_CHUNK * WIDTH).enumerate() {
            // Once for all rows: a division takes as long as ten pairs.
            let from = i * I16_CHUNK;
            let chunk = Chunk::new(&tile.layout, from..pairs.min(from + I16_CHUNK));
            let halves = panel.chunks_exact(panel.len() / 2);
            for (panel, first) in halves.zip((0..columns).step_by(HALF)) {
                let panel = (panel, &chunk);
                // SAFETY: the caller's promise.
                unsafe {
                    if columns - first <= HALF / 2 {
                        in_blocks!(8: 1 2 3 4 5 6 7 8; tile.rows, (row, R) => {
                            let sums = &mut sums[row * WIDTH + first..];
                            i16_rows_avx2::<R, 1>(tile, row, panel, sums);
                        });
                    } else {
                        in_blocks!(6: 1 2 3 4 5 6; tile.rows, (row, R) => {
                            let sums = &mut sums[row * WIDTH + first..];
                            i16_rows_avx2::<R, 2>(tile, row, panel, sums);
                        });
                    }
                }
            }
        }
    }

    /// Some pairs of a panel, and where a row has them.
    struct Chunk {
        pairs: Range<usize>,
        /// Pairs of a run of the row.
        each: usize,
        /// The element at which the first run begins, and the pairs of it that are before these.
        start: (usize, usize),
    }

    impl Chunk {
        fn new(layout: &WindowLayout, pairs: Range<usize>) -> Chunk {
            let each = layout.steps * layout.step / 2;
            let start = match pairs.start {
                0 => (0, 0),
                first => (first / each * layout.run, first % each),
            };
            Chunk { pairs, each, start }
        }
    }

    /// Multiplies `R` rows from `row` on by `P` vectors of columns of a chunk of half a panel. The
    /// results are added to `sums` unless the pairs are the first.
    ///
    /// # Safety
    /// As [`i16_avx2`], for half the columns and sums from the first of these on.
    #[target_feature(enable = "avx2")]
    unsafe fn i16_rows_avx2<const R: usize, const P: usize>(
        tile: &TileRows<'_, i16>,
        row: usize,
        (panel, chunk): (&[u32], &Chunk),
        sums: &mut [i32],
    ) {
        debug_assert!(row + R <= tile.rows && sums.len() + WIDTH >= R * WIDTH + 8 * P);
        let WindowLayout { row: stride, run, .. } = tile.layout;
        let ((mut runs, mut first), mut left) = (chunk.start, chunk.pairs.len());
        let mut b = panel.as_ptr().cast::<__m256i>();
        // SAFETY: the caller's promise: rows have the pairs, and the panel has the columns.
        unsafe {
            let rows = tile.elements.as_ptr().add(row * stride);
            let sums = sums.as_mut_ptr();
            let sum = |i: usize, p: usize| sums.add(i * WIDTH + 8 * p).cast::<__m256i>();
            let mut own = [[_mm256_setzero_si256(); P]; R];
            if chunk.pairs.start > 0 {
                for i in 0..R {
                    for p in 0..P {
                        own[i][p] = _mm256_loadu_si256(sum(i, p));
                    }
                }
            }
            while left > 0 {
                let count = left.min(chunk.each - first);
                let a = rows.add(runs + 2 * first);
                // Steps are multiples of four elements, so pairs come by twos.
                debug_assert!(count.is_multiple_of(2));
                for two in 0..count / 2 {
                    for at in [2 * two, 2 * two + 1] {
                        let mut columns = [_mm256_setzero_si256(); P];
                        for p in 0..P {
                            columns[p] = _mm256_loadu_si256(b.add(p));
                        }
                        if row == 0 {
                            // The first rows wait for memory; what they read next is prefetched.
                            prefetch(b.wrapping_add(I16_CHUNK * HALF / 8).cast());
                        }
                        b = b.wrapping_add(HALF / 8);
                        for i in 0..R {
                            let pair = a.add(i * stride + 2 * at).cast::<i32>().read_unaligned();
                            let a = _mm256_set1_epi32(pair);
                            for p in 0..P {
                                let products = _mm256_madd_epi16(a, columns[p]);
                                own[i][p] = _mm256_add_epi32(own[i][p], products);
                            }
                        }
                    }
                }
                (left, first, runs) = (left - count, 0, runs + run);
            }
            for i in 0..R {
                for p in 0..P {
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
        // More elements along k than one chunk, in one run and in several.
        let (rows, k) = (13, 1036);
        let elements: Vec<i16> = (0..rows * k).map(|i| (i * 37 % 256) as i16).collect();
        let panel: Vec<i8> = (0..k * WIDTH).map(|i| (i * 91 % 256) as i8).collect();
        let mut pairs = vec![0; panel.len() / 2];
        widen_panel(&panel, &mut pairs);
        let matrix = WindowLayout::dense(k, (k, 1), (0, 1));
        let windows = WindowLayout::dense(8, (74, 2), (1600, 7));
        for layout in [matrix, windows] {
            let tile = TileRows { elements: &elements, rows, layout };
            let (mut plain, mut found) = (vec![1; rows * WIDTH], vec![2; rows * WIDTH]);
            i16_portable(&tile, &pairs, &mut plain);
            // SAFETY: the CPU has AVX2; the elements are those of the rows.
            unsafe {
                x86::i16_avx2(&tile, (&pairs, WIDTH), &mut found);
                x86::i16_avx2(&TileRows { rows: 0, ..tile }, (&pairs, WIDTH), &mut []);
            }
            assert_eq!(found, plain);
            // SAFETY: as above.
            unsafe { x86::i16_avx2(&tile, (&pairs, 9), &mut found) };
            for (found, plain) in found.chunks(WIDTH).zip(plain.chunks(WIDTH)) {
                assert_eq!(found[..9], plain[..9]);
            }
        }
    }
}
