//! What can be run and compared: a case folder, or a model of a suite file.

use anyhow::Result;
use runtime::{Options, Tensor, Threads};
use std::sync::Arc;

/// What `irrun test` does with an item.
pub trait Test {
    /// Whether the model has an operation that irrun does not know.
    ///
    /// # Errors
    /// When the model cannot be read.
    fn is_unsupported(&self) -> Result<bool>;

    /// Compares the outputs with the goldens. Returns the outputs of all steps.
    ///
    /// # Errors
    /// What went wrong or differs.
    fn compare(&self, options: &Options, threads: &Arc<Threads>) -> Result<Vec<Tensor>>;

    /// The digests of the outputs, or of all layers.
    ///
    /// # Errors
    /// What went wrong.
    fn digests(
        &self,
        options: &Options,
        threads: &Arc<Threads>,
        of_layers: bool,
    ) -> Result<Vec<String>>;

    /// Writes goldens that are missing or differ anew. Returns what has changed.
    ///
    /// # Errors
    /// What went wrong, or when a golden cannot be written.
    fn update(&self, options: &Options, threads: &Arc<Threads>) -> Result<Vec<String>>;
}
