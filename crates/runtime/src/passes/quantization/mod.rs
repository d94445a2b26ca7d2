//! Quantized, compressed and low-precision data.

pub(crate) mod bf16;
pub(crate) mod compressed_gather;
pub(crate) mod compressed_weights;
mod concat;
pub(crate) mod decompress;
mod depthwise;
pub(crate) mod f16;
pub(crate) mod integers;
pub(crate) mod lowering;
pub(crate) mod propagation;
pub(crate) mod repeated;
pub(crate) mod requantization;
