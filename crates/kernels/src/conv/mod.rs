//! Convolutions. In f32 the channels are the last axis, and a convolution is a product of its
//! windows and its filters ([`Convolution`]); a transposed one is several of them ([`Transposed`]).
//! Other types are computed as the definition says ([`plain()`]).

mod binary;
mod deformable;
mod depthwise;
mod direct;
mod dispatch;
mod memory;
mod naive;
mod pool;
mod problem;
mod skipping;
mod small_ic;
mod small_oc;
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
