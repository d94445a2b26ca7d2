//! Neural network layers other than convolutions.

pub mod attention;
pub mod col2im;
pub mod ctc;
pub mod interpolate;
pub(crate) mod norm;
pub mod pool;
pub mod recurrent;
pub mod rope;
pub mod softmax;
