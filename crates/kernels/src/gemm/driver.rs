//! The macro-kernel: the loops over the rows of A and the panels of B in one tile of C.

use super::gemv;
use super::k_blocks::KBlocks;
use super::lhs_rows::LhsRows;
use super::microkernel;
use super::microkernel::args::{MAX_ROWS, MicrokernelArgs, mr_of, nr};
use super::output::SharedTarget;
use super::pack::bf16::Bf16Rows;
use super::post_ops::{RegisterPostOps, finish};
use super::precision::{Bf16Path, Precision};
use super::prefetch::{Prefetch, PrefetchShares};
use super::problem::{Gemm, Lhs};
use super::source::Source;
use super::tiling::{Span, Tile};
use super::tuning::{LARGE_OUTPUT, LONG_PANEL, SHORT_K, SHORT_ROWS};
use std::ops::Range;

/// What the blocks of a tile have in common.
struct TileDriver<'a> {
    gemm: &'a Gemm<'a>,
    tile: Tile,
    /// The panels of the tile, and those of a later one, which are prefetched.
    panels: (&'a [f32], &'a [f32]),
    c: SharedTarget,
    /// The post-ops that are done in registers.
    absorbed: RegisterPostOps<'a>,
    path: Option<Bf16Path>,
    /// Lanes of a row of A, and its blocks along k.
    lanes: usize,
    k_blocks: KBlocks,
    /// Elements and columns of a panel.
    panel: (usize, usize),
    /// Blocks of rows in the tile: how often all panels are read.
    passes: usize,
    /// The share of a later panel that one block prefetches.
    upcoming: PrefetchShares,
    /// Whether blocks prefetch the part of C that they write.
    prefetches_output: bool,
}

/// Some rows of A.
struct LhsBlock<'a> {
    /// The first row.
    first: usize,
    /// The number of rows.
    count: usize,
    /// How many such blocks are multiplied by a panel at a time, one below the other.
    blocks: usize,
    source: Source,
    /// Runs of consecutive elements in a row.
    runs: usize,
    pass: usize,
    /// The rows that follow, and the share of them that one block prefetches.
    next: (&'a [f32], PrefetchShares),
}

impl Gemm<'_> {
    /// Computes a tile, and prefetches the panels of a later one.
    pub(super) fn run_blocks(&self, tile: Tile, panels: (&[f32], &[f32]), c: SharedTarget) {
        let bottom = tile.rows.end;
        let most = mr_of(tile.columns.len());
        let (absorbed, rest) = RegisterPostOps::of(self.post_ops);
        let driver = TileDriver::new(self, (tile, most), panels, (c, absorbed));
        let mut sources = LhsRows::new(self, MAX_ROWS);
        let mut bf16_rows = match (self.precision, self.a) {
            (Precision::F32, _) | (_, Lhs::Bf16(_)) => None,
            (Precision::Bf16, _) => Some(Bf16Rows::new(self.k, MAX_ROWS)),
        };
        let (mut first, mut pass) = (tile.rows.start, 0);
        while first < bottom {
            let rows = sources.count(first, block_rows(bottom - first, most));
            let (source, runs) = sources.find((first, rows));
            let (source, runs) = match &mut bf16_rows {
                // SAFETY: `check` has shown that the rows lie within A.
                Some(bf16_rows) => (unsafe { bf16_rows.convert(source, runs, rows) }, 1),
                None => (source, runs),
            };
            if tile.rows.len() == 1 && runs == 1 && gemv::suits(driver.path) {
                // SAFETY: there is a pointer for the run; `check` has shown that the row lies
                // within A, and tiles are disjoint parts of C.
                unsafe {
                    if let Some(a) = source.only_row() {
                        return self.run_row(tile, (a, driver.path), panels, c);
                    }
                }
            }
            let next = self.consecutive(first + rows..bottom.min(first + 2 * rows));
            let of_next =
                PrefetchShares::new(next.len(), driver.across(), driver.lanes / runs.max(1));
            let next = (next, of_next);
            let blocks = driver.blocks_at_a_time((bottom - first) / most, most);
            let count = rows;
            driver.multiply(&LhsBlock { first, count, blocks, source, runs, pass, next });
            let rows = rows * blocks;
            if let Some(c) = c.values() {
                // SAFETY: within C and within this tile.
                unsafe {
                    finish(rest, first..first + rows, tile.columns.range(), self.c_stride, c)
                };
            }
            first += rows;
            pass += blocks;
        }
    }

    /// These rows of A, or those of the first of several matrices, if they are contiguous; else an
    /// empty slice.
    fn consecutive(&self, rows: Range<usize>) -> &[f32] {
        let (values, stride) = match self.a {
            Lhs::Rows { values, stride } if stride == self.k => (values, stride),
            Lhs::Concat { first, columns, .. } => (first, columns),
            _ => return &[],
        };
        if rows.is_empty() { &[] } else { &values[rows.start * stride..rows.end * stride] }
    }
}

