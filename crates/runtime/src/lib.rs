//! Compiles an OpenVINO IR graph to a plan and runs it.
//!
//! ```no_run
//! # use irrun_runtime as runtime;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let inputs = infer::Inputs::default();
//! # let tensors: Vec<runtime::Tensor> = vec![];
//! let graph = ir::read("model.xml")?;              // XML + mapped weights  -> Graph
//! let facts = infer::propagate(&graph, &inputs)?;  // type, shape, value of every port
//! let plan  = runtime::compile(&graph, &facts)?;   // kernels chosen, memory placed
//! let out   = plan.session().run(&tensors)?;       // outputs
//! # Ok(()) }
//! ```
//!
//! A [`Plan`] is immutable; variables, buffers and threads live in a [`Session`].

#![deny(unsafe_code)]

mod error;
mod fused;
mod graph;
mod kernel;
mod limits;
mod memory;
mod ops;
mod options;
mod passes;
mod plan;
mod session;
mod tensor;

pub use error::KernelError;
/// Types, shapes and small values: what a plan is compiled from.
pub use infer;
/// The graph of a file.
pub use ir;
pub use kernel::lower::{Lower, LowerCx, LowerError, register};
pub use kernel::{Copy, Kernel, KernelMemory, Movement, Reuse, RunCx, View};
pub use kernels::gemm::Precision;
pub use kernels::isa::asked_for as instruction_set_asked_for;
pub use kernels::par::Threads;
pub use kernels::{prefer_large_heap, set_mmap_threshold};
pub use limits::{CancellationToken, Limits, Progress};
pub use memory::observe::{Observed, Observer, Origin, RunningBody};
pub use memory::profile::{StepSpan, StepTime};
pub use options::{Activations, Options};
pub use plan::describe::{PlanMemory, PlanSource, PlanStep, PlanValue};
pub use plan::{Plan, compile, compile_sharing, compile_with};
pub use rayon;
pub use session::Session;
pub use tensor::convert::{convert_tensor as convert, pack_bytes as pack, unpack_bytes as unpack};
pub use tensor::memory_limit::{memory_left, memory_refusals, set_memory_limit};
pub use tensor::{Element, Sizes, Tensor, TensorError, packed_len};

/// Compiles the program in the README as a doctest.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// What every file of `ops` needs.
mod prelude {
    #![allow(unused_imports)]
    pub(crate) use crate::error::KernelError;
    pub(crate) use crate::kernel::lower::{Lower, LowerCx, LowerError};
    pub(crate) use crate::kernel::{Kernel, KernelMemory, Movement, Reuse, RunCx, View};
    pub(crate) use crate::tensor::{Sizes, Tensor};
    pub(crate) use infer::RuleError;
    pub(crate) use ir::ElementType;
}
