//! Packs rows of A in bf16 into tiles for AMX.

use crate::base::amx::{TILE_ROW_BYTES, TILE_ROWS};
use crate::gemm::amx::config::{LANES, ROWS, Scratchpad, TileBlock, TilePair};
use crate::gemm::lhs_rows::LhsRows;
use crate::gemm::pack::bf16::store_bf16;
use crate::gemm::precision::has_dp_bf16;
use crate::gemm::problem::Gemm;
use crate::gemm::source::Source;
use crate::gemm::tiling::Span;

/// The rows of a tile of C, as blocks of at most [`ROWS`] of them.
pub(crate) struct PackedA {
    scratchpad: Scratchpad,
    rows: Span,
    /// Steps along k: cache lines per row.
    steps: usize,
}

impl PackedA {
    /// Packs a range of the rows of A in bf16.
    pub(crate) fn new(gemm: &Gemm<'_>, rows: Span) -> PackedA {
        let steps = gemm.k.div_ceil(LANES);
        let count = rows.len().div_ceil(ROWS);
        let scratchpad = Scratchpad::new((rows.len() + count) * steps);
        let mut packed = PackedA { scratchpad, rows, steps };
        if steps == 0 {
            return packed;
        }
        let per_count = gemm.per_count();
        let mut sources = LhsRows::new(gemm, ROWS);
        for block in 0..packed.count() {
            let Span { start: mut row, end } = packed.block(block);
            while row < end {
                let rows = sources.count(row, end - row);
                let (a, runs) = sources.find((row, rows));
                for i in 0..rows {
                    let to = packed.row(block, row + i);
                    // SAFETY: `check` has shown that the rows lie within A; `isa` says that there
                    // are tiles, and so AVX512-BF16.
                    unsafe { to.convert((a, per_count), runs, (i, rows), gemm.k) };
                }
                row += rows;
            }
        }
        packed
    }

    /// The blocks, in the order of their rows.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = TileBlock> {
        (0..self.count()).map(|i| {
            let own = self.block(i);
            let first = self.scratchpad.lines(self.start(i));
            let second = &first[(TILE_ROWS * LANES).min(first.len())..];
            TileBlock {
                row: own.start,
                rows: TilePair {
                    first: TILE_ROWS.min(own.len()),
                    second: own.len().saturating_sub(TILE_ROWS),
                },
                bytes: TILE_ROW_BYTES,
                sources: [first.as_ptr().cast(), second.as_ptr().cast()],
                row_bytes: TILE_ROW_BYTES,
                step_bytes: step(own.len()) * TILE_ROW_BYTES,
                run_steps: self.steps,
                run_bytes: 0,
                runs: 1,
            }
        })
    }

    /// The first cache line of a block.
    fn start(&self, i: usize) -> usize {
        (self.block(i).start - self.rows.start + i) * self.steps
    }

    fn count(&self) -> usize {
        self.rows.len().div_ceil(ROWS)
    }

    /// The range of rows of a block. All are of nearly equal size: few rows take nearly as long as
    /// many.
    fn block(&self, i: usize) -> Span {
        let at = |i: usize| self.rows.start + self.rows.len() * i / self.count();
        Span { start: at(i), end: at(i + 1) }
    }

    /// The cache lines of a row of a block.
    fn row(&mut self, block: usize, row: usize) -> RowLines<'_> {
        let own = self.block(block);
        let line = self.start(block) + row - own.start;
        RowLines {
            lines: self.scratchpad.lines_mut(line),
            step: step(own.len()),
            count: self.steps,
        }
    }
}

/// Cache lines from one step along k to the next in a block of this many rows. Odd, so that the
/// lines of a row do not all map to the same cache sets.
fn step(rows: usize) -> usize {
    rows | 1
}

/// The cache lines of one row: every `step`th of these.
struct RowLines<'a> {
    lines: &'a mut [u16],
    step: usize,
    count: usize,
}

impl RowLines<'_> {
    /// Packs one row in bf16 and pads it with zeros. It consists of `runs` runs. If A already is
    /// bf16, `per_count` is 2: each counted element is a pair.
    ///
    /// # Panics
    /// When the elements of a run are not contiguous.
    ///
    /// # Safety
    /// The pointers are valid for runs of `k / runs` elements; the CPU has AVX512-BF16.
    unsafe fn convert(
        self,
        (from, per_count): (Source, usize),
        runs: usize,
        at: (usize, usize),
        k: usize,
    ) {
        debug_assert!(k.is_multiple_of(runs));
        let len = k / runs;
        // The last line that is written is within `lines`.
        let last = (self.count - 1) * self.step * LANES;
        assert!(self.count * LANES >= k && last + LANES <= self.lines.len());
        let (to, step) = (self.lines.as_mut_ptr(), self.step);
        // SAFETY: the caller's promise, and up to the end of the last line.
        unsafe {
            for run in 0..runs {
                let from = Elements::new(from.run(run, at), per_count);
                store_line((from, len), to, step, run * len);
            }
            store_line((Elements::Zeros, self.count * LANES - k), to, step, k);
        }
    }
}

/// The elements to pack.
#[derive(Clone, Copy)]
pub(crate) enum Elements {
    Zeros,
    /// f32, to be converted to bf16.
    Values(*const f32),
    /// Already bf16.
    Bf16(*const u16),
}

impl Elements {
    /// Zeros if the pointer is null; else f32, or bf16 if each counted element is a pair.
    pub(crate) fn new(from: *const f32, per_count: usize) -> Elements {
        match per_count {
            _ if from.is_null() => Elements::Zeros,
            1 => Elements::Values(from),
            _ => Elements::Bf16(from.cast()),
        }
    }
}

/// Packs elements from element `at` of a row on; the row's cache lines are `step` lines apart.
///
/// # Safety
/// `from` is valid for `len` elements, and the row has lines for them; the CPU has AVX512-BF16.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
pub(crate) unsafe fn store_line(
    (from, len): (Elements, usize),
    to: *mut u16,
    step: usize,
    at: usize,
) {
    debug_assert!(has_dp_bf16());
    let mut done = 0;
    while done < len {
        let (line, inside) = ((at + done) / LANES, (at + done) % LANES);
        let count = (LANES - inside).min(len - done);
        // SAFETY: the caller's promise; the elements lie within a line.
        unsafe {
            let to = to.add(line * step * LANES + inside);
            match from {
                Elements::Zeros => to.write_bytes(0, count),
                Elements::Values(from) => store_bf16(from.add(done), to, count),
                Elements::Bf16(from) => to.copy_from_nonoverlapping(from.add(done), count),
            }
        }
        done += count;
    }
}
