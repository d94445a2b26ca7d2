//! Products of operands in bf16, or in bytes, by AMX.

#[cfg(all(test, target_os = "linux"))]
mod emulator;
pub(crate) mod kernel;
mod pack_a;
pub(crate) mod windows;
