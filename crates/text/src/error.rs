use std::path::PathBuf;

/// Why no text could be generated.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A model of the directory is missing or invalid.
    #[error(transparent)]
    Model(ir::Diagnostics),
    /// A run failed.
    #[error(transparent)]
    Run(ir::Diagnostics),
    /// A settings file cannot be read.
    #[error("{}: {message}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// A model lacks an input or output that generation needs, or has an unknown input.
    #[error("{}: {message}", .path.display())]
    Unsuitable {
        /// The model.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// There is no chat template, or it failed.
    #[error("chat template: {0}")]
    Template(String),
    /// The prompt has no tokens.
    #[error("the prompt has no tokens; give at least one word")]
    EmptyPrompt,
}

impl Error {
    pub(crate) fn unsuitable(path: impl Into<PathBuf>, message: impl Into<String>) -> Error {
        Error::Unsuitable { path: path.into(), message: message.into() }
    }
}
