//! Element-wise functions, and the arithmetic that they are written in.

pub mod arithmetic;
pub mod binary;
pub mod broadcast;
pub mod classify;
pub mod convert;
pub(crate) mod exponential;
pub mod fake_quantize;
pub mod inverse;
pub mod quantize;
pub mod quantize_lines;
pub mod range;
pub mod real;
pub(crate) mod rsqrt;
pub mod select;
pub mod sub_byte;
pub(crate) mod trigonometric;
pub mod unary;
