//! Numbers of the GEMM that decide how work is divided, never what it gives.
//!
//! They were chosen by measurement on the machines of `docs/performance`; `decisions.md` there has
//! what was tried around them.

use crate::base::isa::{Isa, isa};

/// Up to this many rows, packing B for later products does not pay.
pub const FEW_ROWS: usize = 3;

/// Up to this many rows, a B that is used once is read where it lies instead of being packed.
pub const THIN_ROWS: usize = 8;

/// Multiply-adds that are worth a second thread.
pub(crate) const GRAIN: usize = 1 << 16;

/// Bytes of packed B that stay in L2 while rows of A pass by, beside what is prefetched meanwhile.
pub(crate) const CACHE: usize = 192 << 10;

/// The same with AMX, for a B that is packed on the way: rows of A are copied for each tile of C.
pub(crate) const TILES_CACHE: usize = 1 << 20;

/// Bytes of rows of A that stay in L2 with AMX, while B passes by.
pub(crate) const TILES_ROWS: usize = 640 << 10;

/// The same while B is dequantized for them, which takes longer than to read it.
pub(crate) const DECODED_ROWS: usize = 2 * TILES_ROWS;

/// Blocks of rows that make it worth reading B once more.
pub(crate) const MANY_BLOCKS: usize = 4;

/// Columns of B for each row of A up to which a thread reads all of B in less time than rows of A
/// that another thread has written.
pub(crate) const COLUMNS_OF_A_ROW: usize = 8;

/// Tiles for each thread, so that one that is done sooner can help.
pub(crate) const TILES_PER_THREAD: usize = 4;

/// The same for few rows, whose tiles take little longer than to begin with them.
pub(crate) const FEW_TILES_PER_THREAD: usize = 2;

/// Elements of a panel from which on the panel itself is prefetched instead of a later one, which
/// would drive out of the cache what is in use: where no more rows follow, or while the first of
/// some rows are multiplied if the panel is twice as long.
pub(crate) const LONG_PANEL: usize = 1 << 16;

/// Elements of C from which on C is not in the cache of a thread when it is written.
pub(crate) const LARGE_OUTPUT: usize = 1 << 17;

/// Prefetch distance within a panel, in elements.
pub(crate) const PREFETCH_DISTANCE: usize = 1024;

/// Cache lines of later panels that AMX prefetches in each step along k.
#[cfg(target_arch = "x86_64")]
pub(crate) const AMX_PREFETCH_LINES: usize = 8;

/// Bytes of panels that all rows of a tile of C pass before the next panels are read with AMX: they
/// come from the LLC, or from memory, once.
#[cfg(target_arch = "x86_64")]
const AMX_GROUP: usize = 128 << 10;

/// Panels of so many elements that all rows of a tile of C pass with AMX.
#[cfg(target_arch = "x86_64")]
pub(crate) fn amx_group(panel: usize) -> usize {
    (AMX_GROUP / size_of::<f32>() / panel.max(1)).max(1)
}

/// Prefetch distance in a compressed panel, in bytes: the hardware starts too late.
pub(crate) const DEQUANT_PREFETCH: usize = 4096;

/// Rows that are multiplied by an element as soon as it is f32, at most.
pub(crate) const DEQUANT_ROWS: usize = 8;

/// The same where there are few registers, or few rows.
pub(crate) const DEQUANT_FEW_ROWS: usize = 4;

/// The same for the instruction set in use.
pub(crate) fn dequant_rows() -> usize {
    if isa() >= Isa::Avx512 { DEQUANT_ROWS } else { DEQUANT_FEW_ROWS }
}

/// Rows up to which dequantizing again for some rows at a time takes less than to write f32 panels.
pub(crate) fn dequant_thin_rows() -> usize {
    3 * dequant_rows()
}
