//! What a microkernel is called with, and the sizes of its block.

use crate::base::isa::{Isa, isa};
use crate::gemm::output::Out;
use crate::gemm::precision::Precision;
use crate::gemm::prefetch::Prefetch;
use crate::gemm::source::Source;

/// Most rows in a block on any instruction set.
pub(crate) const MAX_ROWS: usize = 14;

/// What a block computes: `c[i][j] = sum over runs and k of a[run][i][k] * b[run][k][j]`, adding
/// along k in order, from 0; then the post-ops in registers.
#[derive(Clone, Copy)]
pub(crate) struct MicrokernelArgs {
    /// Where A lies.
    pub(crate) a: Source,
    /// Number of runs: 1 for a matrix product, the taps of the kernel for a convolution.
    pub(crate) runs: usize,
    /// Lanes of a run: elements, or pairs of them.
    pub(crate) k: usize,
    /// A packed panel: for each run and k, one row of columns.
    pub(crate) b: *const f32,
    /// What is prefetched along k: parts of B and of A that are read later.
    pub(crate) ahead: Prefetch,
    /// Where the block goes.
    pub(crate) out: Out,
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

/// Rows in a block of so many columns: more where half a panel leaves registers for them.
pub(crate) fn mr_of(columns: usize) -> usize {
    match isa() {
        Isa::Avx2 if columns <= 8 => 8,
        _ => mr(),
    }
}

/// Rows in a block for operands rounded so.
pub(crate) fn rows_per_block(precision: Precision) -> usize {
    #[cfg(target_arch = "x86_64")]
    if precision.has_tiles() {
        return crate::gemm::amx::config::ROWS;
    }
    mr()
}
