//! Quantized convolutions and GEMM: u8 activations × i8 weights → i32, requantized once.
//!
//! Sums are exact, so their order does not matter. Each is rounded to f32, and once more when it is
//! multiplied by the scale of its channel.

mod affine;
mod concat;
mod convolution;
mod depthwise;
#[cfg(target_arch = "x86_64")]
mod epilogue;
mod expanded;
mod fused_post_op;
mod grid;
mod input;
mod kernel;
mod lane_op;
mod merged_groups;
mod output;
mod pack;
mod params;
mod requantize;
mod residual;
mod small_oc;
mod tile;
mod tuning;
mod winograd;

pub use concat::ConcatConvolution;
pub use convolution::{Operands, QuantizedConvolution};
pub use expanded::{ExpandedDepthwise, Stage};
pub use input::Data;
pub use lane_op::stays_in_registers;
pub use pack::PackedFilters;
pub use params::QuantParams;

#[cfg(test)]
mod tests;
