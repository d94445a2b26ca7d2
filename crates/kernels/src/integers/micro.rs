//! Blocks of rows times panels of columns: 32 by 32 sums of products of bytes, in tiles (AMX), in fours
//! (AVX512-VNNI), in pairs (AVX2) or one by one.

use super::filters::Panels;
use super::image::{Image, Rows, Shape};
#[cfg(target_arch = "x86_64")]
use crate::gemm::tiles::{self, Configured, Later, RowBlock};
use crate::isa::{Isa, isa};

/// Rows on a line.
pub(super) const SIDE: usize = 16;

/// Rows of a block.
pub(super) const ROWS: usize = 2 * SIDE;

/// Columns of a panel.
pub(super) const WIDTH: usize = 32;

/// Bytes of a panel for each four terms.
const FOURS: usize = 4 * WIDTH;

/// Sums of a block; those of the second line begin at row [`SIDE`].
#[repr(C, align(64))]
pub(super) struct Sums(pub(super) [i32; ROWS * WIDTH]);

impl Default for Sums {
    fn default() -> Sums {
        Sums([0; ROWS * WIDTH])
    }
}

/// A panel by which blocks of rows pass, and what is asked for meanwhile.
pub(super) struct Passing<'a> {
    panel: &'a [i8],
    #[cfg(target_arch = "x86_64")]
    later: Later,
}

impl<'a> Passing<'a> {
    /// Panel `i`; the next one is asked for.
    pub(super) fn new(panels: &'a Panels, i: usize) -> Passing<'a> {
        Passing {
            panel: panels.panel(i),
            #[cfg(target_arch = "x86_64")]
            later: match i + 1 < panels.count() {
                true => Later::of(panels.panel(i + 1), usize::MAX),
                false => Later::of::<i8>(&[], 0),
            },
        }
    }
}

/// How a thread multiplies.
#[derive(Default)]
pub(super) struct Unit {
    #[cfg(target_arch = "x86_64")]
    tiles: Configured,
}

impl Unit {
    /// Computes the sums of a block.
    ///
    /// # Panics
    /// When the block is not within the image, or the panel is not for it.
    pub(super) fn multiply(
        &mut self,
        image: &Image<'_>,
        block: &Rows,
        passing: &mut Passing<'_>,
        Sums(sums): &mut Sums,
    ) {
        let Shape { row, step, steps, run, runs } = image.shape;
        assert!(passing.panel.len() >= runs * steps * step * WIDTH, "the panel is too short");
        let reach = |at: usize, rows: usize| {
            at + rows.saturating_sub(1) * row + runs.saturating_sub(1) * run + steps * step
        };
        let ends = [reach(block.at[0], block.rows.0), reach(block.at[1], block.rows.1)];
        assert!(ends.iter().all(|end| *end <= image.bytes.len()), "a window is not in the image");
        assert!(
            (1..=SIDE).contains(&block.rows.0) && block.rows.1 <= SIDE && step.is_multiple_of(4)
        );
        #[cfg(target_arch = "x86_64")]
        if isa() == Isa::Amx && tiles::has_byte_tiles() {
            // SAFETY: the machine has such tiles; the block and the panel have been checked.
            return unsafe { self.in_tiles(image, block, passing, sums) };
        }
        let (first, second) = sums.split_at_mut(SIDE * WIDTH);
        for (at, rows, sums) in
            [(block.at[0], block.rows.0, first), (block.at[1], block.rows.1, second)]
        {
            let part = Part { bytes: &image.bytes[at..], rows, shape: image.shape };
            match isa() {
                #[cfg(target_arch = "x86_64")]
                Isa::Avx512 | Isa::Amx if is_x86_feature_detected!("avx512vnni") => {
                    // SAFETY: the machine has the instructions; all has been checked.
                    unsafe { x86::in_fours(&part, passing.panel, sums) }
                }
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 | Isa::Avx512 | Isa::Amx => {
                    // SAFETY: as above.
                    unsafe { x86::in_pairs(&part, passing.panel, sums) }
                }
                _ => one_by_one(&part, passing.panel, sums),
            }
        }
    }

    /// # Safety
    /// The machine has tiles of bytes; the block is within the image, and the panel is for it.
    #[cfg(target_arch = "x86_64")]
    unsafe fn in_tiles(
        &mut self,
        image: &Image<'_>,
        block: &Rows,
        passing: &mut Passing<'_>,
        sums: &mut [i32; ROWS * WIDTH],
    ) {
        let Shape { row, step, steps, run, runs } = image.shape;
        let rows = RowBlock {
            row: block.row,
            rows: block.rows,
            bytes: step,
            sources: block.at.map(|at| image.bytes[at..].as_ptr()),
            row_bytes: row,
            step_bytes: step,
            run: (steps, run),
            runs,
        };
        let panel = passing.panel.as_ptr().cast();
        let ahead = passing.later.part(runs * steps, panel);
        // SAFETY: the caller's promise.
        unsafe {
            self.tiles.prepare(&rows);
            tiles::multiply_bytes(&rows, panel, ahead, sums);
        }
    }
}

/// Some rows on one line, and all behind the first.
struct Part<'a> {
    bytes: &'a [u8],
    rows: usize,
    shape: Shape,
}

impl Part<'_> {
    /// Calls `f` for each four terms, in order, with where they begin in the first row.
    #[inline(always)]
    fn fours(&self, mut f: impl FnMut(usize)) {
        let Shape { step, steps, run, runs, .. } = self.shape;
        for first in (0..runs).map(|i| i * run) {
            for at in (first..first + steps * step).step_by(4) {
                f(at);
            }
        }
    }
}

