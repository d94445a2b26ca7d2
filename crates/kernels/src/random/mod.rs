//! Random numbers: the same as OpenVINO's for the same seeds.

pub mod mt19937;
pub mod multinomial;
pub mod uniform;
