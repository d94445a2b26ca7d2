//! Files that come through standard input (`-`), a pipe or `<(…)`: read once and whole.

use crate::out;
use anyhow::{Context, Result, ensure};
use std::io::Read;
use std::path::Path;

/// Whether a path stands for standard input.
pub(crate) fn is_standard_input(path: &Path) -> bool {
    path == Path::new("-")
}

/// What standard input, a pipe or `<(…)` gives; nothing for a file.
///
/// # Errors
/// When it cannot be read, or gives nothing.
pub(crate) fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    if is_standard_input(path) {
        std::io::stdin().read_to_end(&mut bytes).context("standard input cannot be read")?;
        ensure!(!bytes.is_empty(), "standard input is empty");
    } else if out::is_stream(path) && !std::fs::metadata(path).is_ok_and(|known| known.is_file()) {
        bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
        ensure!(!bytes.is_empty(), "{} is empty", path.display());
    } else {
        return Ok(None);
    }
    Ok(Some(bytes))
}
