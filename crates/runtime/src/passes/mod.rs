//! What is done to a net before it becomes a plan, in this order. None changes what a model
//! computes but for the rounding that `docs/numerics.md` allows, and that is said here.
//!
//! A pass sees operations as values (`node.is::<MatMul>()`), never as strings, and puts nodes of
//! `crate::fused` in their place.

mod cleanup;
mod context;
mod fusion;
mod layout;
mod quantization;

use crate::graph::net::Net;
use crate::memory::resources::Resources;
use crate::options::Options;
use context::PassCx;
use infer::Facts;
use ir::Graph;
use kernels::par::Threads;
use std::sync::Arc;

/// A pass: it returns how many nodes it has taken out or rewritten.
type Pass = fn(&mut Net, &PassCx<'_>) -> usize;

/// What every plan needs, optimised or not: where OpenVINO computes something else than the words
/// of the specification, and models depend on it.
const MEANING: &[(&str, Pass)] = &[
    // Weights that are scaled in f16 and then converted to f32 are scaled in f32.
    // f16 beside f32, where an operation takes that, is f32.
    ("mixed types", quantization::f16::mixed),
    ("f32 decompression", quantization::decompress::widen),
    // Rows that a boolean mask hides as a whole are the mean of what a cache holds.
    ("masked rows of stateful attention", fusion::attention::cached),
    ("dead code elimination", cleanup::dce::dead_code),
];

/// In the order in which they run.
const PASSES: &[(&str, Pass)] = &[
    // Graphs of f16 are computed in f32; inputs, outputs and variables stay f16. One rounding in
    // place of one for each operation.
    ("f16 promotion", quantization::f16::widen),
    // An Einsum of two operands becomes movements and one MatMul, unless an operand is a diagonal,
    // or is summed or repeated by itself.
    ("einsum to matmul", fusion::einsum::to_matmul),
    // Which values have the quantization of a FakeQuantize, and which are integers times scales.
    ("quantization analysis", quantization::lowering::notice),
    // What depends on no input, within a budget of bytes; weights stay compressed.
    ("constant folding", cleanup::fold::fold),
    // Of a table of f16 or int8, only the rows that a Gather takes are decompressed.
    ("compressed gather", quantization::compressed_gather::rows),
    // Multiplication by 1, Convert and movements to the same type and shape.
    ("no-op elimination", cleanup::nop::nop_elimination),
    // Equal operations on equal inputs.
    ("common subexpression elimination", cleanup::cse::common_subexpressions),
    // 0.5 · x · (1 + erf(x / √2)), five nodes in any order. The rounding differs.
    ("Gelu fusion", fusion::gelu::gelu),
    ("dead code elimination", cleanup::dce::dead_code),
    // Pooling is several times as fast without the output of indices.
    ("unread indices", cleanup::dce::unread_indices),
    // ReadValue, Gather of the beams, Concat, Assign, the repetition of heads and attention become
    // one step, which appends the new rows to the variable in place.
    ("stateful attention (KV cache) fusion", fusion::kv_cache::caches),
    ("dead code elimination", cleanup::dce::dead_code),
    // Regions around convolutions keep channels as the last axis. Transposes only at region
    // boundaries. The first layer reads NCHW; a final upsample runs after the transpose back. The
    // rounding of reductions over channels differs.
    ("channels last", layout::channels_last::layout),
    // Convolutions and MatMuls of quantized operands are computed in integers.
    ("quantized lowering", quantization::lowering::multiply),
    // MatMul, scale, masks, Softmax, MatMul: the scores are never held at once. The rounding
    // differs where the query was scaled.
    ("attention fusion", fusion::attention::attention),
    // x · 1 / sqrt(mean(x²) + ε) over the last axis, up to seven nodes. The rounding differs where
    // the root is a power.
    ("RMSNorm fusion", fusion::rms_norm::rms),
    // x · s + (β - mean · s), s = γ / sqrt(variance + ε), as TensorFlow and Keras write it. The
    // rounding differs.
    ("LayerNorm fusion", fusion::layer_norm::layer_norm),
    // x · cos + concat(-upper half, lower half) · sin, up to seven nodes.
    ("RoPE fusion", fusion::rope::rotary),
    ("dead code elimination", cleanup::dce::dead_code),
    // A 1×1 convolution reads the operands of a Concat of as many channels each where they are.
    ("concat elimination", layout::concat::eliminate),
    // A chain of Roll, Reshape, Transpose, Slice … is one index map, which MatMul and attention
    // read and write through; what is left is one copy.
    ("movement fusion", layout::movement::compose),
    // Bias, activation, scale and residual are applied to blocks of MatMuls and convolutions while
    // they are in L1.
    ("post-op fusion", fusion::post_ops::epilogue),
    // A FakeQuantize in front of one quantized convolution runs while that reads.
    ("quantize on read", quantization::propagation::round),
    ("dead code elimination", cleanup::dce::dead_code),
    // Quantized values stay bytes between operations that take quantized values.
    ("quantized propagation", quantization::propagation::keep),
    // The next convolution multiplies channels by their gates while it reads them.
    ("squeeze-excitation gate fusion", fusion::se_gate::gate),
    // A depthwise convolution gives the means of its channels. The rounding differs.
    ("global pooling fusion", fusion::global_pool::means),
    // With `--precision bf16`, what convolutions alone read, also through MaxPool, is stored as
    // bf16.
    ("bf16 propagation", quantization::bf16::round),
    // MatMul reads weights of f16, 8 or 4 bits with their scales and zero points, and dequantizes
    // them while it multiplies.
    ("compressed weights", quantization::compressed_weights::weights),
    // With `--activations int8`, MatMul quantizes rows of A by groups of 32 terms, and multiplies
    // weights of 8 and 4 bits as integers.
    ("dynamic quantization", quantization::compressed_weights::dynamic),
    ("dead code elimination", cleanup::dce::dead_code),
    // What else is computed from compressed weights is kept in f32 from the first run that needs
    // it; not in a plan for a single run.
    ("decompression once", quantization::decompress::once),
    ("dead code elimination", cleanup::dce::dead_code),
    // MatMuls of up to three rows by several matrices, as queries, keys and values of a token.
    ("horizontal GEMM fusion", fusion::horizontal_gemm::fuse_gemms),
    // A Gather of the beams of a variable hands the tensor over where they are in order.
    ("beam reordering elimination", layout::beams::beams),
];

/// Runs the passes that every plan needs, and all others if they are wanted. Returns what each has
/// done, for `--explain`.
pub(crate) fn rewrite(
    net: &mut Net,
    (graph, facts): (&Graph, &Facts),
    options: &Options,
) -> Vec<(&'static str, usize)> {
    let resources = Resources::new(options.clone(), Arc::new(Threads::new(1)), Arc::default());
    let resources = Resources { extensions: facts.extensions().clone(), ..resources };
    let cx = PassCx { graph, variables: facts.variables(), resources };
    let wanted = if options.optimize { PASSES } else { &[] };
    MEANING.iter().chain(wanted).map(|(name, pass)| (*name, pass(net, &cx))).collect()
}
