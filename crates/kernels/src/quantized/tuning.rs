//! Tuning constants of quantized convolutions. They decide how work is divided, never the bits of
//! the result: sums are exact.
//!
//! They were measured on the machines of `docs/performance/machines`.

/// Multiply-adds that are worth a second thread.
pub(crate) const GEMM_GRAIN: usize = 1 << 18;

/// The largest share of the panels that a thread may have, in eighths of the mean share. With a
/// larger one, the other threads wait for longer than it saves to read only a part of the filters.
pub(crate) const MAX_SHARE_EIGHTHS: usize = 9;

/// Multiply-adds of a depthwise convolution that are worth a second thread.
pub(crate) const DEPTHWISE_GRAIN: usize = 1 << 16;

/// Below this many bytes, the result of a 1×1 convolution stays in the cache until a depthwise one
/// reads it: half of L2 on a Zen 5.
pub(crate) const EXPANDED_BYTES: usize = 512 << 10;

/// The least number of output lines for which a depthwise convolution expands its input itself.
pub(crate) const EXPANDED_LINES: usize = 32;

/// The least cost of a block of rows, in rows: fewer rows do not hide the latency of the
/// instructions, and take as long as this many.
pub(crate) const MIN_ROWS: usize = 4;

/// The least number of pieces that an input is divided into while it is quantized.
pub(crate) const INPUT_PIECES: usize = 16;

/// Bytes of a quantized input that are worth a second thread.
pub(crate) const INPUT_GRAIN: usize = 1 << 14;

/// Pairs along k of a panel that are multiplied at a time by the i16 kernel: half the columns stay
/// in L1. A multiple of two.
pub(crate) const I16_CHUNK: usize = 256;

/// Limit of the rows that the i16 kernel multiplies by one panel after the other, in bytes: a
/// quarter of L2 on a Zen 3.
pub(crate) const I16_CACHE: usize = 128 << 10;

/// Rows that the i16 kernel multiplies by all panels at least, in bytes: half of L1 on a Zen 3.
pub(crate) const I16_L1: usize = 16 << 10;

/// Below this many filters, input channels by output channels, Winograd's transforms take as long
/// as they save.
pub(crate) const WINOGRAD_FEW_FILTERS: usize = 16 * 32;

/// Below this many tiles in an image, reading the transformed filters takes longer than Winograd
/// saves.
pub(crate) const WINOGRAD_FEW_TILES: usize = 32;

/// Limit of the transformed tiles that a thread multiplies by all filters at a time, in bytes.
pub(crate) const WINOGRAD_CACHE: usize = 256 << 10;

/// The least number of tiles that a thread works on.
pub(crate) const WINOGRAD_MIN_TILES: usize = 32;
