//! Products of operands in bf16, or in bytes, by AMX.

pub(crate) mod config;
pub(crate) mod driver;
pub(crate) mod kernel;
mod pack_a;
pub(crate) mod windows;
