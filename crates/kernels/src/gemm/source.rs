//! Where some rows of A lie.

use super::im2col::{Groups, Line};
use super::microkernel::Steps;
use super::{Left, Product};
use crate::multiversion;

/// Where the rows of A lie.
#[derive(Clone, Copy)]
pub(super) enum Source {
    /// For each run a pointer to `k` elements of each row, the first null where all are 0.
    Rows(*const *const f32),
    /// For each run a pointer to the first row's, null where all rows are 0.
    Line(*const *const f32, Steps),
}

impl Source {
    /// Where run `run` of row `row` of `rows` begins; null where it is all 0.
    ///
    /// # Panics
    /// When neighbours of a run are apart.
    ///
    /// # Safety
    /// There are pointers for so many runs and rows.
    pub(super) unsafe fn run(self, run: usize, (row, rows): (usize, usize)) -> *const f32 {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Source::Rows(runs) if (*runs.add(run * rows)).is_null() => std::ptr::null(),
                Source::Rows(runs) => *runs.add(run * rows + row),
                Source::Line(runs, steps) => {
                    assert!(steps.inner == 1, "neighbours are apart");
                    let first = *runs.add(run);
                    if first.is_null() { first } else { first.add(row * steps.row) }
                }
            }
        }
    }

    /// The only row, if it lies in one run.
    ///
    /// # Safety
    /// There is a pointer for it.
    pub(super) unsafe fn only_row(self) -> Option<*const f32> {
        let Source::Line(first, Steps { inner: 1, .. }) = self else { return None };
        // SAFETY: the caller's promise.
        Some(unsafe { *first }).filter(|first| !first.is_null())
    }
}

/// Finds the rows of A of a product, some after others.
pub(super) struct Sources<'a> {
    product: &'a Product<'a>,
    /// How rows are taken together, if they are windows.
    groups: Option<Groups>,
    /// For each run of a row, and each of the rows.
    pointers: Vec<*const f32>,
    /// The line of windows that the pointers are for.
    line: Option<Line>,
    /// What has to be computed of the rows.
    products: Vec<f32>,
}

impl<'a> Sources<'a> {
    /// Finds at most `most` rows at a time.
    pub(super) fn new(product: &'a Product<'a>, most: usize) -> Sources<'a> {
        let groups = match product.left().0 {
            Left::Windows(windows) => Some(windows.groups()),
            _ => None,
        };
        let is_scaled = matches!(product.a, Left::Scaled { .. });
        let products = vec![0.0; if is_scaled { most * product.k } else { 0 }];
        let pointers = vec![std::ptr::null(); most * product.runs()];
        Sources { product, groups, pointers, line: None, products }
    }

    /// How many of the next `rows` rows are best taken together.
    pub(super) fn count(&self, first: usize, rows: usize) -> usize {
        self.groups.as_ref().map_or(rows, |groups| groups.next(first, rows))
    }

    /// Where some rows lie, and of how many runs they consist, until others are asked for.
    pub(super) fn find(&mut self, (row, rows): (usize, usize)) -> (Source, usize) {
        let (product, pointers) = (self.product, &mut self.pointers[..]);
        match product.left().0 {
            Left::Rows { values, stride } => {
                pointers[0] = values[row * stride..].as_ptr();
                (Source::Line(pointers.as_ptr(), Steps { row: stride, inner: 1 }), 1)
            }
            Left::Scaled { values, stride, factors, rows: group } => {
                let k = product.k;
                for (i, to) in self.products.chunks_exact_mut(k.max(1)).take(rows).enumerate() {
                    let factors = &factors[(row + i) / group * k..][..k];
                    multiply(&values[(row + i) * stride..][..k], factors, to);
                }
                pointers[0] = self.products.as_ptr();
                (Source::Line(pointers.as_ptr(), Steps { row: k, inner: 1 }), 1)
            }
            Left::Beside { first, others, columns } => {
                let all = [first].into_iter().chain(others.iter().copied());
                for (pointer, part) in pointers.iter_mut().zip(all) {
                    *pointer = part[row * columns..].as_ptr();
                }
                let steps = Steps { row: columns, inner: 1 };
                (Source::Line(pointers.as_ptr(), steps), product.runs())
            }
            Left::Runs { values, runs: table, run } => {
                let runs = product.runs();
                for (i, own) in table[row * runs..][..rows * runs].chunks(runs).enumerate() {
                    for (j, at) in own.iter().enumerate() {
                        pointers[j * rows + i] = values[*at as usize * run..].as_ptr();
                    }
                }
                (Source::Rows(pointers.as_ptr()), runs)
            }
            Left::Windows(windows) => {
                self.line = windows.line((row, rows), self.line.take(), pointers);
                if let Some(line) = &self.line {
                    let steps = Steps { row: line.step, inner: line.inner };
                    return (Source::Line(pointers.as_ptr(), steps), line.runs);
                }
                windows.pointers(row, rows, pointers);
                (Source::Rows(pointers.as_ptr()), product.runs())
            }
            Left::Rounded(_) => unreachable!("`check` has refused it"),
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
