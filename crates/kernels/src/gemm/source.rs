//! Where some rows of A lie.

/// Where the rows of A lie.
#[derive(Clone, Copy)]
pub(super) enum Source {
    /// For each run a pointer to `k` elements of each row, the first null where all are 0.
    Indirect(*const *const f32),
    /// For each run a pointer to the first row's, null where all rows are 0.
    Strided(*const *const f32, Strides),
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
        debug_assert!(row < rows);
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Source::Indirect(runs) if (*runs.add(run * rows)).is_null() => std::ptr::null(),
                Source::Indirect(runs) => *runs.add(run * rows + row),
                Source::Strided(runs, steps) => {
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
        let Source::Strided(first, Strides { inner: 1, .. }) = self else { return None };
        // SAFETY: the caller's promise.
        Some(unsafe { *first }).filter(|first| !first.is_null())
    }
}

/// Elements from one to the next.
#[derive(Clone, Copy)]
pub(crate) struct Strides {
    /// Of the rows.
    pub(crate) row: usize,
    /// Of the elements of a run.
    pub(crate) inner: usize,
}
