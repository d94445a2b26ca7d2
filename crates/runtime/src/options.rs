//! How a plan is made.

use crate::limits::Limits;
use kernels::gemm::Precision;
use rayon::ThreadPool;
use std::sync::Arc;

/// How a plan is made.
#[derive(Clone, Debug)]
pub struct Options {
    /// Fold, fuse and lay out anew. Off, the graph runs as it is written.
    pub optimize: bool,
    /// What the operands of products and convolutions are rounded to.
    pub precision: Precision,
    /// How rows are multiplied by weights that are stored in 8 or 4 bits.
    pub activations: Activations,
    /// Nothing is kept for a second run: weights in a mapped file leave memory after the last step
    /// that reads them. More runs give the same results, and take longer.
    pub runs_once: bool,
    /// The threads that sessions run on. Without it each session has its own, one for each
    /// processor.
    pub pool: Option<Arc<ThreadPool>>,
    /// What ends a run before its outputs are there.
    pub limits: Limits,
}

/// What rows are rounded to before they are multiplied by weights that are stored in 8 or 4 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activations {
    /// Nothing: the weights are dequantized.
    #[default]
    F32,
    /// Integers of 8 bits, by groups of 32 terms (dynamic quantization), as OpenVINO does by
    /// default. Only where groups of the weights are multiples of it; only optimised plans do so.
    /// The file `kernels/src/gemm/dynamic/mod.rs` states the error.
    Int8,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            optimize: true,
            precision: Precision::F32,
            activations: Activations::F32,
            runs_once: false,
            pool: None,
            limits: Limits::default(),
        }
    }
}

impl Options {
    /// Runs sessions on the threads of a pool, which a program shares among all that it does.
    pub fn pool(self, pool: Arc<ThreadPool>) -> Options {
        Options { pool: Some(pool), ..self }
    }
}
