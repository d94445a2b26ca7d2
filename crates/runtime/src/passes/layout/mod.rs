//! Layout passes: channels last, movement fusion, concat elimination, activation hoisting.

pub(crate) mod activation;
pub(crate) mod beams;
pub(crate) mod channel_order;
pub(crate) mod channels_last;
pub(crate) mod concat;
pub(crate) mod index_map;
pub(crate) mod movement;
mod nhwc;
pub(crate) mod padding;
mod strided;
