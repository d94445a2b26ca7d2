//! GEMM with a compressed B: 8-bit, 4-bit or f16 elements.

pub(crate) mod driver;
pub(crate) mod format;
mod kernel;
pub(crate) mod pack;
