//! Sizes of tiles and blocks, and the instructions that multiply them.

#[cfg(target_arch = "x86_64")]
use crate::base::amx::has_byte_tiles;
use crate::base::isa::{Isa, isa};
use crate::quantized::tuning::MIN_ROWS;

/// The most elements along k: their sum fits 32 bits.
pub(super) const MAX_TERMS: usize = 1 << 16;

/// The most products of a quantized value and a weight whose sum is exact in f32.
pub(super) const MAX_EXACT_TERMS: usize = (1 << 24) / (255 * 128);

/// Rows of a tile, with AMX or without.
pub(super) const TILE_ROWS: usize = 16;

/// Rows of a block.
pub(super) const BLOCK_ROWS: usize = 2 * TILE_ROWS;

/// Columns of a panel.
pub(super) const WIDTH: usize = 32;

/// Up to this many columns, only half a panel is computed.
pub(super) const HALF: usize = WIDTH / 2;

/// Up to this many columns, a quarter of a panel is computed: a vector of AVX2, also with AVX-512.
pub(super) const QUARTER: usize = WIDTH / 4;

/// Rows of a panel that are requantized at a time: eight vectors of AVX-512.
pub(super) const PANEL_ROWS: usize = 4;

/// Bytes of a panel for every four elements along k.
pub(super) const DOT4_BYTES: usize = 4 * WIDTH;

/// The cost of multiplying `count` neighbouring rows, in rows.
pub(super) fn cost_in_rows(count: usize) -> usize {
    if has_tiles() { count.next_multiple_of(TILE_ROWS) } else { count.max(MIN_ROWS) }
}

/// Whether AMX multiplies bytes.
pub(super) fn has_tiles() -> bool {
    #[cfg(target_arch = "x86_64")]
    return isa() == Isa::Amx && has_byte_tiles();
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

/// Whether the CPU has an instruction for dot products of four bytes; otherwise bytes are widened
/// to i16.
pub(super) fn has_dot4() -> bool {
    match isa() {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 | Isa::Amx => has_tiles() || is_x86_feature_detected!("avx512vnni"),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => is_x86_feature_detected!("avxvnni"),
        _ => false,
    }
}

/// Whether sums are in registers of AVX-512 after a multiplication.
pub(super) fn leaves_sums_in_registers() -> bool {
    has_dot4() && isa() >= Isa::Avx512 && !has_tiles()
}

/// Neighbouring windows of the image; each is a row of A.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tile {
    /// Byte offset of the first window.
    pub(super) at: usize,
    /// Number of windows.
    pub(super) count: usize,
    /// The output line of the first window, counted over the whole batch, and its position there.
    pub(super) from: (usize, usize),
}

/// A block: two tiles, of which the second may be empty.
pub(super) type Block = [Tile; 2];

/// Rows of a tile that are neighbouring outputs.
pub(super) struct OutputRun {
    /// The first row, within the tile.
    pub(super) first: usize,
    /// The first row, within the output.
    pub(super) row: usize,
    /// Number of rows.
    pub(super) count: usize,
}
