//! The walk over a tile of C: some rows of A, then others, and for each of them panel after panel of B.

use super::microkernel::{self, Block, MAX_ROWS};
use super::output::SharedTarget;
use super::pack::bf16::Rounded;
use super::post_ops::{Absorbed, finish};
use super::precision::{Precision, Unit};
use super::prefetch::{Requests, Shares};
use super::source::{Source, Sources};
use super::{LARGE_OUTPUT, LONG_PANEL, Left, Product, Tile, gemv};
use std::ops::Range;

/// What all blocks of a tile have in common.
struct Walk<'a> {
    product: &'a Product<'a>,
    tile: Tile,
    /// The panels of the tile, and those of a later one.
    panels: (&'a [f32], &'a [f32]),
    c: SharedTarget,
    /// What is done before a block leaves the registers.
    then: Absorbed<'a>,
    unit: Option<Unit>,
    /// Lanes of a row of A.
    lanes: usize,
    /// Elements of a panel, and its columns.
    panel: (usize, usize),
    /// Times that all panels are multiplied.
    turns: usize,
    /// What a block asks for of a later panel.
    of_later: Shares,
    /// Whether blocks ask for where they go.
    asks: bool,
}

/// Some rows of A.
struct Rows<'a> {
    /// The first of them, and how many there are.
    range: (usize, usize),
    source: Source,
    /// Runs that a row consists of.
    runs: usize,
    turn: usize,
    /// Those that follow, and what a block asks for of them.
    next: (&'a [f32], Shares),
}

impl Product<'_> {
    /// Computes a tile, and asks for the panels of a later one.
    pub(super) fn blocks(&self, tile: Tile, panels: (&[f32], &[f32]), c: SharedTarget) {
        let ((top, bottom), (left, right)) = (tile.rows, tile.columns);
        let most = microkernel::rows_of(right - left);
        let (then, rest) = Absorbed::of(self.steps);
        let walk = Walk::new(self, (tile, most), panels, (c, then));
        let mut sources = Sources::new(self, MAX_ROWS);
        let mut rounded = match (self.precision, self.a) {
            (Precision::F32, _) | (_, Left::Rounded(_)) => None,
            (Precision::Bf16, _) => Some(Rounded::new(self.k, MAX_ROWS)),
        };
        let (mut first, mut turn) = (top, 0);
        while first < bottom {
            let rows = sources.count(first, block_rows(bottom - first, most));
            let (source, runs) = sources.find((first, rows));
            let (source, runs) = match &mut rounded {
                // SAFETY: `check` has shown that the rows lie within A.
                Some(rounded) => (unsafe { rounded.round(source, runs, rows) }, 1),
                None => (source, runs),
            };
            if bottom - top == 1 && runs == 1 && gemv::suits(walk.unit) {
                // SAFETY: there is a pointer for the run; `check` has shown that the row lies within A, and
                // tiles are disjoint parts of C.
                unsafe {
                    if let Some(a) = source.only_row() {
                        return self.one_row(tile, (a, walk.unit), panels, c);
                    }
                }
            }
            let next = self.consecutive(first + rows..bottom.min(first + 2 * rows));
            let of_next = Shares::new(next.len(), walk.across(), walk.lanes);
            let next = (next, of_next);
            walk.multiply(&Rows { range: (first, rows), source, runs, turn, next });
            if let Some(c) = c.values() {
                // SAFETY: within C and within this tile.
                unsafe { finish(rest, first..first + rows, left..right, self.c_stride, c) };
            }
            first += rows;
            turn += 1;
        }
    }

    /// Rows of A, where they lie one behind the other.
    fn consecutive(&self, rows: Range<usize>) -> &[f32] {
        match self.a {
            Left::Rows { values, stride } if stride == self.k && !rows.is_empty() => {
                &values[rows.start * stride..rows.end * stride]
            }
            _ => &[],
        }
    }
}

impl<'a> Walk<'a> {
    fn new(
        product: &'a Product<'a>,
        (tile, most): (Tile, usize),
        panels: (&'a [f32], &'a [f32]),
        (c, then): (SharedTarget, Absorbed<'a>),
    ) -> Walk<'a> {
        let (_, width) = microkernel::shape();
        let lanes = product.lanes();
        let panel = (width * lanes, width);
        let turns = (tile.rows.1 - tile.rows.0).div_ceil(most);
        let of_later = Shares::new(panel.0, turns, lanes);
        let (unit, asks) = (product.precision.unit(), product.m * product.n >= LARGE_OUTPUT);
        Walk { product, tile, panels, c, then, unit, lanes, panel, turns, of_later, asks }
    }

    /// Panels side by side.
    fn across(&self) -> usize {
        let (left, right) = self.tile.columns;
        (right - left).div_ceil(self.panel.1)
    }

    /// Multiplies some rows by all panels.
    fn multiply(&self, rows: &Rows<'_>) {
        let (_, count) = rows.range;
        // SAFETY: `check` has shown that rows and columns lie within the operands, and tiles are disjoint
        // parts of C.
        unsafe {
            for i in 0..self.across() {
                microkernel::run(&self.block(rows, i), self.unit, count);
            }
        }
    }

    /// Some rows times panel `i`.
    ///
    /// # Safety
    /// The rows and the panel lie within the operands, and nobody else writes where the block goes.
    #[inline(always)]
    unsafe fn block(&self, rows: &Rows<'_>, i: usize) -> Block {
        let ((first, count), (left, right)) = (rows.range, self.tile.columns);
        let ((panels, later), (len, width)) = (self.panels, self.panel);
        let (panel, column) = (&panels[i * len..][..len], left + i * width);
        let (next, of_next) = rows.next;
        let asks_itself = rows.turn == 0 && len >= LONG_PANEL * self.turns.min(2);
        let (stride, columns) = (self.product.c_stride, width.min(right - column));
        let then = self.then.at(first, column);
        // SAFETY: the caller's promise.
        let out = unsafe { self.c.block(first * stride + column, (stride, columns), then) };
        if self.asks {
            out.ask(count);
        }
        Block {
            a: rows.source,
            runs: rows.runs,
            k: self.lanes / rows.runs,
            b: panel.as_ptr(),
            // As much at any time: memory answers best when it is asked evenly.
            ahead: match asks_itself {
                true => Requests::further_on(panel, width),
                false => Requests([
                    self.of_later.of(later.get(i * len), rows.turn, panel),
                    of_next.of(next.first(), i, panel),
                ]),
            },
            out,
        }
    }
}

/// Rows of the next block: as many as there are registers for, since panels of B that are read for
/// the first time come slowly, but no block of few rows at the end.
fn block_rows(left: usize, most: usize) -> usize {
    match left.checked_sub(most) {
        None => left,
        Some(rest) if rest > 0 && 2 * rest < most => left.div_ceil(2),
        Some(_) => most,
    }
}
