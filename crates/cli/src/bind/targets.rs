//! Where outputs go.

use super::ports::{Port, find, split};
use crate::{npy, npz, out, text};
use anyhow::{Result, bail};
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Where an output is to be written.
#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    /// One output as an `.npy` file.
    Npy(usize, PathBuf),
    /// Outputs as an `.npz` file.
    Npz(Vec<usize>, PathBuf),
}

/// What the `--output` flags ask for.
///
/// # Errors
/// When a flag names no output, or no file that could hold it.
pub fn targets(args: &[OsString], ports: &[Port]) -> Result<Vec<Target>> {
    let mut targets = Vec::new();
    let mut next = 0;
    let names = file_names(ports);
    for arg in args {
        let (key, path) = split(arg, ports);
        let key = key.map(|k| find(ports, k, "output")).transpose()?;
        let path = if path == Path::new("-") { Path::new("/dev/stdout") } else { path };
        let selected: Vec<usize> = key.map_or_else(|| (0..ports.len()).collect(), |k| vec![k]);
        if path.as_os_str().as_encoded_bytes().ends_with(b"/") || path.is_dir() {
            let name = |i: usize| path.join(format!("{}.npy", names[i]));
            targets.extend(selected.into_iter().map(|i| Target::Npy(i, name(i))));
        } else if npz::is_named(path) {
            targets.push(Target::Npz(selected, path.to_owned()));
        } else if npy::is_named(path) || out::is_stream(path) {
            let port = key.unwrap_or(next);
            if port >= ports.len() {
                let count = text::plural(ports.len(), "output");
                bail!("{} is one file too many: the model has {count}", path.display());
            }
            next = port + 1;
            targets.push(Target::Npy(port, path.to_owned()));
        } else {
            bail!(
                "--output {arg:?}: give an .npy, an .npz, a .safetensors, or a directory that ends in /"
            );
        }
    }
    Ok(targets)
}

impl Target {
    /// The file.
    pub fn path(&self) -> &PathBuf {
        match self {
            Target::Npy(_, path) | Target::Npz(_, path) => path,
        }
    }
}

/// Names for the arrays of all outputs, different for each: two outputs may be the same tensor.
pub fn array_names(ports: &[Port]) -> Vec<String> {
    told_apart(ports.iter().map(|p| (p.shown().to_owned(), false)))
}

/// Characters of a name that a file is called by. Systems allow 255 with the index and `.npy`.
const MAX_NAME_CHARS: usize = 200;

/// A name with what no file name needs replaced.
pub fn in_file_name(name: &str) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
    name.chars().map(keep).collect()
}

/// Names for the files of all outputs, different for each, that are one component of a path.
fn file_names(ports: &[Port]) -> Vec<String> {
    told_apart(ports.iter().map(|p| {
        let mut name = in_file_name(p.shown());
        let says_little = name.len() > MAX_NAME_CHARS || name.trim_matches('.').is_empty();
        // Of ASCII characters only, so it may be cut anywhere.
        name.truncate(MAX_NAME_CHARS);
        (name, says_little)
    }))
}

/// Puts their index before names that are there twice, or do not say enough; before all of them if
/// one would be there twice then.
fn told_apart(names: impl Iterator<Item = (String, bool)>) -> Vec<String> {
    let names: Vec<(String, bool)> = names.collect();
    let mut times = HashMap::new();
    names.iter().for_each(|(name, _)| *times.entry(name).or_insert(0) += 1);
    let numbered = |(i, (name, says_little)): (usize, &(String, bool))| {
        if *says_little || times[name] > 1 { format!("{i}_{name}") } else { name.clone() }
    };
    let apart: Vec<String> = names.iter().enumerate().map(numbered).collect();
    if apart.iter().collect::<HashSet<_>>().len() == apart.len() {
        apart
    } else {
        names.iter().enumerate().map(|(i, (name, _))| format!("{i}_{name}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::ports::testing::ports;
    use super::*;

    #[test]
    fn outputs_find_their_files() {
        let ports = ports();
        let args = |list: &[&str]| list.iter().map(OsString::from).collect::<Vec<_>>();
        let files: Vec<String> = targets(&args(&["d/"]), &ports)
            .unwrap()
            .iter()
            .map(|t| t.path().display().to_string())
            .collect();
        assert_eq!(files, ["d/0_a_b_0.npy", "d/y.npy", "d/2_a_b_0.npy"]);
        let port = |name: &str| Port { friendly: name.into(), names: vec![] };
        let names =
            ["é".repeat(MAX_NAME_CHARS), "a".repeat(MAX_NAME_CHARS + 1)].map(|name| port(&name));
        let long = format!("1_{}", "a".repeat(MAX_NAME_CHARS));
        assert_eq!(file_names(&names), ["_".repeat(MAX_NAME_CHARS), long]);
        let two = targets(&args(&["p.npy", "q.npy", "x=r.npz"]), &ports).unwrap();
        assert_eq!(two[1], Target::Npy(1, "q.npy".into()));
        assert_eq!(two[2], Target::Npz(vec![0], "r.npz".into()));
        let names =
            |of: &[&str]| array_names(&of.iter().map(|name| port(name)).collect::<Vec<_>>());
        assert_eq!(names(&["a:0", "b", "a:0"]), ["0_a:0", "b", "2_a:0"]);
        assert_eq!(names(&["a", "0_a", "a"]), ["0_a", "1_0_a", "2_a"]);
        for bad in ["p.txt", "7=p.npy"] {
            assert!(targets(&args(&[bad]), &ports).is_err(), "{bad}");
        }
    }
}
