//! Normalisation: elements minus their mean, divided by a measure of their size.

pub mod group_norm;
pub mod layer_norm;
mod long_rows;
pub mod lrn;
mod normalization;
