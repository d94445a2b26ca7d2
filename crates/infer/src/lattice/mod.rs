//! What can be known before a run: intervals, shapes, small values, and which dims are equal.

pub(crate) mod dim;
pub(crate) mod shape;
pub(crate) mod symbols;
pub(crate) mod value;
