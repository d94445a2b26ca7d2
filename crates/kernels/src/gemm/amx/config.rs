//! Sizes of blocks, and how tiles are configured for them.

use crate::base::aligned_buf::AlignedBuf;
use crate::base::amx::{TILE_ROW_BYTES, TILE_ROWS};
use std::arch::asm;
use std::cell::Cell;

/// Rows of a block, in two tiles.
pub(crate) const ROWS: usize = 32;

/// Pairs along k in a tile.
pub(crate) const PAIRS: usize = 16;

/// Columns of a panel, in two tiles.
pub(crate) const WIDTH: usize = 32;

/// Elements of a row of a tile.
pub(crate) const LANES: usize = TILE_ROW_BYTES / size_of::<u16>();

thread_local! {
    /// Each thread keeps one: fresh memory for each tile of C would take longer than filling it.
    static SCRATCHPAD: Cell<AlignedBuf> = Cell::default();
}

/// Scratchpad for rows of A, in lines of [`LANES`] elements.
pub(crate) struct Scratchpad(AlignedBuf);

impl Scratchpad {
    /// At least so many lines, of any content.
    pub(crate) fn new(lines: usize) -> Scratchpad {
        let mut scratchpad = SCRATCHPAD.take();
        if scratchpad.elements::<u16>().len() < lines * LANES {
            scratchpad = AlignedBuf::zeroed(lines * TILE_ROW_BYTES);
        }
        Scratchpad(scratchpad)
    }

    /// The lines from one on.
    pub(crate) fn lines(&self, line: usize) -> &[u16] {
        &self.0.elements()[line * LANES..]
    }

    /// The same, for writing.
    pub(crate) fn lines_mut(&mut self, line: usize) -> &mut [u16] {
        &mut self.0.elements_mut()[line * LANES..]
    }
}

impl Drop for Scratchpad {
    fn drop(&mut self) {
        SCRATCHPAD.set(std::mem::take(&mut self.0));
    }
}

/// The thread's tiles. Those of B have rows of 64 bytes, one for each four bytes of a step along k;
/// those of A have rows of these bytes, as many as there are in the first tile and in the second.
#[derive(Default)]
pub(crate) struct TileConfig {
    rows: (usize, usize),
    bytes: usize,
}

/// What tells the machine how large the tiles are.
#[repr(C, align(64))]
struct ConfigData {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

impl TileConfig {
    /// Prepares tiles for a block.
    ///
    /// # Safety
    /// `has_tiles`; there are at most 16 rows of each, and at least one in the first tile, of at
    /// most [`TILE_ROW_BYTES`], in fours.
    pub(crate) unsafe fn prepare(&mut self, block: &RowBlock) {
        debug_assert!(block.fits_tiles());
        let RowBlock { rows, bytes, .. } = *block;
        if (self.rows, self.bytes) == (rows, bytes) {
            return;
        }
        (self.rows, self.bytes) = (rows, bytes);
        // Tiles without rows are not allowed; with a single tile of rows these are not used.
        let (first, second, fours) = (rows.0 as u8, rows.1.max(1) as u8, bytes as u8 / 4);
        let (all, own) = (TILE_ROW_BYTES as u16, bytes as u16);
        let configuration = ConfigData {
            palette: 1,
            start_row: 0,
            reserved: [0; 14],
            row_bytes: [all, all, all, all, own, own, all, all, 0, 0, 0, 0, 0, 0, 0, 0],
            rows: [
                first, first, second, second, first, second, fours, fours, 0, 0, 0, 0, 0, 0, 0, 0,
            ],
        };
        // SAFETY: the caller's promise; the configuration is one that palette 1 allows.
        unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const configuration, options(nostack)) }
    }
}

impl Drop for TileConfig {
    fn drop(&mut self) {
        if self.rows.0 > 0 {
            // SAFETY: the tiles are there, as they have been configured.
            unsafe { asm!("tilerelease", options(nostack, nomem)) }
        }
    }
}

/// Rows of A, in one tile or two.
pub(crate) struct RowBlock {
    /// The first of them.
    pub(crate) row: usize,
    /// How many there are in each tile.
    pub(crate) rows: (usize, usize),
    /// Bytes of a step along k.
    pub(crate) bytes: usize,
    /// Where the first row of each tile begins.
    pub(crate) sources: [*const u8; 2],
    /// Bytes from row to row of a tile.
    pub(crate) row_bytes: usize,
    /// Bytes from step to step along k.
    pub(crate) step_bytes: usize,
    /// Steps along k of a run, and bytes from run to run.
    pub(crate) run: (usize, usize),
    /// Runs that a row consists of.
    pub(crate) runs: usize,
}

impl RowBlock {
    /// Whether tiles can be configured for it.
    pub(super) fn fits_tiles(&self) -> bool {
        let (first, second) = self.rows;
        (1..=TILE_ROWS).contains(&first)
            && second <= TILE_ROWS
            && (4..=TILE_ROW_BYTES).contains(&self.bytes)
            && self.bytes.is_multiple_of(4)
    }
}
