//! Normalisations: elements less their mean, over a measure of their size.

pub mod group_norm;
pub mod layer_norm;
pub mod lrn;
