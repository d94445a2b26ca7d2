//! Locates the rows of A: a pointer to each run of each row, or strides between them.

use super::im2col::{Groups, Line};
use super::problem::{Gemm, Lhs};
use super::source::{Source, Strides};
use crate::multiversion;

/// Locates the rows of A of a GEMM, block after block.
pub(super) struct LhsRows<'a> {
    gemm: &'a Gemm<'a>,
    /// How windows are grouped into blocks, if A is an im2col.
    groups: Option<Groups>,
    /// For each run, a pointer for each row.
    pointers: Vec<*const f32>,
    /// The line of windows that the pointers are set for.
    line: Option<Line>,
    /// Rows of A times their factors, or gathered from their runs.
    copied_rows: Vec<f32>,
    /// Whether rows are gathered, since blocks along k begin within runs.
    gathers: bool,
}

impl<'a> LhsRows<'a> {
    /// For blocks of at most `most` rows.
    pub(super) fn new(gemm: &'a Gemm<'a>, most: usize) -> LhsRows<'a> {
        let groups = match gemm.lhs().0 {
            Lhs::Im2col(windows) => Some(windows.groups()),
            _ => None,
        };
        let are_blocked = gemm.k_blocks().suit_runs(gemm.k / gemm.runs().max(1));
        let gathers = matches!(gemm.a, Lhs::Concat { .. } | Lhs::Runs { .. }) && !are_blocked;
        let is_copied = matches!(gemm.a, Lhs::Scaled { .. }) || gathers;
        let copied_rows = vec![0.0; if is_copied { most * gemm.k } else { 0 }];
        let pointers = vec![std::ptr::null(); most * gemm.runs()];
        LhsRows { gemm, groups, pointers, line: None, copied_rows, gathers }
    }

    /// How many of the next `rows` rows make the next block.
    pub(super) fn count(&self, first: usize, rows: usize) -> usize {
        self.groups.as_ref().map_or(rows, |groups| groups.next(first, rows))
    }

    /// The location of a block of rows, and the runs of a row. Valid until the next call.
    pub(super) fn find(&mut self, block: (usize, usize)) -> (Source, usize) {
        match self.locate(block) {
            // SAFETY: there are pointers for all runs of these rows, and `check` has shown that the
            // runs lie within A.
            (source, runs) if self.gathers => unsafe { (self.gather(source, runs, block.1), 1) },
            found => found,
        }
    }

    /// Copies the runs of each row one after the other.
    ///
    /// # Safety
    /// There are pointers for `runs` runs of `rows` rows, and all elements of the runs.
    unsafe fn gather(&mut self, source: Source, runs: usize, rows: usize) -> Source {
        let k = self.gemm.k;
        debug_assert!(runs > 0 && self.copied_rows.len() >= rows * k);
        for (i, row) in self.copied_rows.chunks_exact_mut(k.max(1)).take(rows).enumerate() {
            for (j, to) in row.chunks_exact_mut(k / runs).enumerate() {
                // SAFETY: the caller's promise.
                to.copy_from_slice(unsafe {
                    std::slice::from_raw_parts(source.run(j, (i, rows)), to.len())
                });
            }
        }
        self.pointers[0] = self.copied_rows.as_ptr();
        Source::Strided(self.pointers.as_ptr(), Strides { row: k, inner: 1 })
    }

    /// The location of a block of rows in A.
    fn locate(&mut self, (row, rows): (usize, usize)) -> (Source, usize) {
        let (gemm, pointers) = (self.gemm, &mut self.pointers[..]);
        match gemm.lhs().0 {
            Lhs::Rows { values, stride } => {
                pointers[0] = values[row * stride..].as_ptr();
                (Source::Strided(pointers.as_ptr(), Strides { row: stride, inner: 1 }), 1)
            }
            Lhs::Scaled { values, stride, factors, rows: group } => {
                let k = gemm.k;
                for (i, to) in self.copied_rows.chunks_exact_mut(k.max(1)).take(rows).enumerate() {
                    let factors = &factors[(row + i) / group * k..][..k];
                    multiply(&values[(row + i) * stride..][..k], factors, to);
                }
                pointers[0] = self.copied_rows.as_ptr();
                (Source::Strided(pointers.as_ptr(), Strides { row: k, inner: 1 }), 1)
            }
            Lhs::Concat { first, others, columns } => {
                let all = [first].into_iter().chain(others.iter().copied());
                for (pointer, part) in pointers.iter_mut().zip(all) {
                    *pointer = part[row * columns..].as_ptr();
                }
                let steps = Strides { row: columns, inner: 1 };
                (Source::Strided(pointers.as_ptr(), steps), gemm.runs())
            }
            Lhs::Runs { values, runs: table, run } => {
                let runs = gemm.runs();
                for (i, own) in table[row * runs..][..rows * runs].chunks(runs).enumerate() {
                    for (j, at) in own.iter().enumerate() {
                        pointers[j * rows + i] = values[*at as usize * run..].as_ptr();
                    }
                }
                (Source::Indirect(pointers.as_ptr()), runs)
            }
            Lhs::Im2col(windows) => {
                self.line = windows.line((row, rows), self.line.take(), pointers);
                if let Some(line) = &self.line {
                    let steps = Strides { row: line.step, inner: line.inner };
                    return (Source::Strided(pointers.as_ptr(), steps), line.runs);
                }
                windows.pointers(row, rows, pointers);
                (Source::Indirect(pointers.as_ptr()), gemm.runs())
            }
            Lhs::Bf16(_) => unreachable!("`check` has refused it"),
        }
    }
}

multiversion! {
    fn multiply(values: &[f32], factors: &[f32], to: &mut [f32]) {
        for ((to, x), factor) in to.iter_mut().zip(values).zip(factors) {
            *to = x * factor;
        }
    }
}
