//! Rules that several operations share.

pub mod axes;
pub mod bodies;
pub(crate) mod boxes;
pub mod broadcast;
pub(crate) mod conversion;
pub(crate) mod detection;
pub(crate) mod gather;
pub mod interval;
pub(crate) mod reshape;
pub mod scatter;
pub(crate) mod sizes;
pub(crate) mod slicing;
pub(crate) mod strings;
pub mod window;
