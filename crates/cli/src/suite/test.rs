//! What can be run and compared: a case folder, or a model of a suite file.

use super::schedule::Runner;
use anyhow::Result;
use runtime::Tensor;

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
    fn compare(&self, runner: &Runner<'_>) -> Result<Vec<Tensor>>;

    /// The digests of the outputs, or of all layers.
    ///
    /// # Errors
    /// What went wrong.
    fn digests(&self, runner: &Runner<'_>, of_layers: bool) -> Result<Vec<String>>;

    /// Writes goldens that are missing or differ anew. Returns what has changed.
    ///
    /// # Errors
    /// What went wrong, or when a golden cannot be written.
    fn update(&self, runner: &Runner<'_>) -> Result<Vec<String>>;
}
