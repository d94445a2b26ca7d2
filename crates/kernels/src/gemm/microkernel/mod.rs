//! Microkernels: a block of C whose sums stay in registers.

pub(crate) mod args;
pub(crate) mod bf16_dp;
#[cfg(target_arch = "x86_64")]
mod bf16_f32;
pub(crate) mod generic;
mod sums;

use crate::base::isa::{Isa, isa};
use crate::gemm::k_blocks::KBlocks;
use crate::gemm::output::Out;
use crate::gemm::precision::Bf16Path;
use args::{MAX_ROWS, MicrokernelArgs, is_half, mr, mr_of, nr};
#[cfg(target_arch = "x86_64")]
use generic::{
    avx2, avx2_blocks, avx2_half, avx2_half_blocks, avx512, avx512_blocks, avx512_half,
    avx512_half_blocks,
};
use generic::{portable, portable_blocks};
use sums::Sums;

/// Computes a block of `rows` rows, at most `mr_of` its columns, in f32 or on bf16 path `path`.
///
/// # Safety
/// The pointers of the block are valid for its size.
pub(crate) unsafe fn run(block: &MicrokernelArgs, path: Option<Bf16Path>, rows: usize) {
    let columns = block.out.columns;
    debug_assert!(rows <= mr_of(columns) && columns <= nr());
    // SAFETY: the caller's promise; `isa` is what the CPU has.
    unsafe {
        match path {
            #[cfg(target_arch = "x86_64")]
            Some(Bf16Path::F32) => return bf16_f32::run(block, rows),
            Some(_) => return bf16_dp::run(block, rows),
            None => {}
        }
        match isa() {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 | Isa::Amx if is_half(Isa::Avx512, columns) => avx512_half(block, rows),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 | Isa::Amx => avx512(block, rows),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 if is_half(Isa::Avx2, columns) => avx2_half(block, rows),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => avx2(block, rows),
            _ => portable(block, rows),
        }
    }
}

/// As [`run`] in f32, for `blocks` blocks of `rows` rows each, one below the other.
///
/// # Panics
/// Unless `rows` is [`mr_of`] the columns of this or of a wider panel.
///
/// # Safety
/// As [`run`], for all blocks; their rows are one run each, at a fixed stride.
pub(crate) unsafe fn run_blocks(first: &MicrokernelArgs, rows: usize, blocks: usize) {
    debug_assert!(first.runs == 1 && first.out.columns <= nr());
    let isa = isa();
    // SAFETY: the caller's promise; `isa` is what the CPU has.
    unsafe {
        match (isa, is_half(isa, first.out.columns), rows) {
            #[cfg(target_arch = "x86_64")]
            (Isa::Avx512 | Isa::Amx, true, 14) => avx512_half_blocks(first, blocks),
            #[cfg(target_arch = "x86_64")]
            (Isa::Avx512 | Isa::Amx, false, 14) => avx512_blocks(first, blocks),
            #[cfg(target_arch = "x86_64")]
            (Isa::Avx2, true, 8) => avx2_half_blocks::<8>(first, blocks),
            #[cfg(target_arch = "x86_64")]
            (Isa::Avx2, true, 6) => avx2_half_blocks::<6>(first, blocks),
            #[cfg(target_arch = "x86_64")]
            (Isa::Avx2, false, 6) => avx2_blocks(first, blocks),
            (Isa::Portable, _, _) if rows == mr() => portable_blocks(first, blocks),
            _ => unreachable!("blocks of {rows} rows"),
        }
    }
}

/// As [`run`] in f32, with k divided into blocks. Each but the last writes its sums to memory, and
/// the next one adds them.
///
/// # Safety
/// As [`run`]; blocks along k [suit](KBlocks::suit_runs) the runs.
pub(crate) unsafe fn run_in_blocks(block: &MicrokernelArgs, blocks: KBlocks, rows: usize) {
    debug_assert!(blocks.end() == block.runs * block.k && rows <= MAX_ROWS);
    let mut sums = Sums::new();
    let mut between = sums.out(block.out.columns);
    let mut pointers = [std::ptr::null(); MAX_ROWS];
    // SAFETY: the caller's promise. From the second block on, the sums have been written.
    unsafe {
        for lanes in blocks.iter() {
            let is_last = lanes.end == blocks.end();
            let mut part = block.part(lanes, rows, &mut pointers);
            part.out =
                if is_last { Out { earlier: between.earlier, ..block.out } } else { between };
            run(&part, None, rows);
            between.earlier = between.to;
        }
    }
}
