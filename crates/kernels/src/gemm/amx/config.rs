//! Block sizes of AMX, and the configuration of its tiles.

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
    /// One per thread: fresh memory for each tile of C would take longer than filling it.
    static SCRATCHPAD: Cell<AlignedBuf> = Cell::default();
}

/// Scratchpad for rows of A, in cache lines of [`LANES`] elements.
pub(crate) struct Scratchpad(AlignedBuf);

impl Scratchpad {
    /// At least this many lines, with any content.
    pub(crate) fn new(lines: usize) -> Scratchpad {
        let mut scratchpad = SCRATCHPAD.take();
        if scratchpad.elements::<u16>().len() < lines * LANES {
            scratchpad = AlignedBuf::zeroed(lines * TILE_ROW_BYTES);
        }
        Scratchpad(scratchpad)
    }

    /// The elements from a line on.
    pub(crate) fn lines(&self, line: usize) -> &[u16] {
        &self.0.elements()[line * LANES..]
    }

    /// The elements from a line on, for writing.
    pub(crate) fn lines_mut(&mut self, line: usize) -> &mut [u16] {
        &mut self.0.elements_mut()[line * LANES..]
    }
}

impl Drop for Scratchpad {
    fn drop(&mut self) {
        SCRATCHPAD.set(std::mem::take(&mut self.0));
    }
}

/// The thread's tile configuration. Tiles of B have rows of 64 bytes, one row for every four bytes
/// of a step along k. Tiles of A have one row per row of the block, as long as a step.
#[derive(Default)]
pub(crate) struct TileConfig {
    rows: TilePair,
    bytes: usize,
}

/// The operand of LDTILECFG.
#[repr(C, align(64))]
struct ConfigData {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

impl TileConfig {
    /// Configures the tiles for a block, unless they are already.
    ///
    /// # Safety
    /// `has_tiles`. Each tile of A has at most 16 rows, and the first at least one. A step along k
    /// is at most [`TILE_ROW_BYTES`] bytes, a multiple of 4.
    pub(crate) unsafe fn prepare(&mut self, block: &TileBlock) {
        debug_assert!(block.fits_tiles());
        let TileBlock { rows, bytes, .. } = *block;
        if (self.rows, self.bytes) == (rows, bytes) {
            return;
        }
        (self.rows, self.bytes) = (rows, bytes);
        // Tiles without rows are not allowed. If there is only one tile of rows, the second is not
        // used.
        let (first, second) = (rows.first as u8, rows.second.max(1) as u8);
        let fours = bytes as u8 / 4;
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
        if self.rows.first > 0 {
            // SAFETY: the tiles exist, since they have been configured.
            unsafe { asm!("tilerelease", options(nostack, nomem)) }
        }
    }
}

/// The number of rows in each of two tiles; the second may be 0.
#[derive(Clone, Copy, Default, PartialEq)]
pub(crate) struct TilePair {
    pub(crate) first: usize,
    pub(crate) second: usize,
}

impl TilePair {
    /// Rows of both.
    pub(crate) fn count(self) -> usize {
        self.first + self.second
    }
}

/// Rows of A, in one tile or two.
pub(crate) struct TileBlock {
    /// The first row.
    pub(crate) row: usize,
    pub(crate) rows: TilePair,
    /// Bytes of a step along k.
    pub(crate) bytes: usize,
    /// The address of the first row of each tile.
    pub(crate) sources: [*const u8; 2],
    /// Bytes from one row of a tile to the next.
    pub(crate) row_bytes: usize,
    /// Bytes from one step along k to the next.
    pub(crate) step_bytes: usize,
    /// Steps along k in a run.
    pub(crate) run_steps: usize,
    /// Bytes from the start of a run to that of the next.
    pub(crate) run_bytes: usize,
    /// Runs of a row.
    pub(crate) runs: usize,
}

impl TileBlock {
    /// Whether tiles can be configured for it.
    pub(super) fn fits_tiles(&self) -> bool {
        let TilePair { first, second } = self.rows;
        (1..=TILE_ROWS).contains(&first)
            && second <= TILE_ROWS
            && (4..=TILE_ROW_BYTES).contains(&self.bytes)
            && self.bytes.is_multiple_of(4)
    }
}
