//! Convolutions. In f32, data are NHWC and a convolution is a GEMM of its windows and filters
//! ([`Convolution`]); a transposed convolution is several of them ([`Transposed`]). Other types are
//! computed by the definition ([`plain()`]).

mod binary;
mod deformable;
pub(crate) mod depthwise;
mod direct;
mod dispatch;
mod memory;
mod naive;
mod patches;
mod pool;
mod problem;
mod skipping;
mod small_ic;
pub(crate) mod small_oc;
mod transposed;
pub(crate) mod tuning;
pub(crate) mod winograd;

pub use binary::binary;
pub use deformable::{Deformable, Places};
pub use depthwise::DepthwiseInput;
pub use naive::{Definition, Direction, plain};
pub use pool::ChannelsPool;
pub use problem::{Convolution, Filters, Input};
pub use transposed::Transposed;

#[cfg(test)]
mod tests;
