//! GEMM in f32; operands may be converted to bf16 first ([`Precision`]).
//!
//! Every element of the result is a sum of chains of fused multiply-adds along k, one for each
//! block of k (`k_blocks.rs`), whatever the instruction set, the tiling, the number of rows or of
//! threads. Rows and columns are computed independently.

mod activation;
#[cfg(target_arch = "x86_64")]
pub(crate) mod amx;
mod block_diagonal;
mod dequant;
mod driver;
mod dynamic;
mod element_wise;
mod gemv;
mod grouped;
mod im2col;
mod k_blocks;
mod lhs_rows;
mod microkernel;
mod naive;
mod output;
mod pack;
mod post_ops;
mod precision;
mod prefetch;
mod problem;
mod run;
mod small_m;
mod source;
mod tiling;
mod tuning;

pub(crate) use activation::Activation;
pub(crate) use block_diagonal::BlockDiagonal;
pub use dequant::format::{Compressed, GroupParams, WeightFormat};
pub use dequant::pack::CompressedPanels;
pub use dynamic::pack::DynamicPanels;
pub use element_wise::{
    BLOCK, ConcatOperand, Elements, Fill, concat_rows, map_planes, map_rows, map_rows_to,
    quantize_concat,
};
pub use grouped::{GroupedGemm, can_group, run_grouped};
pub(crate) use im2col::PaddedLine;
pub use im2col::{Im2col, InputStrides, Window};
pub(crate) use k_blocks::{KBlocks, LONGEST_BLOCK, end_block};
pub(crate) use microkernel::args::rows_per_block;
pub(crate) use microkernel::generic::store;
pub use naive::{GemmSize, plain};
pub use output::Target;
pub(crate) use output::{Out, pairs};
pub use pack::b::{Layout, Packed, RhsSize, pack_into, panels_len};
pub(crate) use pack::bf16::{bf16_bits, convert_to_bf16};
pub use post_ops::{Bind, Operand, PostOp, PostOpOf, Strided, apply_post_ops, are_absorbed};
pub(crate) use post_ops::{BlockPostOps, RegisterPostOps, add, add_number, apply_to_rows, finish};
pub use precision::Precision;
pub use problem::{Gemm, Lhs, Rhs};
pub use run::run_many;
pub use tuning::{MEMORY_BOUND_ROWS, SMALL_M_ROWS};

#[cfg(test)]
mod tests;
