//! How the rows and the panels of a convolution are divided into tasks.

use super::tile::HALF;
use super::tuning::{GEMM_GRAIN, MAX_SHARE_EIGHTHS};
use crate::base::par::share;
use std::ops::Range;

/// Parts of the rows for each thread: several even out the speed of the threads.
const PARTS_OF_THREAD: usize = 4;

/// Parts of the rows, and parts of the panels. Each part of the rows times each part of the panels
/// is a task.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Grid {
    /// Parts of the rows.
    pub(super) down: usize,
    /// Parts of the panels.
    pub(super) across: usize,
}

/// The sizes that decide how windows times panels of filters are divided.
#[derive(Clone, Copy)]
pub(super) struct GridSizes {
    /// Blocks of rows.
    pub(super) blocks: usize,
    pub(super) panels: usize,
    /// Output channels.
    pub(super) columns: usize,
    pub(super) multiply_adds: usize,
    /// Whether the filters are larger than the data.
    pub(super) has_large_filters: bool,
}

impl Grid {
    /// A single task.
    pub(super) const ONE: Grid = Grid { down: 1, across: 1 };

    /// For a dense convolution. Each thread reads all of the smaller operand, which stays in its
    /// cache, and a part of the larger, unless one thread would have more panels than another.
    pub(super) fn dense(sizes: GridSizes, threads: usize) -> Grid {
        let GridSizes { blocks, panels, columns, multiply_adds, has_large_filters } = sizes;
        if threads == 1 || multiply_adds <= GEMM_GRAIN {
            return Grid::ONE;
        }
        // The largest share of panels compared with the mean one, in halves: a last half takes half
        // the time.
        let (halves, largest) = (columns.div_ceil(HALF), 2 * panels.div_ceil(threads));
        let is_even = largest * threads * 8 <= halves * MAX_SHARE_EIGHTHS;
        let is_across = has_large_filters && (is_even || blocks < PARTS_OF_THREAD * threads);
        let across = if is_across { panels.min(threads) } else { 1 };
        let down = (PARTS_OF_THREAD * threads).div_ceil(across).min(blocks);
        Grid { down: if across == threads { 1 } else { down }, across }
    }

    /// For merged groups, whose panels read images of their own.
    pub(super) fn merged(
        blocks: usize,
        merged: usize,
        multiply_adds: usize,
        threads: usize,
    ) -> Grid {
        if threads == 1 || multiply_adds <= GEMM_GRAIN {
            return Grid::ONE;
        }
        let down = (PARTS_OF_THREAD * threads).div_ceil(merged).min(blocks);
        Grid { down, across: merged }
    }

    /// Number of tasks.
    pub(super) fn tasks(self) -> usize {
        self.down * self.across
    }

    /// The rows of a task, of `count` rows or blocks of rows.
    pub(super) fn rows(self, task: usize, count: usize) -> Range<usize> {
        share(count, self.down, task / self.across)
    }

    /// The panels of a task, of `count` panels.
    pub(super) fn panels(self, task: usize, count: usize) -> Range<usize> {
        share(count, self.across, task % self.across)
    }
}
