use std::path::PathBuf;

/// Why there is no text.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A model of the directory is missing or wrong.
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
    /// A model lacks what generation needs, or needs what generation lacks.
    #[error("{}: {message}", .path.display())]
    Unsuitable {
        /// The model.
        path: PathBuf,
        /// What is missing.
        message: String,
    },
    /// There is no chat template, or it fails.
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
