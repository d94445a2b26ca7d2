//! Dot products of four bytes by VNNI: u8 rows times i8 columns, added to i32.

use super::rows::{TileRows, in_blocks};
use crate::quantized::epilogue::Epilogue;
use crate::quantized::tile::{DOT4_BYTES, HALF, WIDTH};
use std::arch::x86_64::*;

/// Four elements of a row.
///
/// # Safety
/// Four bytes are valid.
#[inline(always)]
unsafe fn four(bytes: *const u8) -> i32 {
    debug_assert!(!bytes.is_null());
    // SAFETY: the caller's promise.
    unsafe { bytes.cast::<i32>().read_unaligned() }
}

/// Sums of up to eight columns, a vector of AVX2, in rows of [`WIDTH`].
///
/// # Safety
/// As [`dot4_avx512`].
#[target_feature(enable = "avx512f,avx512vl,avx512vnni,avx2")]
pub(super) unsafe fn dot4_quarter_avx512(tile: &TileRows<'_, u8>, panel: &[i8], sums: &mut [i32]) {
    debug_assert!(is_x86_feature_detected!("avx512vnni") && tile.suit(panel.len(), sums));
    in_blocks!(8: 1 2 3 4 5 6 7 8; tile.rows, (row, R) => {
        // SAFETY: the caller's promise.
        unsafe { dot4_quarter_rows_avx512::<R>(tile, row, panel, sums) }
    });
}

/// # Safety
/// As [`dot4_quarter_avx512`], for `R` rows from `row` on.
#[target_feature(enable = "avx512f,avx512vl,avx512vnni,avx2")]
unsafe fn dot4_quarter_rows_avx512<const R: usize>(
    tile: &TileRows<'_, u8>,
    row: usize,
    panel: &[i8],
    sums: &mut [i32],
) {
    debug_assert!(row + R <= tile.rows);
    let mut own = [[_mm256_setzero_si256()]; R];
    let (mut b, step) = (panel.as_ptr(), tile.layout.row);
    let first = tile.elements.as_ptr().wrapping_add(row * step);
    // SAFETY: the caller's promise.
    unsafe {
        tile.each_dot4(|at| {
            let columns = _mm256_loadu_si256(b.cast());
            for i in 0..R {
                let a = _mm256_set1_epi32(four(first.add(at + i * step)));
                own[i][0] = _mm256_dpbusd_epi32(own[i][0], a, columns);
            }
            b = b.wrapping_add(DOT4_BYTES);
        });
    }
    store(&own, &mut sums[row * WIDTH..]);
}

/// Sums of the first columns; the others are unspecified.
///
/// # Safety
/// The CPU has AVX512-VNNI; the rows are within the elements, the panel has their `k`, and `to`
/// takes a row for each.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma")]
pub(super) unsafe fn dot4_avx512<E: Epilogue>(
    tile: &TileRows<'_, u8>,
    panel: &[i8],
    columns: usize,
    to: E,
) {
    debug_assert!(is_x86_feature_detected!("avx512vnni") && tile.fits(panel.len()));
    // SAFETY: the caller's promise.
    unsafe {
        match columns {
            ..=HALF => in_blocks!(8: 1 2 3 4 5 6 7 8; tile.rows, (row, R) => {
                dot4_rows_avx512::<E, R, 1>(tile, row, panel, to)
            }),
            _ => in_blocks!(8: 1 2 3 4 5 6 7 8; tile.rows, (row, R) => {
                dot4_rows_avx512::<E, R, 2>(tile, row, panel, to)
            }),
        }
    }
}

/// # Safety
/// As [`dot4_avx512`], for `R` rows from `row` on and `P` vectors of columns.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma")]
unsafe fn dot4_rows_avx512<E: Epilogue, const R: usize, const P: usize>(
    tile: &TileRows<'_, u8>,
    row: usize,
    panel: &[i8],
    to: E,
) {
    debug_assert!(row + R <= tile.rows && P * 16 <= WIDTH);
    // SAFETY: the caller's promise.
    let mut own: [[__m512i; P]; R] = [unsafe { to.start() }; R];
    let (mut b, step) = (panel.as_ptr(), tile.layout.row);
    let first = tile.elements.as_ptr().wrapping_add(row * step);
    // SAFETY: the caller's promise.
    unsafe {
        tile.each_dot4(|at| {
            let mut columns = [_mm512_setzero_si512(); P];
            for p in 0..P {
                columns[p] = _mm512_loadu_si512(b.add(64 * p).cast());
            }
            for i in 0..R {
                let a = _mm512_set1_epi32(four(first.add(at + i * step)));
                for p in 0..P {
                    own[i][p] = _mm512_dpbusd_epi32(own[i][p], a, columns[p]);
                }
            }
            b = b.wrapping_add(DOT4_BYTES);
        });
        to.apply(row, &own);
    }
}

/// As [`dot4_avx512`].
///
/// # Safety
/// The CPU has AVX-VNNI; otherwise as [`dot4_avx512`].
#[target_feature(enable = "avx2,avxvnni")]
pub(super) unsafe fn dot4_avx2(
    tile: &TileRows<'_, u8>,
    panel: &[i8],
    columns: usize,
    sums: &mut [i32],
) {
    debug_assert!(is_x86_feature_detected!("avxvnni") && tile.suit(panel.len(), sums));
    // SAFETY: the caller's promise.
    unsafe {
        match columns {
            ..=HALF => in_blocks!(6: 1 2 3 4 5 6; tile.rows, (row, R) => {
                dot4_rows_avx2::<R, 2>(tile, row, panel, sums)
            }),
            _ => in_blocks!(3: 1 2 3; tile.rows, (row, R) => {
                dot4_rows_avx2::<R, 4>(tile, row, panel, sums)
            }),
        }
    }
}

/// # Safety
/// As [`dot4_avx2`], for `R` rows from `row` on and `P` vectors of columns.
#[target_feature(enable = "avx2,avxvnni")]
unsafe fn dot4_rows_avx2<const R: usize, const P: usize>(
    tile: &TileRows<'_, u8>,
    row: usize,
    panel: &[i8],
    sums: &mut [i32],
) {
    debug_assert!(row + R <= tile.rows && P * 8 <= WIDTH);
    let mut own = [[_mm256_setzero_si256(); P]; R];
    let (mut b, step) = (panel.as_ptr(), tile.layout.row);
    let first = tile.elements.as_ptr().wrapping_add(row * step);
    // SAFETY: the caller's promise.
    unsafe {
        tile.each_dot4(|at| {
            for i in 0..R {
                let a = _mm256_set1_epi32(four(first.add(at + i * step)));
                for p in 0..P {
                    let columns = _mm256_loadu_si256(b.add(32 * p).cast());
                    own[i][p] = _mm256_dpbusd_avx_epi32(own[i][p], a, columns);
                }
            }
            b = b.wrapping_add(DOT4_BYTES);
        });
    }
    store(&own, &mut sums[row * WIDTH..]);
}

/// Writes rows of sums.
///
/// # Panics
/// When `sums` lacks a row.
#[target_feature(enable = "avx2")]
fn store<const R: usize, const P: usize>(own: &[[__m256i; P]; R], sums: &mut [i32]) {
    const { assert!(8 * P <= WIDTH) };
    let sums = &mut sums[..R * WIDTH];
    for i in 0..R {
        for p in 0..P {
            // SAFETY: within the rows.
            unsafe {
                let to = sums.as_mut_ptr().add(i * WIDTH + 8 * p);
                _mm256_storeu_si256(to.cast(), own[i][p]);
            }
        }
    }
}
