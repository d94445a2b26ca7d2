//! Tiling of C. It has no influence on the result.

use super::microkernel::args::{nr, rows_per_block};
use super::problem::{Gemm, Rhs};
use super::tuning::{
    CACHE, COLUMNS_OF_A_ROW, DEQUANTIZED_ROWS, FEW_TILES_PER_THREAD, GRAIN, MANY_BLOCKS,
    MEMORY_BOUND_ROWS, TILES_CACHE, TILES_PER_THREAD, TILES_ROWS,
};
use std::ops::Range;

/// Tiles for each thread, for this many rows.
pub(super) fn tiles_per_thread(rows: usize) -> usize {
    if rows <= MEMORY_BOUND_ROWS { FEW_TILES_PER_THREAD } else { TILES_PER_THREAD }
}

/// Rows or columns from `start` up to `end`. Unlike a range it can be copied.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Span {
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Span {
    pub(crate) fn len(self) -> usize {
        self.end - self.start
    }

    pub(crate) fn range(self) -> Range<usize> {
        self.start..self.end
    }
}

/// A part of C.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tile {
    pub(crate) rows: Span,
    pub(crate) columns: Span,
    /// Whether there are few rows, and B is multiplied unpacked or dequantized in registers.
    pub(super) is_small_m: bool,
}

/// The tiles of C: their panels of B fit L2, and there are enough groups of rows to keep the
/// threads busy. Consecutive tiles belong to one thread, until another steals some.
pub(super) struct Tiles {
    m: usize,
    n: usize,
    /// Rows of a tile.
    rows: usize,
    /// Tiles in a row of tiles.
    across: usize,
    /// Consecutive tiles with the same columns.
    group: usize,
    is_small_m: bool,
}

impl Tiles {
    pub(super) fn new(gemm: &Gemm<'_>, threads: usize) -> Tiles {
        let Gemm { m, n, k, precision, .. } = *gemm;
        let is_small_m = gemm.is_small_m();
        let (most, width) = (rows_per_block(precision), nr());
        let row = precision.rows(k).max(1) * size_of::<f32>();
        let (panels, panel) = (n.div_ceil(width), width * row);
        let is_packed = gemm.panels().is_some();
        let rows = |bytes: usize| bytes / row / most * most;
        let (rows, panels_of_tile) = match (precision.has_tiles(), is_packed) {
            // Few rows read B once.
            (false, _) if is_small_m => (m, panels),
            (false, _) => (m, CACHE / panel),
            (_, true) => (rows(TILES_ROWS), panels),
            (_, false) if gemm.compressed().is_some() => (rows(DEQUANTIZED_ROWS), panels),
            (_, false) => (rows(TILES_ROWS), TILES_CACHE / panel),
        };
        let rows = rows.max(most).min(m).max(1);
        let tiles = Tiles {
            m,
            n,
            rows,
            across: panels.div_ceil(panels_of_tile.max(1)),
            group: 1,
            is_small_m,
        };
        if threads == 1 || gemm.work() <= GRAIN {
            return tiles;
        }
        // Divided by rows, a thread finds the rows that it computed before in its own L2. Not if it
        // would read much of B for few rows, or had to pack B for itself.
        let cache = if precision.has_tiles() { TILES_CACHE } else { CACHE };
        let is_small = panels * panel <= 2 * cache || panels < threads * TILES_PER_THREAD;
        let is_tall = n <= COLUMNS_OF_A_ROW * m && gemm.reads_once();
        let blocks = m / (threads * most);
        if is_packed && (blocks >= MANY_BLOCKS || (is_small || is_tall) && blocks > 0) {
            return tiles.by_rows(threads, blocks);
        }
        tiles.by_columns(threads, most, precision.has_tiles())
    }

    /// Even shares of the rows for each thread, `blocks` blocks of rows each.
    fn by_rows(self, threads: usize, blocks: usize) -> Tiles {
        let wanted = TILES_PER_THREAD.min(blocks / MANY_BLOCKS).div_ceil(self.across).max(1);
        let wanted = wanted.max(self.m.div_ceil(threads * self.rows));
        let rows = self.m.div_ceil(threads * wanted);
        let down = self.m.div_ceil(rows);
        let group = if down.is_multiple_of(wanted) { wanted } else { down };
        Tiles { rows, group, ..self }
    }

    /// Equally many columns for each thread: seven tiles take two threads as long as eight. If
    /// there are too few columns, rows are divided too, unless each tile copies its rows.
    fn by_columns(self, threads: usize, most: usize, copies_rows: bool) -> Tiles {
        let wanted = threads * tiles_per_thread(self.m);
        // Few rows are divided by columns alone, so that panels are prefetched all the time.
        let by_columns_alone = self.m < 2 * MANY_BLOCKS * most && !copies_rows;
        let least = if by_columns_alone { wanted.min(self.panels()) } else { 1 };
        let across = self.across.max(least).next_multiple_of(threads).min(self.panels());
        let down = wanted.div_ceil(across).min(self.m.div_ceil(2 * most)).max(1);
        let rows = if copies_rows || self.is_small_m {
            self.rows
        } else {
            self.m.div_ceil(down).next_multiple_of(most)
        };
        Tiles { rows, across, group: self.m.div_ceil(rows), ..self }
    }

    pub(super) fn count(&self) -> usize {
        self.m.div_ceil(self.rows) * self.across
    }

    /// Tiles in a row of tiles.
    pub(super) fn across(&self) -> usize {
        self.across
    }

    /// Panels of B.
    fn panels(&self) -> usize {
        self.n.div_ceil(nr())
    }

    /// The first column of a tile. Threads with equally many tiles differ by at most one panel.
    fn column(&self, tile: usize) -> usize {
        self.panels() * tile / self.across * nr()
    }

    /// A tile. Past the last: an empty one at the end of B, where the next B may lie.
    pub(super) fn get(&self, tile: usize) -> Tile {
        if tile >= self.count() {
            let end = self.column(self.across);
            return Tile {
                rows: Span { start: self.m, end: self.m },
                columns: Span { start: end, end },
                is_small_m: self.is_small_m,
            };
        }
        let (group, tile) = (tile / (self.group * self.across), tile % (self.group * self.across));
        let row = (group * self.group + tile % self.group) * self.rows;
        let across = tile / self.group;
        Tile {
            rows: Span { start: row, end: (row + self.rows).min(self.m) },
            columns: Span { start: self.column(across), end: self.column(across + 1).min(self.n) },
            is_small_m: self.is_small_m,
        }
    }

    /// Elements of scratch memory that a tile needs.
    pub(super) fn scratch_len(&self, gemm: &Gemm<'_>) -> usize {
        // A B without columns has no tiles.
        let panels = self.panels().div_ceil(self.across.max(1));
        match (gemm.b, gemm.compressed()) {
            (_, Some(compressed)) => {
                compressed.scratch_len(panels, self.is_small_m, gemm.precision)
            }
            (Rhs::Unpacked(..), _) if !self.is_small_m => {
                panels * nr() * gemm.precision.rows(gemm.k)
            }
            _ => 0,
        }
    }
}
