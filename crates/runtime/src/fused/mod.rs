//! Operations that only passes make: several operations fused into one, or operations on operands
//! in another layout.

pub(crate) mod attention;
pub(crate) mod concat;
pub(crate) mod convolution;
pub(crate) mod decompress;
pub(crate) mod element_wise;
pub(crate) mod expanded;
pub(crate) mod grouped_matmul;
pub(crate) mod hard_swish;
pub(crate) mod kv_attention;
pub(crate) mod matmul;
pub(crate) mod normalize;
pub(crate) mod pool;
pub(crate) mod quantize;
pub(crate) mod quantized;
pub(crate) mod rope;
pub(crate) mod through;
pub(crate) mod transpose;
