//! Rows of A in bf16, laid out as the tiles that AMX multiplies.

use super::micro::{Source, Steps};
use super::tiles::{LANES, Line, ROW_BYTES, ROWS, Room, RowBlock, SIDE};
use super::{Left, Product};
use std::arch::x86_64::*;

/// The rows of a tile of C, as blocks of at most [`ROWS`] of them.
pub(super) struct Laid {
    room: Room,
    rows: (usize, usize),
    /// Steps along k: lines of a row.
    steps: usize,
}

impl Laid {
    /// Rounds the rows of A in a range.
    pub(super) fn new(product: &Product<'_>, rows: (usize, usize)) -> Laid {
        let steps = product.k.div_ceil(LANES);
        let count = (rows.1 - rows.0).div_ceil(ROWS);
        let room = Room::new((rows.1 - rows.0 + count) * steps);
        let mut laid = Laid { room, rows, steps };
        let mut pointers = vec![std::ptr::null(); ROWS * product.runs()];
        let is_scaled = matches!(product.a, Left::Scaled { .. });
        let mut products = vec![0f32; if is_scaled { ROWS * product.k } else { 0 }];
        let mut line = None;
        for block in 0..laid.count() {
            let (mut row, end) = laid.block(block);
            while row < end {
                let rows = match product.a {
                    Left::Windows(windows) => windows.together(row, end - row),
                    _ => end - row,
                };
                let (a, runs) =
                    product.source((row, rows), &mut pointers, &mut line, &mut products);
                for i in 0..rows {
                    let to = laid.row(block, row + i);
                    // SAFETY: `check` has shown that the rows lie within A.
                    unsafe { to.round(a, runs, (i, rows), product.k) };
                }
                row += rows;
            }
        }
        laid
    }

    /// The blocks, first rows first.
    pub(super) fn blocks(&self) -> impl Iterator<Item = RowBlock> {
        (0..self.count()).map(|i| {
            let (row, end) = self.block(i);
            let first = &self.room.0[self.start(i)..];
            let second = &first[SIDE.min(first.len())..];
            RowBlock {
                row,
                rows: (SIDE.min(end - row), (end - row).saturating_sub(SIDE)),
                lanes: LANES,
                sources: [first.as_ptr().cast(), second.as_ptr().cast()],
                row_bytes: ROW_BYTES,
                step_bytes: step(end - row) * ROW_BYTES,
                run: (self.steps, 0),
                runs: 1,
            }
        })
    }

    /// The first line of a block.
    fn start(&self, i: usize) -> usize {
        (self.block(i).0 - self.rows.0 + i) * self.steps
    }

    fn count(&self) -> usize {
        (self.rows.1 - self.rows.0).div_ceil(ROWS)
    }

    /// The rows of a block. Even ones: few rows take nearly as long as many.
    fn block(&self, i: usize) -> (usize, usize) {
        let (first, end) = self.rows;
        let at = |i: usize| first + (end - first) * i / self.count();
        (at(i), at(i + 1))
    }

    /// Where a row of a block goes.
    fn row(&mut self, block: usize, row: usize) -> RowLines<'_> {
        let (first, end) = self.block(block);
        let line = self.start(block) + row - first;
        RowLines { lines: &mut self.room.0[line..], step: step(end - first), count: self.steps }
    }
}

/// Lines from one step to the next in a block of so many rows: an odd number, so that the lines of a
/// row do not compete for the same places of a cache.
fn step(rows: usize) -> usize {
    rows | 1
}

/// Every `step`th of some lines: those of one row.
struct RowLines<'a> {
    lines: &'a mut [Line],
    step: usize,
    count: usize,
}

impl RowLines<'_> {
    /// Rounds row `row` of `rows` that consist of `runs` runs, with zeros behind it.
    ///
    /// # Panics
    /// When neighbours of a run are apart.
    ///
    /// # Safety
    /// The pointers are valid for runs of `k / runs` elements; the machine has AVX512-BF16.
    unsafe fn round(self, from: Source, runs: usize, (row, rows): (usize, usize), k: usize) {
        if k == 0 {
            return;
        }
        let len = k / runs;
        // The last line that is written is within the lines.
        assert!(self.count * LANES >= k && (self.count - 1) * self.step < self.lines.len());
        let (to, step) = (self.lines.as_mut_ptr(), self.step);
        for run in 0..runs {
            // SAFETY: the caller's promise.
            unsafe {
                let from = match from {
                    // The first is null where all are 0.
                    Source::Rows(runs) if (*runs.add(run * rows)).is_null() => std::ptr::null(),
                    Source::Rows(runs) => *runs.add(run * rows + row),
                    Source::Line(runs, Steps { row: stride, inner }) => {
                        assert!(inner == 1, "neighbours are apart");
                        let first = *runs.add(run);
                        if first.is_null() { first } else { first.add(row * stride) }
                    }
                };
                lay((from, len), to, step, run * len);
            }
        }
        // SAFETY: up to the end of the last line.
        unsafe { lay((std::ptr::null(), self.count * LANES - k), to, step, k) };
    }
}

/// Rounds elements, or zeros if there is no pointer to them, from element `at` of a row on, whose
/// lines are `step` apart.
///
/// # Safety
/// The pointer is valid for so many elements, and the row has lines for them; the machine has
/// AVX512-BF16.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
pub(super) unsafe fn lay((from, len): (*const f32, usize), to: *mut Line, step: usize, at: usize) {
    let mut done = 0;
    while done < len {
        let (line, inside) = ((at + done) / LANES, (at + done) % LANES);
        let count = (LANES - inside).min(len - done);
        // SAFETY: what the masks leave out is neither read nor written.
        unsafe {
            let to = to.add(line * step).cast::<i16>().add(inside);
            let lanes = match from.is_null() {
                true => _mm512_setzero_si512(),
                false => rounded(from.add(done), count),
            };
            match count {
                LANES => _mm512_store_si512(to.cast(), lanes),
                _ => _mm512_mask_storeu_epi16(to, u32::MAX >> (LANES - count), lanes),
            }
        }
        done += count;
    }
}

/// At most a line of elements, rounded.
///
/// # Safety
/// As [`lay`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
unsafe fn rounded(from: *const f32, count: usize) -> __m512i {
    let mask = u32::MAX >> (LANES - count);
    // SAFETY: the caller's promise; what the masks leave out is not read.
    unsafe {
        let (low, high) = match count {
            LANES => (_mm512_loadu_ps(from), _mm512_loadu_ps(from.add(LANES / 2))),
            _ => (
                _mm512_maskz_loadu_ps(mask as u16, from),
                _mm512_maskz_loadu_ps((mask >> 16) as u16, from.wrapping_add(LANES / 2)),
            ),
        };
        std::mem::transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(high, low))
    }
}
