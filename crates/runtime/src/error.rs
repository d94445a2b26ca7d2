//! What goes wrong while a plan runs.

use ir::{ByteOffset, Code, Diagnostic};

/// Why a step failed on its data.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct KernelError {
    /// The input it concerns.
    pub input: Option<usize>,
    /// What is wrong, with the numbers.
    pub message: String,
}

impl KernelError {
    /// An error about the step as a whole.
    pub fn new(message: impl Into<String>) -> KernelError {
        KernelError { input: None, message: message.into() }
    }

    /// An error about one input.
    pub fn at(input: usize, message: impl Into<String>) -> KernelError {
        KernelError { input: Some(input), message: message.into() }
    }
}

/// An error of a run that belongs to no layer.
pub(crate) fn run_error(message: impl Into<String>) -> Diagnostic {
    Diagnostic::error(Code::Execution, ByteOffset(0), message)
}
