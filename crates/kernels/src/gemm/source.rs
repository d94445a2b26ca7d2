//! Addresses of rows of A.

/// The addresses of a block of rows of A.
#[derive(Clone, Copy)]
pub(super) enum Source {
    /// For each run, a pointer to `k` elements of each row. The first is null if the run is 0 in
    /// all rows.
    Indirect(*const *const f32),
    /// For each run, a pointer to that of the first row, null if the run is 0 in all rows; the
    /// other rows lie at a fixed stride.
    Strided(*const *const f32, Strides),
}

impl Source {
    /// The address of run `run` of row `row` of `rows`; null if the run is 0.
    ///
    /// # Panics
    /// When the elements of a run are not contiguous.
    ///
    /// # Safety
    /// There are pointers for `run` and for all `rows`.
    pub(super) unsafe fn run(self, run: usize, (row, rows): (usize, usize)) -> *const f32 {
        let (Source::Indirect(runs) | Source::Strided(runs, _)) = self;
        debug_assert!(row < rows && !runs.is_null());
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

    /// The addresses of run `first` and those behind it, without the first `skip` elements of each
    /// run. If `skip` is not 0, only run `first` is there, and `pointers` holds its addresses.
    ///
    /// # Safety
    /// There are pointers for run `first` and all `rows`; the run has more than `skip` elements.
    pub(super) unsafe fn part(
        self,
        (first, skip): (usize, usize),
        rows: usize,
        pointers: &mut [*const f32],
    ) -> Source {
        debug_assert!(rows > 0 && rows <= pointers.len());
        // SAFETY: the caller's promise.
        let behind = unsafe {
            match self {
                Source::Indirect(runs) => Source::Indirect(runs.add(first * rows)),
                Source::Strided(runs, steps) => Source::Strided(runs.add(first), steps),
            }
        };
        if skip == 0 {
            return behind;
        }
        let skipped = |pointer: *const f32, step: usize| {
            if pointer.is_null() { pointer } else { pointer.wrapping_add(skip * step) }
        };
        match behind {
            Source::Indirect(run) => {
                for (i, to) in pointers[..rows].iter_mut().enumerate() {
                    // SAFETY: there is a pointer for each row.
                    *to = skipped(unsafe { *run.add(i) }, 1);
                }
                Source::Indirect(pointers.as_ptr())
            }
            Source::Strided(run, steps) => {
                // SAFETY: there is a pointer for the run.
                pointers[0] = skipped(unsafe { *run }, steps.inner);
                Source::Strided(pointers.as_ptr(), steps)
            }
        }
    }

    /// The same rows, `by` elements behind, for `runs` runs of `rows` rows. `pointers` is where the
    /// addresses go.
    ///
    /// # Safety
    /// There are pointers for all runs and rows; behind those that are not null lie `by` more
    /// elements.
    pub(super) unsafe fn moved(
        self,
        by: usize,
        (runs, rows): (usize, usize),
        pointers: &mut [*const f32],
    ) -> Source {
        let (from, count) = match self {
            Source::Indirect(from) => (from, runs * rows),
            Source::Strided(from, _) => (from, runs),
        };
        debug_assert!(count <= pointers.len());
        for (i, to) in pointers[..count].iter_mut().enumerate() {
            // SAFETY: the caller's promise.
            let pointer = unsafe { *from.add(i) };
            *to = if pointer.is_null() { pointer } else { pointer.wrapping_add(by) };
        }
        match self {
            Source::Indirect(_) => Source::Indirect(pointers.as_ptr()),
            Source::Strided(_, steps) => Source::Strided(pointers.as_ptr(), steps),
        }
    }

    /// The address of the only row, if it is a single contiguous run.
    ///
    /// # Safety
    /// There is a pointer for the run.
    pub(super) unsafe fn only_row(self) -> Option<*const f32> {
        let Source::Strided(first, Strides { inner: 1, .. }) = self else { return None };
        debug_assert!(!first.is_null());
        // SAFETY: the caller's promise.
        Some(unsafe { *first }).filter(|first| !first.is_null())
    }
}

/// Strides, in elements.
#[derive(Clone, Copy)]
pub(crate) struct Strides {
    /// From one row to the next.
    pub(crate) row: usize,
    /// From one element of a run to the next.
    pub(crate) inner: usize,
}
