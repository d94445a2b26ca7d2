//! The lattice: what can be known before a run, as intervals, shapes, small values and symbols.

pub(crate) mod dim;
pub(crate) mod shape;
pub(crate) mod symbols;
pub(crate) mod value;
