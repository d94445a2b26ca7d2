//! Object detection: prior boxes, decoding, and non-maximum suppression. All of it in f32.

pub mod boxes;
pub mod classes;
mod columns;
pub mod decoded;
pub mod greedy;
pub mod priors;
pub mod pyramid;
pub mod rotated;
pub mod suppression;
pub mod yolo;
