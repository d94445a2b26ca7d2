//! Passes that fuse several operations into one.

pub(crate) mod attention;
pub(crate) mod concat;
pub(crate) mod einsum;
pub(crate) mod element_wise;
pub(crate) mod expanded;
pub(crate) mod gelu;
pub(crate) mod global_pool;
pub(crate) mod hard_swish;
pub(crate) mod horizontal_gemm;
pub(crate) mod kv_cache;
pub(crate) mod kv_length;
pub(crate) mod layer_norm;
pub(crate) mod post_ops;
pub(crate) mod quantize_on_read;
pub(crate) mod quantize_on_write;
pub(crate) mod reparameterize;
pub(crate) mod rms_norm;
pub(crate) mod rope;
pub(crate) mod scale_shift;
pub(crate) mod se_gate;
