//! Numbers of quantized convolutions that decide how work is divided, and never its bits: sums are
//! exact.
//!
//! They were chosen by measurement on the machines of `docs/performance/machines`.

/// Terms of the products that are worth a second thread.
pub(crate) const GEMM_GRAIN: usize = 1 << 18;

/// Rows that are multiplied at a time cost as much as so many, at least: vectors of fewer wait for
/// each other.
pub(crate) const MIN_ROWS: usize = 4;

/// Pieces that the lines of an input are divided into, at least, while it is quantized.
pub(crate) const INPUT_PIECES: usize = 16;

/// Bytes of a quantized input that are worth a second thread.
pub(crate) const INPUT_GRAIN: usize = 1 << 14;

/// Pairs of a panel that are multiplied at a time: half its columns stay in L1.
#[cfg(target_arch = "x86_64")]
pub(crate) const I16_CHUNK: usize = 256;

/// Below so many tiles of an image, reading the transformed filters takes longer than what is
/// saved.
pub(crate) const WINOGRAD_FEW_TILES: usize = 32;

/// Bytes of transformed tiles that a thread multiplies by all filters at a time.
pub(crate) const WINOGRAD_CACHE: usize = 256 << 10;

/// Tiles that a thread works on, at least.
pub(crate) const WINOGRAD_MIN_TILES: usize = 32;