impl<'a> TileDriver<'a> {
    fn new(
        gemm: &'a Gemm<'a>,
        (tile, most): (Tile, usize),
        panels: (&'a [f32], &'a [f32]),
        (c, absorbed): (SharedTarget, RegisterPostOps<'a>),
    ) -> TileDriver<'a> {
        let width = nr();
        let lanes = gemm.lanes();
        let panel = (width * gemm.panel_rows(), width);
        let passes = tile.rows.len().div_ceil(most);
        let upcoming = PrefetchShares::new(panel.0, passes, lanes);
        let path = gemm.precision.bf16_path();
        let prefetches_output = gemm.m * gemm.n >= LARGE_OUTPUT;
        TileDriver {
            gemm,
            tile,
            panels,
            c,
            absorbed,
            path,
            lanes,
            k_blocks: gemm.k_blocks(),
            panel,
            passes,
            upcoming,
            prefetches_output,
        }
    }

    /// Number of panels.
    fn across(&self) -> usize {
        self.tile.columns.len().div_ceil(self.panel.1)
    }

    /// How many blocks of `rows` rows to multiply by a panel at a time, if there are `left`.
    fn blocks_at_a_time(&self, left: usize, rows: usize) -> usize {
        let is_short = self.lanes <= SHORT_K && self.path.is_none();
        match self.gemm.a {
            // The last two blocks may share their rows evenly.
            Lhs::Rows { .. } if is_short && left > 2 => {
                (SHORT_ROWS / (rows * self.lanes.max(1))).clamp(1, left - 1)
            }
            _ => 1,
        }
    }

    /// Multiplies a block of rows, or several, by all panels.
    fn multiply(&self, rows: &LhsBlock<'_>) {
        let count = rows.count;
        // SAFETY: `check` has shown that rows and columns lie within the operands, and tiles are
        // disjoint parts of C.
        unsafe {
            for i in 0..self.across() {
                let block = self.block(rows, i);
                if rows.blocks > 1 {
                    microkernel::run_blocks(&block, count, rows.blocks);
                } else if self.k_blocks.is_one() {
                    microkernel::run(&block, self.path, count);
                } else {
                    microkernel::run_in_blocks(&block, self.k_blocks, count);
                }
            }
        }
    }

    /// The arguments for a block of rows times panel `i`.
    ///
    /// # Safety
    /// The rows and the panel lie within the operands, and nobody else writes where the block goes.
    #[inline(always)]
    unsafe fn block(&self, rows: &LhsBlock<'_>, i: usize) -> MicrokernelArgs {
        let LhsBlock { first, count, .. } = *rows;
        let Span { start: left, end: right } = self.tile.columns;
        let ((panels, later), (len, width)) = (self.panels, self.panel);
        let (panel, column) = (&panels[i * len..][..len], left + i * width);
        debug_assert!(first + count <= self.tile.rows.end && column < right);
        let (next, of_next) = rows.next;
        let is_long = rows.pass == 0 && len >= LONG_PANEL * self.passes.min(2);
        let (stride, columns) = (self.gemm.c_stride, width.min(right - column));
        let absorbed = self.absorbed.at(first, column);
        // SAFETY: the caller's promise.
        let out = unsafe { self.c.block(first * stride + column, (stride, columns), absorbed) };
        if self.prefetches_output {
            out.prefetch(count);
        }
        // Spread evenly along k: prefetching faster, or further ahead, was slower.
        let ahead = if is_long {
            Prefetch::of_panel(panel, width)
        } else {
            let streams = Prefetch::streams([
                self.upcoming.of(later.get(i * len), rows.pass, panel),
                of_next.of(next.first(), i, panel),
            ]);
            match self.gemm.a {
                Lhs::Concat { columns, .. } if rows.runs > 1 && !next.is_empty() => {
                    streams.by_run(count * columns + of_next.start(i))
                }
                _ => streams,
            }
        };
        let (b, k) = (panel.as_ptr(), self.lanes / rows.runs);
        MicrokernelArgs { a: rows.source, runs: rows.runs, k, b, ahead, out }
    }
}

/// Rows of the next block: as many as fit the registers, since the first pass reads B from memory.
/// If the last block would be small, the last two share their rows evenly.
pub(super) fn block_rows(left: usize, most: usize) -> usize {
    match left.checked_sub(most) {
        None => left,
        Some(rest) if rest > 0 && 2 * rest < most => left.div_ceil(2),
        Some(_) => most,
    }
}
