//! Rules that several operations share.

pub mod axes;
pub mod bodies;
pub mod boxes;
pub mod broadcast;
pub mod conversion;
pub mod detection;
pub mod gather;
pub mod interval;
pub mod reshape;
pub mod scatter;
pub mod sizes;
pub mod slicing;
pub mod strings;
pub mod window;
