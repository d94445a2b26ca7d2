//! Quantized convolutions and GEMM: u8 activations × i8 weights → i32, requantized once.
//!
//! Sums are exact, so their order does not matter. Each is rounded to f32, and once more when it is
//! multiplied by the scale of its channel.

mod convolution;
mod input;
mod kernel;
mod lane_op;
mod pack;
mod params;
mod requantize;
mod small_oc;
mod tile;
mod tuning;
mod winograd;

pub use convolution::{Operands, QuantizedConvolution};
pub use input::Data;
pub use pack::PackedFilters;
pub use params::QuantParams;

#[cfg(test)]
mod tests;
