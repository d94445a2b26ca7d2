//! Microkernels of quantized GEMM: a block of 32 rows times a panel of 32 columns, by AMX, by dot
//! products of four bytes (VNNI), or widened to i16.

#[cfg(target_arch = "x86_64")]
mod dot4;
pub(super) mod i16;
mod rows;

use super::input::{Image, WindowLayout};
#[cfg(target_arch = "x86_64")]
use super::tile::has_tiles;
use super::tile::{BLOCK_ROWS, Block, TILE_ROWS, Tile, WIDTH};
#[cfg(target_arch = "x86_64")]
use crate::base::isa::{Isa, isa};
#[cfg(target_arch = "x86_64")]
use crate::gemm::amx::config::{RowBlock, TileConfig};
#[cfg(target_arch = "x86_64")]
use crate::gemm::amx::kernel::multiply_bytes;
use i16::I16Kernel;
use rows::TileRows;

/// Sums of a block; those of the second tile start at row [`TILE_ROWS`].
#[repr(C, align(64))]
pub(super) struct Sums([i32; BLOCK_ROWS * WIDTH]);

impl Sums {
    /// The rows of both tiles.
    pub(super) fn tiles(&self) -> [&[[i32; WIDTH]]; 2] {
        self.0.as_chunks().0.split_at(TILE_ROWS).into()
    }
}

impl Default for Sums {
    fn default() -> Sums {
        Sums([0; BLOCK_ROWS * WIDTH])
    }
}

/// What a thread keeps between blocks: the AMX configuration, and the widened panel.
#[derive(Default)]
pub(super) struct Microkernel {
    #[cfg(target_arch = "x86_64")]
    tiles: TileConfig,
    widened: I16Kernel,
}

impl Microkernel {
    /// Computes the sums of a block for the first `columns` of a panel; those of other columns are
    /// unspecified.
    ///
    /// # Panics
    /// When the block is not within the image, or the panel has another `k`.
    pub(super) fn multiply(
        &mut self,
        image: &Image<'_>,
        block: &Block,
        (panel, columns): (&[i8], usize),
        Sums(sums): &mut Sums,
    ) {
        let WindowLayout { row, step, steps, run, runs } = image.layout;
        assert!(panel.len() == runs * steps * step * WIDTH, "the panel has other terms");
        let reach = |at: usize, rows: usize| {
            at + rows.saturating_sub(1) * row + runs.saturating_sub(1) * run + steps * step
        };
        let fits = |t: &Tile| t.count <= TILE_ROWS && reach(t.at, t.count) <= image.bytes.len();
        assert!(block.iter().all(fits) && block[0].count > 0, "a window is not in the image");
        #[cfg(target_arch = "x86_64")]
        if has_tiles() {
            // SAFETY: the CPU has the tiles; the block and the panel have been checked.
            return unsafe { self.multiply_amx(image, block, panel, sums) };
        }
        let tiles = block.map(|tile| TileRows {
            bytes: &image.bytes[tile.at..],
            rows: tile.count,
            layout: image.layout,
        });
        match isa() {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 | Isa::Amx if is_x86_feature_detected!("avx512vnni") => {
                for (rows, sums) in tiles.iter().zip(sums.chunks_exact_mut(TILE_ROWS * WIDTH)) {
                    // SAFETY: the CPU has the instructions; block and panel have been checked.
                    unsafe { dot4::dot4_avx512(rows, panel, columns, sums) }
                }
            }
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 if is_x86_feature_detected!("avxvnni") => {
                for (rows, sums) in tiles.iter().zip(sums.chunks_exact_mut(TILE_ROWS * WIDTH)) {
                    // SAFETY: as above.
                    unsafe { dot4::dot4_avx2(rows, panel, columns, sums) }
                }
            }
            _ => self.widened.multiply(&tiles, (panel, columns), sums),
        }
    }

    /// Multiplies with AMX.
    ///
    /// # Safety
    /// AMX multiplies bytes; the block is within the image, and the panel has its `k`.
    #[cfg(target_arch = "x86_64")]
    unsafe fn multiply_amx(
        &mut self,
        image: &Image<'_>,
        block: &Block,
        panel: &[i8],
        sums: &mut [i32; BLOCK_ROWS * WIDTH],
    ) {
        debug_assert!(has_tiles());
        let WindowLayout { row, step, steps, run, runs } = image.layout;
        let rows = RowBlock {
            row: 0,
            rows: (block[0].count, block[1].count),
            bytes: step,
            sources: block.map(|tile| image.bytes[tile.at..].as_ptr()),
            row_bytes: row,
            step_bytes: step,
            run: (steps, run),
            runs,
        };
        // SAFETY: the caller's promise.
        unsafe {
            self.tiles.prepare(&rows);
            multiply_bytes(&rows, panel.as_ptr().cast(), sums);
        }
    }
}
