//! What every kernel stands on: element types, memory, threads, instruction sets.

pub mod affinity;
pub mod aligned_buf;
#[cfg(target_arch = "x86_64")]
pub(crate) mod amx;
mod crowd;
pub mod isa;
pub mod num;
pub mod par;
pub mod scratch;
pub mod simd;
pub mod slices;
pub mod strides;
mod team;
