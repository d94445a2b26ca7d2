//! Kernels: slices and strides in, slices out. No graph, no element-type tag, no node name.
//!
//! Every kernel is written once, in plain Rust over fixed groups of lanes, and compiled for each
//! instruction set ([`isa`]). The operations and their order are the same in each of them, fused
//! multiply-add included, so the bits are too. Work is divided over output elements ([`par`]); a
//! sum is never divided among threads.

pub mod arithmetic;
pub mod attention;
pub mod binary;
pub mod broadcast;
pub mod conv;
pub mod convert;
pub mod copy;
pub mod ctc;
pub mod gather;
pub mod gemm;
pub mod isa;
mod memory;
pub mod normalize;
pub mod num;
pub mod pack;
pub mod par;
pub mod real;
pub mod recurrent;
pub mod reduce;
pub mod roll;
pub mod select;
pub mod simd;
pub mod slices;
pub mod softmax;
pub mod unary;

pub use memory::{InOut, Lines, Scratch, ScratchPool};
