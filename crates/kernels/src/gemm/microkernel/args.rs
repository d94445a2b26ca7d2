//! The arguments of a microkernel, and the size of its block.

use crate::base::isa::{Isa, isa};
use crate::gemm::k_blocks::KBlocks;
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
/// block after block along k; then the post-ops in registers.
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
    /// The blocks along k, in lanes of all runs.
    pub(crate) k_blocks: KBlocks,
    /// The destination of the block.
    pub(crate) out: Out,
}

/// A block along k of what a microkernel multiplies: a part of a run, or whole runs.
pub(crate) struct Terms {
    /// The first run, and the number of runs.
    pub(crate) first: usize,
    pub(crate) runs: usize,
    /// Lanes of each run that are left out, and those behind them that are multiplied.
    pub(crate) skip: usize,
    pub(crate) k: usize,
    /// A row of columns for each run and k.
    pub(crate) b: *const f32,
    /// What is prefetched meanwhile.
    pub(crate) ahead: Prefetch,
}

impl MicrokernelArgs {
    /// All of k as one block.
    #[inline(always)]
    pub(crate) fn whole(&self) -> Terms {
        let MicrokernelArgs { runs, k, b, ahead, .. } = *self;
        Terms { first: 0, runs, skip: 0, k, b, ahead }
    }

    /// A block along k, which is a range of lanes counted over all runs. Rows of the panel have
    /// `width` columns.
    ///
    /// # Safety
    /// There are these lanes.
    #[inline(always)]
    pub(crate) unsafe fn terms(&self, lanes: Range<usize>, width: usize) -> Terms {
        let MicrokernelArgs { runs, k, b, ahead, .. } = *self;
        // Without a division where there is one run, as in most GEMMs.
        let (first, skip) =
            if runs == 1 { (0, lanes.start) } else { (lanes.start / k, lanes.start % k) };
        let is_part = lanes.len() <= k - skip;
        let (runs, k) = if is_part { (1, lanes.len()) } else { (lanes.len() / k, k) };
        debug_assert!(lanes.len() == runs * k && (runs == 1 || skip == 0));
        debug_assert!(first + runs <= self.runs);
        // SAFETY: the caller's promise.
        let b = unsafe { b.add(lanes.start * width) };
        Terms { first, runs, skip, k, b, ahead: ahead.after(lanes.start) }
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
    match isa() {
        Isa::Portable if cfg!(target_arch = "aarch64") => 16,
        Isa::Portable => 8,
        Isa::Avx2 => 16,
        Isa::Avx512 | Isa::Amx => 32,
    }
}

/// Rows of a block of this many columns: more if half a panel leaves registers for them.
pub(crate) fn mr_of(columns: usize) -> usize {
    match isa() {
        Isa::Avx2 if columns <= 8 => 8,
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
