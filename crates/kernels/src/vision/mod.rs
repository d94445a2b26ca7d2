//! Images: colours, sampling, pooling of regions, detection of objects.

pub mod color;
pub mod detection;
pub mod grid_sample;
pub mod roi;
