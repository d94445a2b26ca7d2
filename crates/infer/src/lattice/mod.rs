//! What can be known before a run: intervals, shapes, small values, and which dims are equal.

pub mod dim;
pub mod shape;
pub mod symbols;
pub mod value;
