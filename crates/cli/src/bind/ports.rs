//! Inputs and outputs by tensor name, layer name or index.

use crate::print;
use crate::text::{self, nearest};
use anyhow::{Result, bail};
use ir::{Graph, Layer};
use std::ffi::OsStr;
use std::path::Path;

/// An input or output as people may name it.
#[derive(Clone, Debug)]
pub struct Port {
    /// The layer's name.
    pub friendly: String,
    /// The tensor's names.
    pub names: Vec<String>,
}

impl Port {
    /// The name to show: the first tensor name, or the layer's.
    pub fn shown(&self) -> &str {
        self.names.first().unwrap_or(&self.friendly)
    }

    /// Whether it is called so.
    pub fn is(&self, name: &str) -> bool {
        self.friendly == name || self.names.iter().any(|n| n == name)
    }
}

/// The inputs of a graph, in order.
pub fn inputs(graph: &Graph) -> Vec<Port> {
    let port = |&p: &usize| graph.layers().get(p).map(|l| port_of(l, l, 0));
    graph.parameters().iter().filter_map(port).collect()
}

/// The outputs of a graph, in order. Their tensor names are those of the tensors that feed them,
/// unless the Result layer has its own.
pub fn outputs(graph: &Graph) -> Vec<Port> {
    let port = |&p: &usize| {
        let layer = graph.layers().get(p)?;
        let source = graph.inputs_of(p).first()?;
        let own = layer.tags.iter().find(|(key, _)| key == "output_names");
        let mut port = port_of(layer, graph.layers().get(source.layer)?, source.port);
        if let Some((_, names)) = own {
            port.names = ir::split_names(names);
        }
        Some(port)
    };
    graph.results().iter().filter_map(port).collect()
}

fn port_of(layer: &Layer, tensor: &Layer, port: usize) -> Port {
    let names = tensor.outputs.get(port).map(|p| p.names.clone()).unwrap_or_default();
    Port { friendly: layer.name.clone(), names }
}

/// Finds a port by tensor name, layer name or index. A name that is a number goes before the
/// index, which `#0` means.
///
/// # Errors
/// With the names there are, and the one that was probably meant.
pub fn find(ports: &[Port], key: &str, what: &str) -> Result<usize> {
    let index = key.parse::<usize>().ok();
    if let Some(i) = ports.iter().position(|p| p.is(key)) {
        if let Some(index) = index.filter(|&index| index != i && index < ports.len()) {
            print::note(format_args!(
                "note: \"{key}\" is the name of {what} {i}; write #{index} for {what} {index}"
            ));
        }
        return Ok(i);
    }
    if let Some(i) = index.or_else(|| key.strip_prefix('#')?.parse().ok()) {
        if i < ports.len() {
            return Ok(i);
        }
        bail!("there is no {what} {i}; the model has {}", text::plural(ports.len(), what));
    }
    let names = ports.iter().flat_map(|p| p.names.iter().chain([&p.friendly]));
    let hint = match nearest(key, names.map(String::as_str)) {
        Some(name) => format!("; did you mean \"{name}\"?"),
        None => {
            let known: Vec<String> = (0..ports.len())
                .map(|i| format!("{}={}", key_of(ports, i), ports[i].shown()))
                .collect();
            format!("; the model has {}", known.join(", "))
        }
    };
    bail!("there is no {what} \"{key}\"{hint}")
}

/// The index of a port as it must be written: `#0` where another port has the name `0`.
pub(super) fn key_of(ports: &[Port], index: usize) -> String {
    let key = index.to_string();
    match ports.iter().position(|p| p.is(&key)) {
        Some(named) if named != index => format!("#{key}"),
        _ => key,
    }
}

/// Splits `NAME=FILE`. A name may hold `=`, and so may a file: what is a port wins.
pub fn split<'a>(arg: &'a OsStr, ports: &[Port]) -> (Option<&'a str>, &'a Path) {
    let known = |key: &str| {
        let index = key.strip_prefix('#').unwrap_or(key);
        ports.iter().any(|p| p.is(key))
            || (!index.is_empty() && index.bytes().all(|b| b.is_ascii_digit()))
    };
    let whole = Path::new(arg);
    let first = || splits(arg).next().filter(|_| !whole.exists());
    match splits(arg).find(|(key, _)| known(key)).or_else(first) {
        Some((key, file)) => (Some(key), file),
        None => (None, whole),
    }
}

/// Every `NAME=FILE` that an argument can be read as: names are text, files need not be.
#[cfg(unix)]
fn splits(arg: &OsStr) -> impl Iterator<Item = (&str, &Path)> {
    use std::os::unix::ffi::OsStrExt;
    let bytes = arg.as_bytes();
    let at = move |(i, byte): (usize, &u8)| {
        let key = std::str::from_utf8(&bytes[..i]).ok().filter(|_| *byte == b'=')?;
        Some((key, Path::new(OsStr::from_bytes(&bytes[i + 1..]))))
    };
    bytes.iter().enumerate().filter_map(at)
}

/// Every `NAME=FILE` that an argument can be read as, if it is text.
#[cfg(not(unix))]
fn splits(arg: &OsStr) -> impl Iterator<Item = (&str, &Path)> {
    let text = arg.to_str().unwrap_or_default();
    text.match_indices('=').map(|(i, _)| (&text[..i], Path::new(&text[i + 1..])))
}

#[cfg(test)]
pub(super) mod testing {
    use super::Port;

    /// Three inputs, of which two have no tensor names.
    pub(crate) fn ports() -> Vec<Port> {
        let port = |f: &str, n: &[&str]| Port {
            friendly: f.into(),
            names: n.iter().map(|n| (*n).to_owned()).collect(),
        };
        vec![port("x", &["a/b:0", "in=1"]), port("y", &[]), port("a_b_0", &[])]
    }
}

#[cfg(test)]
mod tests {
    use super::testing::ports;
    use super::*;

    #[test]
    fn names_and_files_are_told_apart() {
        let ports = ports();
        for (arg, key, file) in [
            ("x=f.npy", Some("x"), "f.npy"),
            ("in=1=f.npy", Some("in=1"), "f.npy"),
            ("2=f=g.npy", Some("2"), "f=g.npy"),
            ("f.npy", None, "f.npy"),
            ("typo=f.npy", Some("typo"), "f.npy"),
        ] {
            assert_eq!(split(OsStr::new(arg), &ports), (key, Path::new(file)), "{arg}");
        }
        assert_eq!(find(&ports, "a/b:0", "input").unwrap(), 0);
        assert_eq!(find(&ports, "1", "input").unwrap(), 1);
        let text = |r: Result<usize>| r.unwrap_err().to_string();
        assert!(text(find(&ports, "a/b:1", "input")).contains("did you mean \"a/b:0\"?"));
        assert!(text(find(&ports, "3", "input")).contains("the model has 3 inputs"));
    }
}
