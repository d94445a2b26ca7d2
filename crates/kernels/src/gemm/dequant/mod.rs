//! A matrix B that is stored in fewer bits than f32 has.

pub(crate) mod kernel;
pub(crate) mod pack;
