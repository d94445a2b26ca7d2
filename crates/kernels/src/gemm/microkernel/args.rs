//! The arguments of a microkernel, and the size of its block.

use crate::base::isa::{Isa, isa};
use crate::gemm::output::Out;
use crate::gemm::precision::Precision;
use crate::gemm::prefetch::Prefetch;
use crate::gemm::source::Source;
use std::ops::Range;

/// The most rows of a block on any instruction set.
pub(crate) const MAX_ROWS: usize = 14;

/// The most columns of a block on any instruction set.
pub(crate) const MAX_COLUMNS: usize = 32;

/// What a block computes: `c[i][j] = Σ a[run][i][k] · b[run][k][j]` over runs and k, in that order,
/// from 0; then the post-ops in registers.
#[derive(Clone, Copy)]
pub(crate) struct MicrokernelArgs {
    /// The addresses of A.
    pub(crate) a: Source,
    /// Number of runs: 1 for a plain GEMM, up to the taps of the kernel for a convolution.
    pub(crate) runs: usize,
    /// Lanes of a run: elements, or pairs of bf16.
    pub(crate) k: usize,
    /// A packed panel: a row of columns for each run and k.
    pub(crate) b: *const f32,
    /// What is prefetched, spread evenly along k: parts of B and of A that are read later.
    pub(crate) ahead: Prefetch,
    /// The destination of the block.
    pub(crate) out: Out,
}

impl MicrokernelArgs {
    /// What the block computes for a block along k, a range of lanes counted over all runs: a part
    /// of a run, or whole runs. `pointers` is where addresses of a part go.
    ///
    /// # Safety
    /// The pointers of the block are valid for `rows` rows, and it has these lanes.
    pub(crate) unsafe fn part(
        &self,
        lanes: Range<usize>,
        rows: usize,
        pointers: &mut [*const f32; MAX_ROWS],
    ) -> MicrokernelArgs {
        // Without a division where there is one run, as in most GEMMs.
        let (first, skip) = match self.runs {
            1 => (0, lanes.start),
            _ => (lanes.start / self.k, lanes.start % self.k),
        };
        let mut part = *self;
        (part.runs, part.k) = match lanes.len() {
            len if len <= self.k - skip => (1, len),
            len => (len / self.k, self.k),
        };
        debug_assert!(lanes.len() == part.runs * part.k && (part.runs == 1 || skip == 0));
        debug_assert!(first + part.runs <= self.runs);
        // SAFETY: the caller's promise.
        unsafe {
            part.a = self.a.part((first, skip), rows, pointers);
            part.b = self.b.add(lanes.start * nr());
        }
        part.ahead = self.ahead.after(lanes.start);
        part
    }
}

/// Rows of a block (mr) for the instruction set in use.
pub(crate) fn mr() -> usize {
    match isa() {
        Isa::Portable if cfg!(target_arch = "aarch64") => 6,
        Isa::Portable => 4,
        Isa::Avx2 => 6,
        Isa::Avx512 | Isa::Amx => 14,
    }
}

/// Columns of a block, and of a packed panel (nr), for the instruction set in use.
pub(crate) fn nr() -> usize {
    nr_of(isa())
}

#[inline(always)]
fn nr_of(isa: Isa) -> usize {
    match isa {
        Isa::Portable if cfg!(target_arch = "aarch64") => 16,
        Isa::Portable => 8,
        Isa::Avx2 => 16,
        Isa::Avx512 | Isa::Amx => 32,
    }
}

/// Whether an instruction set has microkernels for half a panel, and these columns need no more.
#[inline(always)]
pub(crate) fn is_half(isa: Isa, columns: usize) -> bool {
    isa > Isa::Portable && columns <= nr_of(isa) / 2
}

/// Rows of a block of this many columns: more if half a panel leaves registers for them.
pub(crate) fn mr_of(columns: usize) -> usize {
    match isa() {
        Isa::Avx2 if is_half(Isa::Avx2, columns) => 8,
        _ => mr(),
    }
}

/// Rows of a block in this precision.
pub(crate) fn rows_per_block(precision: Precision) -> usize {
    #[cfg(target_arch = "x86_64")]
    if precision.has_tiles() {
        return crate::gemm::amx::config::ROWS;
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = precision;
    mr()
}
