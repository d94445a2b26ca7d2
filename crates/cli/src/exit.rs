//! Exit codes, carried by errors to `main`.

use crate::hint;
use anyhow::Error;
use ir::{Diagnostic, Diagnostics};
use std::fmt;

/// The exit codes of the command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// Nothing is wrong.
    Good,
    /// A comparison or check failed.
    Failed,
    /// The command line is not of its form.
    Usage,
    /// The model cannot be read, checked or compiled.
    Model,
    /// An input or output file is not what the model needs, or cannot be written.
    Input,
    /// The model failed while running.
    Running,
}

impl Exit {
    /// The number that the process ends with.
    pub fn code(self) -> u8 {
        match self {
            Exit::Good => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Model => 3,
            Exit::Input => 4,
            Exit::Running => 5,
        }
    }
}

/// An error with the exit code that it leads to.
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// What is wrong.
    pub error: Error,
}

/// Each problem of a model on a line of its own, as an error or a warning; other errors with what
/// led to them.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(problems) = self.error.downcast_ref::<Diagnostics>() else {
            return write!(f, "error: {:#}", self.error);
        };
        let line = |p: &Diagnostic| format!("{}: {}", p.severity, p.render(problems.source_file()));
        f.write_str(&problems.list().iter().map(line).collect::<Vec<_>>().join("\n"))?;
        f.write_str(&hint::model(problems))
    }
}

/// Says which exit code an error leads to.
pub trait OrExit<T> {
    /// Attaches the exit code.
    ///
    /// # Errors
    /// The error itself, with the code.
    fn or_exit(self, exit: Exit) -> Result<T, Failure>;
}

impl<T, E: Into<Error>> OrExit<T> for Result<T, E> {
    fn or_exit(self, exit: Exit) -> Result<T, Failure> {
        self.map_err(|error| Failure { exit, error: error.into() })
    }
}
