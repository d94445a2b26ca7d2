//! Numbers of the GEMM that decide how work is divided, and never its bits.
//!
//! They were chosen by measurement on the machines of `docs/performance/machines`. Where a figure
//! was kept, the number names its entry in `docs/performance/decisions.md`; the others have none.

use crate::base::isa::{Isa, isa};

/// Up to this many rows, packing B for later products does not pay.
pub const FEW_ROWS: usize = 3;

/// Up to this many rows, a B that is used once is read where it lies instead of being packed.
pub const SMALL_M_ROWS: usize = 8;

/// Multiply-adds that are worth a second thread.
pub(crate) const GRAIN: usize = 1 << 16;

/// Bytes of packed B that stay in L2 while rows of A pass by, with what is prefetched meanwhile.
pub(crate) const CACHE: usize = 192 << 10;

/// The same with AMX, for a B that is packed on the way: rows of A are copied for each tile of C.
pub(crate) const TILES_CACHE: usize = 1 << 20;

/// Bytes of rows of A that stay in L2 with AMX, while B passes by.
pub(crate) const TILES_ROWS: usize = 640 << 10;

/// The same while B is dequantized for them, which takes longer than to read it.
pub(crate) const DEQUANTIZED_ROWS: usize = 2 * TILES_ROWS;

/// Blocks of rows that make it worth reading B once more.
pub(crate) const MANY_BLOCKS: usize = 4;

/// Up to so many columns of B for each row of A, tiles are divided by rows: reading all of B takes
/// less than reading rows of A that another thread has written (decision 7).
pub(crate) const COLUMNS_OF_A_ROW: usize = 8;

/// Tiles for each thread, so that one that finishes early can take over some.
pub(crate) const TILES_PER_THREAD: usize = 4;

/// The same for few rows, whose tiles are short (decision 6: 0.85 of the time for 256 KB of
/// weights).
pub(crate) const FEW_TILES_PER_THREAD: usize = 2;

/// From this many elements on, a panel that is multiplied by the last rows prefetches itself
/// instead of the next tile's panel, which would evict what is in use. A panel twice as long does
/// so for the first rows too.
pub(crate) const LONG_PANEL: usize = 1 << 16;

/// From this many elements on, C is not in the thread's cache when it is written: it is prefetched.
pub(crate) const LARGE_OUTPUT: usize = 1 << 17;

/// Prefetch distance within a panel, in elements.
pub(crate) const PREFETCH_DISTANCE: usize = 1024;

/// Cache lines of later panels that AMX prefetches in each step along k (decision 4: evenly).
#[cfg(target_arch = "x86_64")]
pub(crate) const AMX_PREFETCH_LINES: usize = 8;

/// With AMX, bytes of panels that are multiplied by all rows of a tile of C before the next panels,
/// so that they come from the LLC, or from memory, once.
#[cfg(target_arch = "x86_64")]
const AMX_GROUP: usize = 128 << 10;

/// The same in panels of so many elements.
#[cfg(target_arch = "x86_64")]
pub(crate) fn amx_group(panel: usize) -> usize {
    (AMX_GROUP / size_of::<f32>() / panel.max(1)).max(1)
}

/// Prefetch distance in a compressed panel, in bytes: the hardware prefetcher starts too late.
pub(crate) const DEQUANT_PREFETCH: usize = 4096;

/// Rows that are multiplied by an element while it is in a register, at most (decision 9).
pub(crate) const DEQUANT_ROWS: usize = 8;

/// The same where there are few registers, or few rows.
pub(crate) const DEQUANT_FEW_ROWS: usize = 4;

/// The same for the instruction set in use.
pub(crate) fn dequant_rows() -> usize {
    if isa() >= Isa::Avx512 { DEQUANT_ROWS } else { DEQUANT_FEW_ROWS }
}

/// Up to so many rows, dequantizing B again for every few of them takes less than writing f32
/// panels.
pub(crate) fn dequant_small_m_rows() -> usize {
    3 * dequant_rows()
}

/// With rows quantized to 8 bits, a panel of 4 bits is widened to bytes before it is multiplied by
/// so many of them or more.
pub(crate) const WIDENED_ROWS: usize = 32;
