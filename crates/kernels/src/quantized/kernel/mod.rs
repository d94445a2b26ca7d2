//! Microkernels of quantized GEMM: a block of 32 rows times a panel of 32 columns, by AMX, by dot
//! products of four bytes (VNNI), or widened to i16.

#[cfg(target_arch = "x86_64")]
mod dot4;
#[cfg(target_arch = "x86_64")]
mod grouped;
pub(super) mod i16;
pub(super) mod rows;

use super::affine::AffineRows;
#[cfg(target_arch = "x86_64")]
use super::epilogue::ToSums;
use super::input::{Image, WindowLayout};
use super::pack::PackedFilters;
use super::tile::{BLOCK_ROWS, Block, TILE_ROWS, Tile, WIDTH, has_dot4, leaves_sums_in_registers};
#[cfg(target_arch = "x86_64")]
use super::tile::{QUARTER, has_tiles};
use super::tuning::{I16_CACHE, I16_L1};
#[cfg(target_arch = "x86_64")]
use crate::base::isa::{Isa, isa};
#[cfg(target_arch = "x86_64")]
use crate::base::par::Slice;
#[cfg(target_arch = "x86_64")]
use crate::gemm::amx::config::{TileBlock, TileConfig, TilePair};
#[cfg(target_arch = "x86_64")]
use crate::gemm::amx::kernel::multiply_bytes;
use i16::multiply_i16;
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

/// What a thread keeps between blocks: the AMX configuration.
#[derive(Default)]
pub(super) struct Microkernel {
    #[cfg(target_arch = "x86_64")]
    tiles: TileConfig,
}

/// The first columns of a panel; the sums of the others are unspecified.
#[derive(Clone, Copy)]
pub(super) struct Panel<'a> {
    pub(super) filters: &'a PackedFilters,
    pub(super) index: usize,
    pub(super) columns: usize,
}

impl Microkernel {
    /// How many blocks are multiplied by one panel after the other, for `filters` bytes of panels.
    /// Without dot4, their rows stay in L2, or in L1 if the panels do not take longer to read.
    pub(super) fn blocks_at_a_time(layout: WindowLayout, filters: usize) -> usize {
        if has_dot4() {
            return usize::MAX;
        }
        let elements = BLOCK_ROWS * layout.row * layout.runs;
        let cache = filters.clamp(I16_L1, I16_CACHE);
        (cache / (elements * size_of::<i16>())).max(1)
    }

    /// Computes the sums of a block.
    ///
    /// # Panics
    /// When the block is not within the image, or the panel has another `k`.
    pub(super) fn multiply(
        &mut self,
        image: &Image<'_>,
        block: &Block,
        panel: Panel<'_>,
        Sums(sums): &mut Sums,
    ) {
        if has_dot4() {
            #[cfg(target_arch = "x86_64")]
            self.multiply_dot4(image, block, panel, sums);
            return;
        }
        let pairs = panel.filters.i16_pairs(panel.index);
        for (tile, sums) in block.iter().zip(sums.chunks_exact_mut(TILE_ROWS * WIDTH)) {
            let (elements, layout) = (image.wide_from(tile.at), image.layout);
            let tile = TileRows { elements, rows: tile.count, layout };
            multiply_i16(&tile, (pairs, panel.columns), sums);
        }
    }

    /// Computes rows of a tile and requantizes them in registers, if the CPU's instructions leave
    /// sums there. `to` is where the first goes.
    ///
    /// # Safety
    /// Nobody else uses the rows of the output, which has them.
    ///
    /// # Panics
    /// As [`Microkernel::multiply`].
    #[cfg_attr(not(target_arch = "x86_64"), expect(unused_variables))]
    pub(super) unsafe fn requantize(
        image: &Image<'_>,
        tile: Tile,
        Panel { filters, index, columns }: Panel<'_>,
        to: AffineRows<'_>,
    ) {
        debug_assert!(Microkernel::requantizes() && columns == to.columns.scales.len());
        #[cfg(target_arch = "x86_64")]
        {
            let (panel, layout) = (filters.dot4(index), image.layout);
            let elements = &image.bytes[tile.at..];
            let rows = TileRows { elements, rows: tile.count, layout };
            assert!(rows.fits(panel.len()) && is_x86_feature_detected!("avx512vnni"));
            // SAFETY: the CPU has the instructions; tile and panel have been checked; the caller's
            // promise.
            unsafe {
                match layout.group {
                    0 => dot4::dot4_avx512(&rows, panel, columns, to),
                    _ => grouped::grouped_avx512(&rows, panel, to),
                }
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        unreachable!("sums are in memory");
    }

    /// Whether sums are in registers after a multiplication.
    pub(super) fn requantizes() -> bool {
        leaves_sums_in_registers()
    }

    /// Multiplies by dot products of four bytes.
    #[cfg(target_arch = "x86_64")]
    fn multiply_dot4(
        &mut self,
        image: &Image<'_>,
        block: &Block,
        Panel { filters, index, columns }: Panel<'_>,
        sums: &mut [i32; BLOCK_ROWS * WIDTH],
    ) {
        let (panel, layout) = (filters.dot4(index), image.layout);
        let tiles = block.map(|tile| {
            let elements = &image.bytes[tile.at..];
            TileRows { elements, rows: tile.count, layout }
        });
        let fits = |tile: &TileRows<'_, u8>| {
            tile.rows <= TILE_ROWS && tile.suit(panel.len(), &sums[..TILE_ROWS * WIDTH])
        };
        assert!(tiles.iter().all(fits) && tiles[0].rows > 0, "the operands differ");
        if has_tiles() {
            // SAFETY: the CPU has the tiles; the block and the panel have been checked.
            return unsafe { self.multiply_amx(image, block, panel, sums) };
        }
        for (rows, sums) in tiles.iter().zip(sums.chunks_exact_mut(TILE_ROWS * WIDTH)) {
            // SAFETY: the CPU has the instructions; block and panel have been checked.
            unsafe {
                match isa() {
                    Isa::Avx2 => dot4::dot4_avx2(rows, panel, columns, sums),
                    _ if layout.group > 0 => {
                        grouped::grouped_avx512(rows, panel, ToSums(Slice::new(sums)));
                    }
                    _ if columns <= QUARTER => dot4::dot4_quarter_avx512(rows, panel, sums),
                    _ => dot4::dot4_avx512(rows, panel, columns, ToSums(Slice::new(sums))),
                }
            }
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
        let WindowLayout { row, step, steps, step_stride, run, runs, .. } = image.layout;
        let rows = TileBlock {
            row: 0,
            rows: TilePair { first: block[0].count, second: block[1].count },
            bytes: step,
            sources: block.map(|tile| image.bytes[tile.at..].as_ptr()),
            row_bytes: row,
            step_bytes: step_stride,
            run_steps: steps,
            run_bytes: run,
            runs,
        };
        // SAFETY: the caller's promise.
        unsafe {
            self.tiles.prepare(&rows);
            multiply_bytes(&rows, panel.as_ptr().cast(), sums);
        }
    }
}