fn one_by_one(part: &Part<'_>, panel: &[i8], sums: &mut [i32]) {
    for (i, sums) in sums.chunks_exact_mut(WIDTH).take(part.rows).enumerate() {
        sums.fill(0);
        let row = &part.bytes[i * part.shape.row..];
        let mut fours = panel.chunks_exact(FOURS);
        part.fours(|at| {
            let Some(b) = fours.next() else { return };
            for (sum, b) in sums.iter_mut().zip(b.chunks_exact(4)) {
                for (a, b) in row[at..at + 4].iter().zip(b) {
                    *sum += i32::from(*a) * i32::from(*b);
                }
            }
        });
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{FOURS, Part, WIDTH};
    use std::arch::x86_64::*;

    /// Four terms of a row.
    ///
    /// # Safety
    /// There are four bytes.
    #[inline(always)]
    unsafe fn four(bytes: *const u8) -> i32 {
        // SAFETY: the caller's promise.
        unsafe { bytes.cast::<i32>().read_unaligned() }
    }

    /// Calls a function for some rows, and says how many they are.
    macro_rules! in_blocks {
        ($rows:ident, $part:ident, $panel:ident, $sums:ident; $($count:literal)*) => {{
            let mut row = 0;
            $(while row + $count <= $part.rows {
                $rows::<$count>($part, row, $panel, $sums);
                row += $count;
            })*
        }};
    }

    /// # Safety
    /// AVX512-VNNI; the rows are within the bytes, the panel is for them, and there are sums of each.
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    pub(super) unsafe fn in_fours(part: &Part<'_>, panel: &[i8], sums: &mut [i32]) {
        // SAFETY: the caller's promise.
        unsafe { in_blocks!(rows_in_fours, part, panel, sums; 8 4 1) }
    }

    /// # Safety
    /// As [`in_fours`], for `R` rows from one on.
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    unsafe fn rows_in_fours<const R: usize>(
        part: &Part<'_>,
        row: usize,
        panel: &[i8],
        sums: &mut [i32],
    ) {
        let mut own = [[_mm512_setzero_si512(); 2]; R];
        let (mut b, step) = (panel.as_ptr(), part.shape.row);
        let first = part.bytes.as_ptr().wrapping_add(row * step);
        // SAFETY: the caller's promise.
        unsafe {
            part.fours(|at| {
                let columns = [_mm512_loadu_si512(b.cast()), _mm512_loadu_si512(b.add(64).cast())];
                for i in 0..R {
                    let a = _mm512_set1_epi32(four(first.add(at + i * step)));
                    for p in 0..2 {
                        own[i][p] = _mm512_dpbusd_epi32(own[i][p], a, columns[p]);
                    }
                }
                b = b.wrapping_add(FOURS);
            });
            for i in 0..R {
                for p in 0..2 {
                    let to = sums[(row + i) * WIDTH + 16 * p..][..16].as_mut_ptr();
                    _mm512_storeu_si512(to.cast(), own[i][p]);
                }
            }
        }
    }

    /// # Safety
    /// AVX2; otherwise as [`in_fours`].
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn in_pairs(part: &Part<'_>, panel: &[i8], sums: &mut [i32]) {
        // SAFETY: the caller's promise.
        unsafe { in_blocks!(rows_in_pairs, part, panel, sums; 4 1) }
    }

    /// Columns that are computed together.
    const TOGETHER: usize = 8;

    /// # Safety
    /// As [`in_pairs`], for `R` rows from one on.
    #[target_feature(enable = "avx2")]
    unsafe fn rows_in_pairs<const R: usize>(
        part: &Part<'_>,
        row: usize,
        panel: &[i8],
        sums: &mut [i32],
    ) {
        let step = part.shape.row;
        let first = part.bytes.as_ptr().wrapping_add(row * step);
        for column in (0..WIDTH).step_by(TOGETHER) {
            // For each column the sums of the first two of each four terms and of the others.
            let mut own = [[_mm256_setzero_si256(); 2]; R];
            let mut b = panel.as_ptr().wrapping_add(4 * column);
            // SAFETY: the caller's promise.
            unsafe {
                part.fours(|at| {
                    let columns = _mm256_loadu_si256(b.cast());
                    let low = _mm256_cvtepi8_epi16(_mm256_castsi256_si128(columns));
                    let high = _mm256_cvtepi8_epi16(_mm256_extracti128_si256::<1>(columns));
                    for i in 0..R {
                        let a = _mm_cvtsi32_si128(four(first.add(at + i * step)));
                        let a = _mm256_broadcastq_epi64(_mm_cvtepu8_epi16(a));
                        own[i][0] = _mm256_add_epi32(own[i][0], _mm256_madd_epi16(a, low));
                        own[i][1] = _mm256_add_epi32(own[i][1], _mm256_madd_epi16(a, high));
                    }
                    b = b.wrapping_add(FOURS);
                });
                for i in 0..R {
                    // Columns 0 1 4 5 2 3 6 7.
                    let both = _mm256_hadd_epi32(own[i][0], own[i][1]);
                    let in_order = _mm256_permute4x64_epi64::<0b11_01_10_00>(both);
                    let to = sums[(row + i) * WIDTH + column..][..TOGETHER].as_mut_ptr();
                    _mm256_storeu_si256(to.cast(), in_order);
                }
            }
        }
    }
}
