//! Dynamic quantization: integer GEMM with weights of 8 or 4 bits. Each row of A is quantized to 8
//! bits, by groups of [`rows::GROUP`] elements along k, when it is multiplied. OpenVINO does so by
//! default.
//!
//! A group of `x` is `q · s` with `s = max |x| / 127` and `q = x / s`, to nearest, ties to even. So
//! the error of each element is at most `max |x| / 254`. Sums of a group are integers and exact;
//! they are added in f32 in the same order on every instruction set. A row with a NaN or an
//! infinity gives NaN.

mod dot;
pub(crate) mod driver;
mod kernel;
pub(crate) mod pack;
mod rows;
