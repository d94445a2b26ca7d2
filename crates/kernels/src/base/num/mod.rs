//! Element types as Rust types, and their conversions.
//!
//! f16 and bf16 are stored as such and computed in f32. Conversions round to nearest, ties to even.

mod float16;
mod pod;
mod small_float;
mod stored;

pub use float16::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
pub use half::{bf16, f16};
pub use pod::{Pod, UnalignedF32, bytes, bytes_mut};
pub use small_float::{F4E2M1, F8E4M3, F8E5M2, F8E8M0, Nf4};
pub use stored::{Bits, Bool, I4, Stored, Wide};

#[cfg(test)]
mod tests;
