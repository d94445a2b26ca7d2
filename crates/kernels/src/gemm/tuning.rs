//! Tuning constants of the GEMM. They decide how work is divided, never the bits of the result.
//!
//! They were measured on the machines of `docs/performance/machines`. A number in parentheses names
//! the entry in `docs/performance/decisions.md` that keeps the measurement. Other ratios are time
//! after by time before, as the history keeps them. A constant without any has no record.

use crate::base::isa::{Isa, isa};

/// Up to this many rows, a GEMM takes as long as reading B. So packing B for later GEMMs does not
/// pay, GEMMs are grouped, and each thread has few tiles.
pub const MEMORY_BOUND_ROWS: usize = 3;

/// Up to this many rows, a B that is used once is multiplied unpacked.
pub const SMALL_M_ROWS: usize = 8;

/// What reading B costs, as a number of rows that are multiplied by it.
pub(crate) const READING_B_ROWS: usize = 3;

/// Multiply-adds that are worth a second thread.
pub(crate) const GRAIN: usize = 1 << 16;

/// Limit of packed B in a tile, in bytes. It stays in L2 while the rows of A pass by, beside what
/// is prefetched meanwhile. In place of 384 KB, together with decisions 4 and 7: bert_base 0.87 on
/// two threads of an Emerald Rapids.
pub(crate) const CACHE: usize = 192 << 10;

/// Limit of packed B in a tile, in bytes, with AMX and a B that is packed for the call. Higher than
/// [`CACHE`], since rows of A are copied for each tile of C.
pub(crate) const TILES_CACHE: usize = 1 << 20;

/// Limit of the rows of A in a tile, in bytes, with AMX. They stay in L2 while B passes by.
pub(crate) const TILES_ROWS: usize = 640 << 10;

/// Limit of the rows of A in a tile, in bytes, with AMX and a compressed B. Higher than
/// [`TILES_ROWS`], since dequantizing B takes longer than reading it.
pub(crate) const DEQUANTIZED_ROWS: usize = 2 * TILES_ROWS;

/// Blocks of rows for each thread from which reading all of B once more pays.
pub(crate) const MANY_BLOCKS: usize = 4;

/// Up to this many columns of B per row of A, tiles are divided by rows: reading all of B takes
/// less time than reading rows of A that another thread has written (decision 7). On an Emerald
/// Rapids 192 KB that another core had written took 9.6 µs, a core's own 3.4.
pub(crate) const COLUMNS_OF_A_ROW: usize = 8;

/// Tiles for each thread. With several, other threads can steal some from a slow one.
pub(crate) const TILES_PER_THREAD: usize = 4;

/// Tiles for each thread if there are few rows. Each takes little time, so fewer are better
/// (decision 6: 0.85 of the time for 256 KB of weights).
pub(crate) const FEW_TILES_PER_THREAD: usize = 2;

/// From this many elements on, a panel that only one block of rows needs is prefetched further
/// along itself while it is multiplied. The next tile's panel would evict what is in use. If there
/// are more blocks of rows, the first one does so from twice this length on: resnet50 0.98. Shorter
/// panels as well: a recurrent cell, whose weights are in the cache, 1.1.
pub(crate) const LONG_PANEL: usize = 1 << 16;

/// From this many elements on, C is not in the cache of the thread that writes it, and is
/// prefetched: resnet50 0.98 on a Zen 4, its layers that write 3 MB 0.85 to 0.95. With twice this
/// limit, layers of 14 lines lose a gain of 4 %.
pub(crate) const LARGE_OUTPUT: usize = 1 << 17;

/// Up to this many elements along k, several blocks of rows are multiplied by a panel at a time,
/// since preparing a block takes nearly as long as multiplying it: road segmentation with layers of
/// 8 to 32 channels 0.79 on one thread of a Zen 3, mobilenetv3_small 0.93. With twice this
/// number a detector takes 1.03, without a limit 1.06.
pub(crate) const SHORT_K: usize = 128;

/// Limit of the rows that are multiplied so at a time, in elements: half of L1. Half as many take
/// 1.01, twice as many gain nothing.
pub(crate) const SHORT_ROWS: usize = 4 << 10;

/// Prefetch distance within a panel of f32 or bf16 pairs, in elements.
pub(crate) const PREFETCH_DISTANCE: usize = 1024;

/// Cache lines of later panels that AMX prefetches in each step along k (decision 4: evenly). With
/// [`AMX_GROUP`], a GEMM of 98×2304×256 went from 790 to 1,266 GFLOP/s on a Granite Rapids, if its
/// weights were not in the cache.
#[cfg(target_arch = "x86_64")]
pub(crate) const AMX_PREFETCH_LINES: usize = 8;

/// Limit of a group of panels with AMX, in bytes. All rows of a tile of C are multiplied by one
/// group before the next, so that B comes from the LLC, or from memory, once.
#[cfg(target_arch = "x86_64")]
const AMX_GROUP: usize = 128 << 10;

/// [`AMX_GROUP`] as a number of panels, for panels of `panel` elements. At least one.
#[cfg(target_arch = "x86_64")]
pub(crate) fn amx_group(panel: usize) -> usize {
    (AMX_GROUP / size_of::<f32>() / panel.max(1)).max(1)
}

/// Prefetch distance in a compressed panel, in bytes. The hardware prefetcher starts too late:
/// without, compressed weights took three times as long.
pub(crate) const DEQUANT_PREFETCH: usize = 4096;

/// The most rows of A that each dequantized element is multiplied by while it is in a register
/// (decision 9), with AVX-512.
pub(crate) const DEQUANT_ROWS: usize = 8;

/// The most rows of A that each dequantized element is multiplied by while it is in a register, if
/// there are fewer registers than with AVX-512, or few rows.
pub(crate) const DEQUANT_FEW_ROWS: usize = 4;

/// The most panels of integers that a single row is multiplied by at a time. One panel's chain of
/// sums is bound by latency (decision 9): 4 bits 0.70 on a Zen 5, 8 bits in the cache 0.70, from
/// memory 1.01. Four take 0.98 with 4 bits, but 1.03 with 8; f16 gains nothing. With AVX2 8 bits
/// take 0.70 too; for 4 bits it has too few registers (1.06).
pub(crate) const DEQUANT_PANELS: usize = 2;

/// The most rows of A that each dequantized element is multiplied by, for the instruction set in
/// use.
pub(crate) fn dequant_rows() -> usize {
    if isa() >= Isa::Avx512 { DEQUANT_ROWS } else { DEQUANT_FEW_ROWS }
}

/// Up to this many rows, dequantizing B once for every [`dequant_rows`] of them takes less time
/// than writing f32 panels.
pub(crate) fn dequant_small_m_rows() -> usize {
    3 * dequant_rows()
}

/// From this many rows on, quantized to 8 bits, a panel of 4 bits is widened to bytes before it is
/// multiplied, so that each block of rows does not unpack it again.
pub(crate) const WIDENED_ROWS: usize = 32;
