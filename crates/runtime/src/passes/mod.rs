//! The passes, in the order in which they run. A pass rewrites the net before it becomes a plan.
//! None changes what a model computes, except for the rounding that `docs/numerics.md` allows; each
//! such pass says so below.
//!
//! A pass matches operations by type (`node.is::<MatMul>()`), never by name, and replaces them with
//! nodes of `crate::fused`.

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

/// A pass. Returns how many nodes it removed or rewrote.
type Pass = fn(&mut Net, &PassCx<'_>) -> usize;

/// Run for every plan, optimised or not. OpenVINO deviates from the specification here, and models
/// depend on it.
const MEANING: &[(&str, Pass)] = &[
    // Weights that are scaled in f16 and then converted to f32 are scaled in f32. An operation with
    // both f16 and f32 inputs is computed in f32.
    ("mixed types", quantization::f16::mixed),
    ("f32 decompression", quantization::decompress::widen),
    // In attention over a KV cache, rows that a boolean mask hides completely are the mean of the
    // values.
    ("masked rows of stateful attention", fusion::attention::cached),
    ("dead code elimination", cleanup::dce::dead_code),
];

/// In the order in which they run.
const PASSES: &[(&str, Pass)] = &[
    // Limits, scales and zero points that are stored in f16.
    ("decompression of vectors", quantization::decompress::vectors),
    // f16 graphs are computed in f32; inputs, outputs and variables stay f16. Results are rounded
    // once, not after each operation.
    ("f16 promotion", quantization::f16::widen),
    // An Einsum of two operands becomes movements and one MatMul, unless an operand has a repeated
    // label (a diagonal), or is summed or broadcast by itself.
    ("einsum to matmul", fusion::einsum::to_matmul),
    // Finds values quantized by a FakeQuantize, and weights that are integers times scales.
    ("quantization analysis", quantization::lowering::notice),
    // What depends on no input is computed, within a budget of bytes; weights stay compressed, or
    // integers times scales.
    ("constant folding", cleanup::fold::fold_others),
    // A FakeQuantize of what one with the same limits has made.
    ("repeated quantization", quantization::repeated::eliminate),
    // A Split of what was concatenated, and a Concat of what was split.
    ("split elimination", cleanup::split::eliminate),
    // Of an f16 or int8 table, only the rows that a Gather takes are decompressed.
    ("compressed gather", quantization::compressed_gather::rows),
    // Multiplication by 1; Convert and movements that keep type and shape.
    ("no-op elimination", cleanup::nop::nop_elimination),
    // Equal operations on equal inputs.
    ("common subexpression elimination", cleanup::cse::common_subexpressions),
    // 0.5 · x · (1 + erf(x / √2)), five nodes in any order. The rounding differs.
    ("Gelu fusion", fusion::gelu::gelu),
    ("dead code elimination", cleanup::dce::dead_code),
    // Max pooling is several times faster without its output of indices.
    ("unread indices", cleanup::dce::unread_indices),
    // ReadValue, Gather of the beams, Concat, Assign, repetition of heads, and attention become one
    // step that appends the new rows to the variable in place.
    ("stateful attention (KV cache) fusion", fusion::kv_cache::caches),
    ("dead code elimination", cleanup::dce::dead_code),
    // Regions around convolutions compute in NHWC. Transposes only at region boundaries. The first
    // layer reads NCHW; a final upsample runs after the transpose back. The rounding of reductions
    // over channels differs.
    ("channels last", layout::channels_last::layout),
    // Convolutions and MatMuls of quantized operands run in integers.
    ("quantized lowering", quantization::lowering::multiply),
    ("dead code elimination", cleanup::dce::dead_code),
    // What is not multiplied in integers needs its values.
    ("constant folding", cleanup::fold::fold),
    // MatMul, scale, masks, Softmax, MatMul. The score matrix is never stored as a whole. The
    // rounding differs if the query is scaled, or the scores more than once.
    ("attention fusion", fusion::attention::attention),
    // x · 1 / sqrt(mean(x²) + ε) over the last axis, up to seven nodes. The rounding differs if the
    // root is written as Power.
    ("RMSNorm fusion", fusion::rms_norm::rms),
    // x · s + (β - mean · s), s = γ / sqrt(variance + ε), as TensorFlow and Keras write it. The
    // rounding differs.
    ("LayerNorm fusion", fusion::layer_norm::layer_norm),
    // x · cos + concat(-upper half, lower half) · sin, up to seven nodes.
    ("RoPE fusion", fusion::rope::rotary),
    // x · min(max(x + 3, 0), 6) · c, up to four nodes. The rounding differs if 6 divides.
    ("HSwish fusion", fusion::hard_swish::hard_swish),
    ("dead code elimination", cleanup::dce::dead_code),
    // A 1×1 convolution reads the inputs of a Concat directly, if they have equally many channels.
    ("concat elimination", layout::concat::eliminate),
    // An activation or FakeQuantize behind movements of a convolution's or MatMul's results runs
    // before them, and a FakeQuantize behind an Interpolate that repeats elements before that. As a
    // post-op, a FakeQuantize rounds numbers halfway between two values to either.
    ("activation hoisting", layout::activation::hoist),
    // A chain of Roll, Reshape, Transpose, Slice … is one index map, which MatMul and attention
    // read and write through; what is left is one copy. Runs too short for a map are one strided
    // copy.
    ("movement fusion", layout::movement::compose),
    // A constant scale behind a convolution multiplies its filters, and shifts around it become one
    // bias. The rounding differs.
    ("scale and shift folding", fusion::scale_shift::fold),
    // Convolutions of the same data whose results are added become one, as do data that are scaled
    // and added. The rounding differs.
    ("re-parameterization", fusion::reparameterize::merge),
    // Bias, activation, scale and residual are applied to blocks of MatMuls and convolutions while
    // they are in L1.
    ("post-op fusion", fusion::post_ops::epilogue),
    // A FakeQuantize whose only reader is a quantized convolution runs while that reads. That of an
    // image absorbs scales and shifts of channels; the rounding then differs.
    ("quantize on read", fusion::quantize_on_read::quantize),
    ("dead code elimination", cleanup::dce::dead_code),
    // Values stay u8 between operations that take quantized values.
    ("quantized propagation", quantization::propagation::keep),
    // The scales of sums and the bias absorb the quantizer behind them, also past LeakyRelu and a
    // quantized residual. A number halfway between two values may round to either.
    ("requantization scale folding", quantization::requantization::fold),
    // A convolution before a pixel shuffle has its channels in the order that the shuffle writes.
    ("output channel reordering", layout::channel_order::reorder),
    // A depthwise convolution expands its quantized input line by line, by the 1×1 convolution
    // before it.
    ("inverted bottleneck fusion", fusion::expanded::expand),
    // The next convolution multiplies channels by their gates while it reads them.
    ("squeeze-excitation gate fusion", fusion::se_gate::gate),
    // A depthwise convolution also gives the mean of each channel. The rounding differs.
    ("global pooling fusion", fusion::global_pool::means),
    // With `--precision bf16`, a value that only convolutions read, also through MaxPool, is stored
    // as bf16.
    ("bf16 propagation", quantization::bf16::round),
    // MatMul reads weights of f16, 8 or 4 bits with their scales and zero points, and dequantizes
    // them on the fly.
    ("compressed weights", quantization::compressed_weights::weights),
    // With `--activations int8`, MatMul quantizes rows of A in groups of 32 along k, and multiplies
    // them with 8- and 4-bit weights in integers.
    ("dynamic quantization", quantization::compressed_weights::dynamic),
    ("dead code elimination", cleanup::dce::dead_code),
    // Other uses of compressed weights: the first run that needs them converts them to f32 and
    // keeps the result. Not in a plan for a single run.
    ("decompression once", quantization::decompress::once),
    ("dead code elimination", cleanup::dce::dead_code),
    // What is left of element-wise operations runs in chains, block by block, with a Convert that
    // begins one. In a chain, a FakeQuantize rounds numbers halfway between two values to either.
    ("element-wise fusion", fusion::element_wise::chains),
    // Element-wise operations before and behind a Concat run while it copies.
    ("concat fusion", fusion::concat::fuse),
    // A FakeQuantize whose result is stored as u8 runs while what is before it writes.
    ("quantize on write", fusion::quantize_on_write::quantize),
    // MatMuls of the same few rows with several matrices, such as query, key and value of a token.
    ("horizontal GEMM fusion", fusion::horizontal_gemm::fuse_gemms),
    // A Gather of the beams of a variable hands the tensor over if the beams are in order.
    ("beam reordering elimination", layout::beams::beams),
];

/// Runs the passes that every plan needs, and the others if `options.optimize`. Returns how many
/// nodes each has changed, for `--explain`.
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
