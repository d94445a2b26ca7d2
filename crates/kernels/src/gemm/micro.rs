//! The innermost block of a matrix product: some rows of A times a panel of B, in registers.

use super::pairs::{self, Precision};
use crate::isa::{Isa, isa};
use crate::simd::Vector;

/// Most rows in a block on any instruction set.
pub(super) const MAX_ROWS: usize = 14;

/// Columns of a panel on the widest instruction set.
pub(super) const MAX_COLUMNS: usize = 32;

/// What a block computes: `c[i][j] = sum over runs and k of a[run][i][k] * b[run][k][j]`, adding
/// along k in order, from 0.
#[derive(Clone, Copy)]
pub(super) struct Block {
    /// For each run a pointer to `k` elements of each row.
    pub(super) a: *const *const f32,
    /// Number of runs: 1 for a matrix product, the taps of the kernel for a convolution.
    pub(super) runs: usize,
    /// Lanes of a run: elements, or pairs of them.
    pub(super) k: usize,
    /// A packed panel: for each run and k, one row of columns.
    pub(super) b: *const f32,
    /// Where the block goes.
    pub(super) c: *mut f32,
    /// Distance between rows of `c`.
    pub(super) stride: usize,
}

/// Rows in a block and columns in a panel for the instruction set in use.
pub(super) fn shape() -> (usize, usize) {
    match isa() {
        Isa::Portable if cfg!(target_arch = "aarch64") => (6, 16),
        Isa::Portable => (4, 8),
        Isa::Avx2 => (6, 16),
        Isa::Avx512 => (14, 32),
    }
}

/// Computes a block of `rows` rows, at most those of [`shape`], and of the first `columns` columns
/// of a panel at least.
///
/// # Safety
/// The pointers of the block are valid for its size.
pub(super) unsafe fn run(block: Block, precision: Precision, (rows, columns): (usize, usize)) {
    // SAFETY: the caller's promise; `isa` is what the machine has.
    unsafe {
        match isa() {
            _ if precision == Precision::Bf16 => pairs::run(block, rows, columns),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 if columns <= 16 => avx512_half(block, rows),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => avx512(block, rows),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => avx2(block, rows),
            _ => portable(block, rows),
        }
    }
}

/// The first columns of a block in `P` vectors for each of `R` rows, all in registers; a row of the
/// panel has `W` vectors.
///
/// # Safety
/// As [`run`], where the instruction set of `V` is available.
#[inline(always)]
pub(super) unsafe fn kernel<V: Vector, const R: usize, const P: usize, const W: usize>(
    block: Block,
) {
    // SAFETY: the caller's promise.
    unsafe {
        // Loops over indices, not iterators: what is not inlined here is not compiled for the
        // instruction set.
        let mut sums = [[V::zero(); P]; R];
        let mut b = block.b;
        for run in 0..block.runs {
            let mut rows = [std::ptr::null(); R];
            for i in 0..R {
                rows[i] = *block.a.add(run * R + i);
            }
            for k in 0..block.k {
                let mut columns = [V::zero(); P];
                for p in 0..P {
                    columns[p] = V::load(b.add(p * V::LANES));
                }
                for i in 0..R {
                    let a = V::splat(*rows[i].add(k));
                    for p in 0..P {
                        sums[i][p] = a.fma(columns[p], sums[i][p]);
                    }
                }
                b = b.add(W * V::LANES);
            }
        }
        for (i, row) in sums.iter().enumerate() {
            for (p, sum) in row.iter().enumerate() {
                sum.store(block.c.add(i * block.stride + p * V::LANES));
            }
        }
    }
}

macro_rules! rows {
    ($vector:ty, $part:literal of $panel:literal, $block:expr, $rows:expr; $($r:literal)*) => {
        match $rows {
            $($r => kernel::<$vector, $r, $part, $panel>($block),)*
            rows => unreachable!("a block of {rows} rows"),
        }
    };
}

pub(super) use rows;

/// # Safety
/// As [`run`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
unsafe fn avx512(block: Block, rows: usize) {
    use crate::simd::Avx512;
    // SAFETY: the caller's promise, with AVX-512.
    unsafe { rows!(Avx512, 2 of 2, block, rows; 1 2 3 4 5 6 7 8 9 10 11 12 13 14) }
}

/// # Safety
/// As [`run`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
unsafe fn avx512_half(block: Block, rows: usize) {
    use crate::simd::Avx512;
    // SAFETY: the caller's promise, with AVX-512.
    unsafe { rows!(Avx512, 1 of 2, block, rows; 1 2 3 4 5 6 7 8 9 10 11 12 13 14) }
}

/// # Safety
/// As [`run`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn avx2(block: Block, rows: usize) {
    use crate::simd::Avx2;
    // SAFETY: the caller's promise, with AVX2.
    unsafe { rows!(Avx2, 2 of 2, block, rows; 1 2 3 4 5 6) }
}

/// # Safety
/// As [`run`].
#[cfg(target_arch = "aarch64")]
unsafe fn portable(block: Block, rows: usize) {
    use crate::simd::Neon;
    // SAFETY: the caller's promise; NEON is part of AArch64.
    unsafe { rows!(Neon, 4 of 4, block, rows; 1 2 3 4 5 6) }
}

/// # Safety
/// As [`run`].
#[cfg(not(target_arch = "aarch64"))]
unsafe fn portable(block: Block, rows: usize) {
    use crate::simd::Portable;
    // SAFETY: the caller's promise.
    unsafe { rows!(Portable, 2 of 2, block, rows; 1 2 3 4) }
}
