//! Kernels: slices and strides in, slices out. No graph, no element-type tag, no node name.
//!
//! Every kernel is written once, in plain Rust over fixed groups of lanes, and compiled for each
//! instruction set ([`isa`]). The operations and their order are the same in each of them, fused
//! multiply-add included, so the bits are too. Work is divided over output elements ([`par`]), and
//! sums over many rows into blocks, which their sizes alone decide.

// What an iterator does not inline is not compiled for the instruction set of its caller.
#![allow(clippy::needless_range_loop)]

pub mod arithmetic;
pub mod attention;
pub mod binary;
pub mod broadcast;
pub mod col2im;
pub mod color;
pub mod conv;
pub mod convert;
pub mod copy;
pub mod ctc;
pub mod cum_sum;
pub mod detection;
pub mod fourier;
pub mod frames;
pub mod gather;
pub mod gather_tree;
pub mod gemm;
pub mod grid_sample;
pub mod indices;
pub mod integers;
pub mod inverse;
pub mod isa;
mod lines;
pub mod lrn;
pub mod mark;
mod memory;
pub mod multinomial;
pub mod nonzero;
pub mod normalize;
pub mod normalize_maps;
pub mod num;
pub mod order;
pub mod pack;
pub mod pad;
pub mod par;
pub mod places;
pub mod pool;
mod processor;
pub mod quantize;
pub mod random;
pub mod range;
pub mod real;
pub mod recurrent;
pub mod reduce;
pub mod resample;
pub mod reverse;
pub mod roi;
pub mod roll;
pub mod rotary;
pub mod runs;
pub mod scatter;
pub mod search;
pub mod segment;
pub mod select;
pub mod simd;
pub mod slices;
pub mod softmax;
pub mod topk;
pub mod twister;
pub mod unary;
pub mod unique;

pub use lines::{Lines, Memory, Shelf, prefer_large_heap};
pub use memory::{InOut, Scratch, ScratchPool};
