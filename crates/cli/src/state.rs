//! The variables of a model between two processes: `--state` and `--save-state`.

use crate::exit::{Exit, Failure, OrExit};
use crate::npy::Cast;
use crate::npz::{self, Npz};
use crate::text::nearest;
use anyhow::{Context, Result, anyhow, bail};
use infer::{Fact, PartialShape};
use ir::Graph;
use runtime::Tensor;
use std::path::Path;

/// Reads the values of variables: an `.npz` with an array for each, under its id. Variables that
/// are not in it begin with their initial value.
///
/// # Errors
/// When the file cannot be read, or one of its arrays is not a variable of the model, or is of
/// another type or shape. Then nothing is taken from it.
pub(crate) fn load(path: &Path, graph: &Graph) -> Result<Vec<(String, Tensor)>, Failure> {
    let declared = infer::variables(graph);
    let mut npz = Npz::open(path).or_exit(Exit::Input)?;
    let names = npz.names();
    let values = names.into_iter().map(|name| {
        let value = read(&mut npz, &name, &declared)?;
        Ok((name, value))
    });
    let values: Result<_> = values.collect();
    values.with_context(|| path.display().to_string()).or_exit(Exit::Input)
}

fn read(npz: &mut Npz, name: &str, declared: &[(String, Fact)]) -> Result<Tensor> {
    let Some((_, fact)) = declared.iter().find(|(id, _)| id == name) else {
        bail!("the model has no variable \"{name}\"{}", hint(name, declared));
    };
    let variable = format!("variable \"{name}\" is {fact}");
    let value = npz.read(name, fact.element_type, Cast::Never).with_context(|| variable.clone())?;
    let shape = PartialShape::fixed(value.sizes());
    if !fact.shape.covers(&shape) {
        bail!("{variable}, but the file holds {}{shape}", value.element_type());
    }
    Ok(value)
}

fn hint(name: &str, declared: &[(String, Fact)]) -> String {
    let ids: Vec<&str> = declared.iter().map(|(id, _)| id.as_str()).collect();
    match (nearest(name, ids.iter().copied()), ids.is_empty()) {
        (Some(id), _) => format!("; did you mean \"{id}\"?"),
        (None, true) => "; it has none".to_owned(),
        (None, false) => format!("; it has {}", ids.join(", ")),
    }
}

/// Whether `--save-state` can do what it says.
///
/// # Errors
/// When the file is called something else than an archive, or there is nothing to save.
pub(crate) fn can_be_saved(path: &Path, graph: &Graph) -> Result<(), Failure> {
    let wrong = if !npz::is_named(path) {
        "give an .npz"
    } else if infer::variables(graph).is_empty() {
        "the model has no variables"
    } else {
        return Ok(());
    };
    Err(Failure { exit: Exit::Usage, error: anyhow!("--save-state {}: {wrong}", path.display()) })
}

/// Writes the values of variables as [`load`] reads them, whole or not at all.
///
/// # Errors
/// When the file cannot be written.
pub(crate) fn save(path: &Path, values: &[(String, Tensor)]) -> Result<(), Failure> {
    npz::write(path, values).or_exit(Exit::Input)
}
