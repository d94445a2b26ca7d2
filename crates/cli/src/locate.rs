//! Finds the file of a model, and the layer that a name means.

use crate::hint;
use crate::text::{Glob, nearest};
use anyhow::{Context, Result, anyhow};
use ir::{Diagnostics, Graph, Layer};
use std::path::{Path, PathBuf};

/// What exporters of optimum-intel write beside the model of text.
const TOKENIZERS: [&str; 2] = ["openvino_tokenizer.xml", "openvino_detokenizer.xml"];

/// Whether a file has the name of a tokenizer or detokenizer.
pub(crate) fn is_tokenizer(path: &Path) -> bool {
    TOKENIZERS.iter().any(|name| path.ends_with(name))
}

/// The file of a model. Where a directory is named, `model.xml` in it, or its only `.xml` beside
/// tokenizers.
pub(crate) fn model_file(path: &Path) -> PathBuf {
    if !path.is_dir() {
        return path.to_owned();
    }
    let named = path.join("model.xml");
    let is_model = |file: &PathBuf| !is_tokenizer(file);
    let mut models = models_in(path).into_iter().filter(|_| !named.exists()).filter(is_model);
    match (models.next(), models.next()) {
        (Some(only), None) => only,
        _ => named,
    }
}

/// Reads a model; of a file that is none, it says what it is instead.
///
/// # Errors
/// What is wrong with the file.
pub(crate) fn read(path: &Path) -> Result<Graph, Diagnostics> {
    ir::read(path).map_err(|problems| hint::other_format(&problems).unwrap_or(problems))
}

/// The `.xml` files of a directory in the order of their names; none if it cannot be read.
pub(crate) fn models_in(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let is_xml = |path: &PathBuf| path.extension().is_some_and(|e| e == "xml");
    let mut models: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_xml).collect();
    models.sort_unstable();
    models
}

/// Whether a pattern is for a layer: by its name, a tensor name of its outputs, or its id. Those of
/// bodies are counted anew.
pub(crate) fn is_called(pattern: &Glob, layer: &Layer, is_body: bool) -> bool {
    let has_id = || !is_body && pattern.as_str().parse() == Ok(layer.id);
    let mut names = layer.outputs.iter().flat_map(|port| &port.names);
    pattern.matches(&layer.name) || names.any(|name| pattern.matches(name)) || has_id()
}

/// Why `--only` lists nothing, with the name that was probably meant.
pub(crate) fn none_called<'a>(
    pattern: &Glob,
    layers: impl Iterator<Item = &'a Layer>,
) -> anyhow::Error {
    let names = layers.flat_map(|l| {
        let tensors = l.outputs.iter().flat_map(|port| &port.names);
        tensors.chain([&l.name]).map(String::as_str)
    });
    let hint = match nearest(pattern.as_str(), names) {
        Some(near) => format!("did you mean \"{near}\"?"),
        None => "`irrun check MODEL.xml --all` lists the layers".to_owned(),
    };
    anyhow!("--only {pattern}: no layer is called so; {hint}")
}

/// The layer that a name or an id means: a name goes before an id, as messages and reports tell
/// them, and an id before the tensor names of outputs, which are often numbers too.
///
/// # Errors
/// With the name that was probably meant.
pub(crate) fn layer(graph: &Graph, key: &str) -> Result<usize> {
    let layers = graph.layers();
    let named = |l: &Layer| l.outputs.iter().any(|port| port.names.iter().any(|n| n == key));
    let by_id = || key.parse().ok().and_then(|id| graph.find(id));
    let found = layers.iter().position(|l| l.name == key);
    let found = found.or_else(by_id).or_else(|| layers.iter().position(named));
    found.with_context(|| {
        // People leave out the scopes.
        let ends = layers
            .iter()
            .map(|l| l.name.as_str())
            .find(|name| name.strip_suffix(key).is_some_and(|rest| rest.ends_with(['/', '.'])));
        let near = ends.or_else(|| nearest(key, layers.iter().map(|l| l.name.as_str())));
        match near {
            Some(near) => format!("there is no layer \"{key}\"; did you mean \"{near}\"?"),
            None => format!("there is no layer \"{key}\"; `irrun check --all` lists the layers"),
        }
    })
}
