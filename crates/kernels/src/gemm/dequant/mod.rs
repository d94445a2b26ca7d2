//! A matrix B that is stored in fewer bits than f32 has.

pub(crate) mod driver;
pub(crate) mod format;
mod kernel;
pub(crate) mod pack;
