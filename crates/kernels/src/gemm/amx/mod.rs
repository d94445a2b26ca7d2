//! GEMM of bf16 or 8-bit operands by AMX.

pub(crate) mod config;
pub(crate) mod driver;
pub(crate) mod kernel;
mod pack_a;
pub(crate) mod windows;
