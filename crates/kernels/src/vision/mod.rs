//! Vision: colour conversion, sampling, pooling of regions, object detection.

pub mod color;
pub mod detection;
pub mod grid_sample;
pub mod roi;
