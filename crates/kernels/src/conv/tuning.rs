//! Numbers of convolutions that decide how work is divided.
//!
//! They were chosen by measurement on the machines of `docs/performance/machines`. Those of
//! Winograd also decide which algorithm runs, and so the bits: they depend on shapes alone, and a
//! change of them is a line of the changelog.

/// Below so many channels the input is read as NCHW: runs of channels are too short to pay for a
/// transpose.
pub(crate) const SMALL_IC: usize = 16;

/// Elements of the padded input of a convolution with few channels that are worth a second thread.
pub(crate) const SMALL_IC_GRAIN: usize = 1 << 13;

/// Multiply-adds of a convolution with few output channels that are worth a second thread.
pub(crate) const SMALL_OC_GRAIN: usize = 1 << 15;

/// Lines of the input under a window of a convolution with few output channels, at most.
pub(crate) const SMALL_OC_LINES: usize = 32;

/// Elements of the lines that a thread keeps of a convolution with few output channels, at most: a
/// megabyte is what a second cache holds.
pub(crate) const SMALL_OC_SCRATCH: usize = 1 << 18;

/// Windows of a line of a convolution with few output channels, at least: two wide vectors. Zen 4,
/// 8 to 256 input channels: lines of 32 windows took 0.25 to 0.8 of a product's time with up to
/// four outputs, but 0.9 to 1.27 with eight.
pub(crate) const SMALL_OC_MIN_LINE: usize = 32;

/// Windows of a line for each output channel, at least: with eight outputs, lines of 80 windows
/// took 0.86 to 0.92. With a stride of 2 almost all took as long as a product, or up to 1.6 of it.
pub(crate) const SMALL_OC_LINE_PER_OUTPUT: usize = 8;

/// The padded line of a convolution with few output channels may be so many times the line, at
/// most: a model may have any padding.
pub(crate) const SMALL_OC_MAX_PADDED: usize = 8;

/// Below so many channels the transforms take as long as they save.
pub(crate) const WINOGRAD_FEW_CHANNELS: usize = 32;

/// Below so many tiles of an image the transformed filters, which are larger, take longer to read
/// than the multiplications that they save. The batch does not count: an image in a batch has the
/// bits that it has alone.
pub(crate) const WINOGRAD_FEW_TILES: usize = 32;

/// Bytes of tiles and products that a thread works on, while the filters pass.
pub(crate) const WINOGRAD_CACHE: usize = 512 << 10;

/// Tiles that a thread works on, at least.
pub(crate) const WINOGRAD_MIN_TILES: usize = 32;

/// Multiply-adds of a depthwise convolution that are worth a second thread.
pub(crate) const DEPTHWISE_GRAIN: usize = 1 << 15;

/// Parts of a thread, at most, where the input of a depthwise convolution is quantized.
pub(crate) const DEPTHWISE_QUANTIZED_PARTS: usize = 2;

/// Elements read by a pool that are worth a second thread.
pub(crate) const POOL_GRAIN: usize = 1 << 15;

/// Terms of a binary convolution that are worth a second thread.
pub(crate) const BINARY_GRAIN: usize = 1 << 12;

/// Elements of a deformable convolution that are worth a second thread.
pub(crate) const DEFORMABLE_GRAIN: usize = 1 << 10;

/// Multiply-adds of a convolution as defined that are worth a second thread.
pub(crate) const NAIVE_GRAIN: usize = 1 << 14;

/// Elements of a transposed convolution that are worth a second thread.
pub(crate) const TRANSPOSED_GRAIN: usize = 1 << 14;
