//! Tuning constants of convolutions.
//!
//! They were measured on the machines of `docs/performance/machines`. Most decide only how work is
//! divided. Those of Winograd choose the algorithm, and so the bits of the result: they depend on
//! shapes alone, and a change of them is a line of the changelog.

/// Below this many input channels the input is read as NCHW. Its runs of channels are too short for
/// a transpose to NHWC to pay.
pub(crate) const SMALL_IC: usize = 16;

/// Elements of the padded input of a convolution with few channels that are worth a second thread.
pub(crate) const SMALL_IC_GRAIN: usize = 1 << 13;

/// Multiply-adds of a convolution with few output channels that are worth a second thread.
pub(crate) const SMALL_OC_GRAIN: usize = 1 << 15;

/// Limit of the input lines under one window, for a convolution with few output channels.
pub(crate) const SMALL_OC_LINES: usize = 32;

/// Limit of a thread's line buffer, in elements, for a convolution with few output channels: 1 MB,
/// which fits L2.
pub(crate) const SMALL_OC_SCRATCH: usize = 1 << 18;

/// The least number of windows in a line, for a convolution with few output channels: two vectors
/// of sixteen lanes. Measured against GEMM on a Zen 4 with 8 to 256 input channels: lines of 32
/// windows took 0.25 to 0.8 of the time with up to four outputs, but 0.9 to 1.27 with eight.
pub(crate) const SMALL_OC_MIN_LINE: usize = 32;

/// The least number of windows in a line per output channel, for a convolution with few of them.
/// Measured against GEMM on a Zen 4: with eight outputs, lines of 80 windows took 0.86 to 0.92 of
/// the time. With a stride of 2, almost all took as long or longer, up to 1.6.
pub(crate) const SMALL_OC_LINE_PER_OUTPUT: usize = 8;

/// Limit of a padded line, as a multiple of the line, for a convolution with few output channels: a
/// model may ask for any padding.
pub(crate) const SMALL_OC_MAX_PADDED: usize = 8;

/// Below this many input or output channels, Winograd's transforms take longer than they save: with
/// 16, unet took 1.1 of the time on a Zen 3. From 32 on, resnet50 0.86 on one thread.
pub(crate) const WINOGRAD_FEW_CHANNELS: usize = 32;

/// Below this many tiles in an image, reading the transformed filters, which are larger, takes
/// longer than Winograd saves, as in maps of 7×7 on a Zen 3. The batch does not count, so that an
/// image has the same bits in a batch as alone.
pub(crate) const WINOGRAD_FEW_TILES: usize = 32;

/// Limit of the tiles and their sums that a thread works on while the filters pass by, in bytes. 25
/// tiles in place of 13 read the filters half as often: layers of 14×14 positions and 256 channels
/// 0.85 on two threads of a Zen 3.
pub(crate) const WINOGRAD_CACHE: usize = 512 << 10;

/// The least number of tiles that a thread works on.
pub(crate) const WINOGRAD_MIN_TILES: usize = 32;

/// Multiply-adds of a depthwise convolution that are worth a second thread.
pub(crate) const DEPTHWISE_GRAIN: usize = 1 << 15;

/// The most parts per thread if the input of a depthwise convolution is quantized: lines at the
/// borders of parts are dequantized twice.
pub(crate) const DEPTHWISE_QUANTIZED_PARTS: usize = 2;

/// Elements read by a pool that are worth a second thread.
pub(crate) const POOL_GRAIN: usize = 1 << 15;

/// Products of a binary convolution that are worth a second thread.
pub(crate) const BINARY_GRAIN: usize = 1 << 12;

/// Elements of a deformable convolution that are worth a second thread.
pub(crate) const DEFORMABLE_GRAIN: usize = 1 << 10;

/// Multiply-adds of a naive convolution that are worth a second thread.
pub(crate) const NAIVE_GRAIN: usize = 1 << 14;

/// Elements of the patches of a transposed convolution that are computed at once: 64 KB, which stay
/// in L2 until they are written.
pub(crate) const PATCHES_AT_ONCE: usize = 1 << 14;

/// Elements of a transposed convolution that are worth a second thread.
pub(crate) const TRANSPOSED_GRAIN: usize = 1 << 14;
