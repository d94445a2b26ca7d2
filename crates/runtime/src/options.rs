//! Options of compilation.

use crate::limits::Limits;
use kernels::gemm::Precision;
use rayon::ThreadPool;
use std::sync::Arc;

/// Options of compilation.
#[derive(Clone, Debug)]
pub struct Options {
    /// Run the optimising passes. If off, the graph runs as it is written.
    pub optimize: bool,
    /// The precision of the operands of GEMMs and convolutions.
    pub precision: Precision,
    /// The type of A in MatMuls with weights of 8 or 4 bits.
    pub activations: Activations,
    /// Keep nothing for a second run. The memory of mapped weights is released after the last step
    /// that reads them. Further runs give the same results but are slower.
    pub runs_once: bool,
    /// The thread pool of sessions. Without it each session has its own, with one thread per
    /// processor.
    pub pool: Option<Arc<ThreadPool>>,
    /// Limits of each run.
    pub limits: Limits,
}

/// The type of A in MatMuls with weights of 8 or 4 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activations {
    /// f32: the weights are dequantized.
    #[default]
    F32,
    /// Quantized to 8 bits at run time, in groups of 32 along k (dynamic quantization), as OpenVINO
    /// does by default. Only in optimised plans, and only if groups of the weights are a multiple
    /// of 32. The file `kernels/src/gemm/dynamic/mod.rs` states the error.
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
    /// Runs sessions on a thread pool, which the program can share with other work.
    pub fn pool(self, pool: Arc<ThreadPool>) -> Options {
        Options { pool: Some(pool), ..self }
    }
}
