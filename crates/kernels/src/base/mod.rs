//! What all kernels use: element types, memory, threads, instruction sets.

pub(crate) mod affinity;
pub(crate) mod aligned_buf;
#[cfg(target_arch = "x86_64")]
pub(crate) mod amx;
mod crowd;
pub mod isa;
pub mod num;
pub mod par;
pub(crate) mod scratch;
pub(crate) mod simd;
pub mod slices;
pub(crate) mod strides;
mod team;
pub(crate) mod workers;
