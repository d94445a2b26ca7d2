//! Groups of 4 or 8 channels by VNNI: each lane multiplies four bytes of its own group, which a
//! permutation brings there.

use super::rows::TileRows;
use crate::quantized::epilogue::Epilogue;
use crate::quantized::tile::{DOT4_BYTES, HALF, WIDTH};
use std::arch::x86_64::*;

/// The indices that bring four bytes of its group to each lane: for each four channels of a group,
/// two vectors.
type Permutations = [[[i32; HALF]; 2]; 2];

/// Sums of a panel of groups.
///
/// # Safety
/// As [`dot4_avx512`](super::dot4::dot4_avx512), for a panel of [`WIDTH`] columns.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma")]
pub(super) unsafe fn grouped_avx512<E: Epilogue>(tile: &TileRows<'_, u8>, panel: &[i8], to: E) {
    debug_assert!(is_x86_feature_detected!("avx512vnni") && tile.fits(panel.len()));
    debug_assert!(matches!(tile.layout.group, 4 | 8));
    let own = if tile.layout.group == 4 { &GROUPS_OF_4 } else { &GROUPS_OF_8 };
    let mut row = 0;
    while row < tile.rows {
        // SAFETY: the caller's promise.
        row += unsafe {
            match tile.rows - row {
                8.. => grouped_rows_avx512::<E, 8>((tile, row), panel, own, to),
                4.. => grouped_rows_avx512::<E, 4>((tile, row), panel, own, to),
                2.. => grouped_rows_avx512::<E, 2>((tile, row), panel, own, to),
                _ => grouped_rows_avx512::<E, 1>((tile, row), panel, own, to),
            }
        };
    }
}

static GROUPS_OF_4: Permutations = permutations(4);
static GROUPS_OF_8: Permutations = permutations(8);

/// The permutations for groups of so many channels.
const fn permutations(group: usize) -> Permutations {
    let mut all = [[[0; HALF]; 2]; 2];
    let mut i = 0;
    while i < all.len() * WIDTH {
        let (k, column) = (i / WIDTH, i % WIDTH);
        all[k][column / HALF][column % HALF] = (column / group * (group / 4) + k) as i32;
        i += 1;
    }
    all
}

/// Returns how many rows.
///
/// # Safety
/// As [`grouped_avx512`], for `R` rows from `row` on.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma")]
unsafe fn grouped_rows_avx512<E: Epilogue, const R: usize>(
    (tile, row): (&TileRows<'_, u8>, usize),
    panel: &[i8],
    permutations: &Permutations,
    to: E,
) -> usize {
    debug_assert!(row + R <= tile.rows);
    // SAFETY: the caller's promise.
    let mut own: [[__m512i; 2]; R] = [unsafe { to.start() }; R];
    let (mut b, layout) = (panel.as_ptr(), tile.layout);
    let first = tile.elements.as_ptr().wrapping_add(row * layout.row);
    // Loops, not iterators over both: a call in between would move all sums to memory.
    for run in 0..layout.runs {
        for step in 0..layout.steps {
            let at = first.wrapping_add(run * layout.run + step * layout.step_stride);
            for k in 0..layout.group / 4 {
                // SAFETY: the caller's promise; a position has a byte for each column.
                unsafe {
                    let permute = permutations[k].as_ptr().cast::<__m512i>();
                    let [low, high] =
                        [_mm512_loadu_si512(permute), _mm512_loadu_si512(permute.add(1))];
                    let columns = b.cast::<__m512i>();
                    let columns = [_mm512_loadu_si512(columns), _mm512_loadu_si512(columns.add(1))];
                    for i in 0..R {
                        let bytes = _mm256_loadu_si256(at.add(i * layout.row).cast());
                        let bytes = _mm512_castsi256_si512(bytes);
                        let a = _mm512_permutexvar_epi32(low, bytes);
                        own[i][0] = _mm512_dpbusd_epi32(own[i][0], a, columns[0]);
                        let a = _mm512_permutexvar_epi32(high, bytes);
                        own[i][1] = _mm512_dpbusd_epi32(own[i][1], a, columns[1]);
                    }
                }
                b = b.wrapping_add(DOT4_BYTES);
            }
        }
    }
    const { assert!(2 * HALF == WIDTH) };
    // SAFETY: the caller's promise.
    unsafe { to.apply(row, &own) };
    R
}
