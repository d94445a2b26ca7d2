//! Dynamic quantization: products by weights of 8 or 4 bits in integers. Each row of A is quantized
//! to 8 bits by groups of [`rows::GROUP`] terms when it is multiplied, as OpenVINO does by default.
//!
//! A group of `x` is `q · s` with `s = max |x| / 127` and `q = x / s` to the nearest, ties to even,
//! so that each term is wrong by at most `max |x| / 254`. Sums of a group are integers and exact;
//! they are joined in f32 in the same order on every instruction set. A row with a NaN or an
//! infinity gives NaN.

mod dot;
pub(crate) mod driver;
mod kernel;
pub(crate) mod pack;
mod rows;
