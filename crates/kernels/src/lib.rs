//! Kernels: slices and strides in, slices out. No graph, no element-type tag, no node name.
//!
//! Every kernel is written once, in plain Rust over fixed groups of lanes, and compiled for each
//! instruction set ([`isa`]). The operations and their order are the same in each, including fused
//! multiply-add, so the bits are too. Work is divided over output elements ([`par`]). Sums over
//! many rows are divided into blocks that depend on the sizes alone.

// An iterator that is not inlined is not compiled for the instruction set of its caller.
#![allow(clippy::needless_range_loop)]

mod base;
pub use base::aligned_buf::{
    AlignedBuf, Allocation, WeightArena, prefer_large_heap, set_mmap_threshold,
};
pub use base::scratch::{InOut, Scratch, ScratchPool};
pub use base::workers::{Packer, Workers};
pub use base::{isa, num, par, slices};

mod math;
pub use math::{
    arithmetic, binary, broadcast, classify, convert, fake_quantize, inverse, quantize,
    quantize_lines, range, real, select, sub_byte, unary,
};

mod movement;
pub use movement::{
    copy, gather, gather_tree, indices, one_hot, pad, reverse, roll, runs, scatter,
    scatter_elements, scatter_indices,
};

mod search;
pub use search::{nonzero, order, search_sorted, topk, unique};

pub mod reduce;

pub mod gemm;

mod nn;
pub use nn::norm::{group_norm, layer_norm, lrn};
pub use nn::{attention, col2im, ctc, interpolate, pool, recurrent, rope, softmax};

pub mod conv;

pub mod quantized;

mod vision;
pub use vision::{color, detection, grid_sample, roi};

mod signal;
pub use signal::{fft, stft};

pub mod random;
