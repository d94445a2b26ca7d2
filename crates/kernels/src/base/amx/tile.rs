//! Size of an AMX tile.

/// Rows of a tile, and its columns of four bytes.
pub(crate) const TILE_ROWS: usize = 16;

/// Bytes in a row of a tile.
pub(crate) const TILE_ROW_BYTES: usize = 64;
