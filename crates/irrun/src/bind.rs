//! From what people type to inputs and outputs: names, indices, shape overrides.

use crate::exit::{Exit, Failure, OrExit};
use crate::npy::{self, Cast};
use crate::npz::{self, Npz};
use crate::text::{self, nearest};
use crate::{out, print};
use anyhow::{Context, Result, anyhow, bail, ensure};
use infer::{InputSpec, PartialShape};
use ir::{ElementType, Graph, Layer};
use runtime::Tensor;
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::path::{Path, PathBuf};

/// The files that `--input` flags name.
pub fn input_files(args: &[OsString], declared: &Declared) -> impl Iterator<Item = PathBuf> {
    args.iter().map(|arg| split(arg, &declared.ports).1.to_owned())
}

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
fn key_of(ports: &[Port], index: usize) -> String {
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

/// What each input takes, as its Parameter declares it, and what `--shape` puts in its place.
pub struct Declared {
    /// The ports, to look names up.
    pub ports: Vec<Port>,
    /// The element types; `dynamic` where the model leaves it open.
    pub types: Vec<ElementType>,
    /// The shapes.
    pub shapes: Vec<PartialShape>,
    /// The inputs whose shape `--shape` gives, in its order.
    pub overridden: Vec<usize>,
}

impl Declared {
    /// What a graph declares, with overrides.
    ///
    /// # Errors
    /// When an override names no input or is not a shape.
    pub fn new(graph: &Graph, overrides: &[String]) -> Result<Declared, Failure> {
        let ports = inputs(graph);
        let layers = graph.parameters().iter().filter_map(|&p| graph.layers().get(p));
        let (types, shapes) = layers
            .map(|layer| {
                let element_type = layer.attribute("element_type").unwrap_or("dynamic");
                let shape = layer.attribute("shape").unwrap_or("");
                let element_type = ElementType::from_attribute(element_type.trim());
                let shape = shape.parse().unwrap_or_else(|_| PartialShape::unranked());
                let element_type = element_type.unwrap_or(ElementType::Dynamic);
                (infer::input_type(graph, element_type), shape)
            })
            .unzip();
        let mut declared = Declared { ports, types, shapes, overridden: Vec::new() };
        for (port, shape) in shape_overrides(overrides, &declared.ports).or_exit(Exit::Usage)? {
            declared.shapes[port] = shape;
            declared.overridden.push(port);
        }
        Ok(declared)
    }

    /// What propagation is told about the inputs.
    pub fn given(&self) -> infer::Inputs {
        let given =
            |shape: &PartialShape| InputSpec { shape: Some(shape.clone()), ..InputSpec::default() };
        infer::Inputs {
            parameters: self.shapes.iter().map(given).collect(),
            ..infer::Inputs::default()
        }
    }

    fn describe(&self, i: usize) -> String {
        format!("{}{}", self.types[i], self.shapes[i])
    }
}

/// Reads `NAME[1,3..8,?]`, several separated by commas, as benchmark_app writes them. Without a
/// name the shape is that of the only input.
fn shape_overrides(texts: &[String], ports: &[Port]) -> Result<Vec<(usize, PartialShape)>> {
    let mut out: Vec<(usize, PartialShape)> = Vec::new();
    for text in texts {
        let mut rest = text.trim();
        ensure!(!rest.is_empty(), form(text));
        while !rest.is_empty() {
            let open = rest.find('[').with_context(|| form(text))?;
            let close = open + rest[open..].find(']').with_context(|| form(text))?;
            let name = rest[..open].trim().trim_end_matches([':', '=']);
            let port = match (name, ports.len()) {
                ("", 1) => 0,
                ("", n) => bail!("--shape {text}: which of the {n} inputs? Write NAME{text}"),
                (name, _) => find(ports, name, "input").context("--shape")?,
            };
            let twice = out.iter().any(|(other, _)| *other == port);
            ensure!(!twice, "--shape: input {port} ({}) is given twice", ports[port].shown());
            let shape = rest[open..=close].parse::<PartialShape>();
            out.push((port, shape.map_err(|e| anyhow!("--shape {text}: {e}"))?));
            rest = rest[close + 1..].trim_start().trim_start_matches(',').trim_start();
        }
    }
    Ok(out)
}

fn form(text: &str) -> String {
    format!("--shape {text} is not of the form NAME[1,3,?,2..8]")
}

/// Reads the tensors of all inputs.
///
/// # Errors
/// What is missing, doubled, unknown, or of another type or shape than the model takes.
pub fn read_inputs(
    args: &[OsString],
    texts: &[String],
    declared: &Declared,
    cast: bool,
) -> Result<Vec<Tensor>, Failure> {
    let given = given_inputs(args, texts, declared, cast)?;
    complete(given, declared).or_exit(Exit::Usage)
}

/// As [`read_inputs`], with nothing for inputs that are not given.
///
/// # Errors
/// As there, but for those.
pub fn given_inputs(
    args: &[OsString],
    texts: &[String],
    declared: &Declared,
    cast: bool,
) -> Result<Vec<Option<Tensor>>, Failure> {
    let ports = &declared.ports;
    let mut tensors: Vec<Option<Tensor>> = vec![None; ports.len()];
    for arg in args {
        let (key, file) = split(arg, ports);
        let key = key.map(|k| find(ports, k, "input")).transpose().or_exit(Exit::Usage)?;
        if file.as_os_str().is_empty() {
            let error = anyhow!("--input {arg:?} names no file; give an .npy or an .npz");
            return Err(Failure { exit: Exit::Usage, error });
        }
        let read = read_one(file, key, &tensors, declared, Cast::flag(cast))?;
        for (port, tensor) in read {
            if tensors[port].is_some() {
                let message = anyhow!("input {port} ({}) is given twice", ports[port].shown());
                return Err(Failure { exit: Exit::Usage, error: message });
            }
            check(port, &tensor, declared).or_exit(Exit::Input)?;
            tensors[port] = Some(tensor);
        }
    }
    for arg in texts {
        let (port, text) = port_of_text(arg, &tensors, declared).or_exit(Exit::Usage)?;
        let strings = strings(text).or_exit(Exit::Input)?;
        let scalar = declared.shapes[port].rank() == Some(0) && strings.len() == 1;
        let sizes = [strings.len()];
        let tensor = Tensor::strings(if scalar { &[] } else { &sizes }, strings);
        let tensor = tensor.or_exit(Exit::Input)?;
        check(port, &tensor, declared).or_exit(Exit::Input)?;
        tensors[port] = Some(tensor);
    }
    Ok(tensors)
}

/// The input that `--text` is for, and what it holds.
fn port_of_text<'a>(
    arg: &'a str,
    tensors: &[Option<Tensor>],
    declared: &Declared,
) -> Result<(usize, &'a str)> {
    let ports = &declared.ports;
    let is_index = |key: &str| !key.is_empty() && key.bytes().all(|b| b.is_ascii_digit());
    let named = arg.split_once('=').filter(|(key, _)| {
        ports.iter().any(|p| p.is(key)) || is_index(key) && find(ports, key, "input").is_ok()
    });
    let free = |i: usize| {
        let open = matches!(declared.types[i], ElementType::String | ElementType::Dynamic);
        tensors[i].is_none() && open
    };
    let (port, text) = match named {
        Some((key, text)) => (find(ports, key, "input")?, text),
        None => {
            let port = (0..ports.len()).find(|i| free(*i));
            (port.context("--text: the model has no further input of strings")?, arg)
        }
    };
    let name = ports[port].shown();
    ensure!(tensors[port].is_none(), "input {port} ({name}) is given twice");
    let declared = declared.describe(port);
    ensure!(free(port), "--text: input {port} ({name}) takes {declared}, not strings");
    Ok((port, text))
}

/// A string, or for `@FILE` the lines of a file.
fn strings(text: &str) -> Result<Vec<Box<str>>> {
    let Some(file) = text.strip_prefix('@') else { return Ok(vec![text.into()]) };
    let lines = std::fs::read_to_string(file).with_context(|| format!("--text @{file}"))?;
    Ok(lines.lines().map(Box::from).collect())
}

fn read_one(
    file: &Path,
    key: Option<usize>,
    tensors: &[Option<Tensor>],
    declared: &Declared,
    cast: Cast,
) -> Result<Vec<(usize, Tensor)>, Failure> {
    let stream = stream(file).or_exit(Exit::Input)?;
    let is_archive = stream.as_ref().map(|bytes| bytes.starts_with(b"PK"));
    if is_archive.unwrap_or_else(|| npz::is_named(file)) {
        let npz = match stream {
            Some(bytes) => Npz::from_stream(bytes),
            None => Npz::open(file),
        };
        let mut npz = npz.or_exit(Exit::Input)?;
        let read = read_npz(&mut npz, key, declared, cast);
        return read.with_context(|| file.display().to_string()).or_exit(Exit::Input);
    }
    let port = match key.or_else(|| tensors.iter().position(Option::is_none)) {
        Some(port) => port,
        None => {
            let count = text::plural(tensors.len(), "input");
            let error = anyhow!("{} is one file too many: the model has {count}", file.display());
            return Err(Failure { exit: Exit::Usage, error });
        }
    };
    let name = declared.ports[port].shown();
    let tensor = match stream {
        Some(bytes) => npy::from_stream(bytes, declared.types[port], cast)
            .with_context(|| file.display().to_string()),
        None => npy::read(file, declared.types[port], cast),
    };
    let tensor =
        tensor.with_context(|| format!("input {port} ({name}, {})", declared.describe(port)));
    Ok(vec![(port, tensor.or_exit(Exit::Input)?)])
}

/// What standard input (`-`), a pipe or `<(…)` gives; it is read once and whole.
fn stream(file: &Path) -> Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    if file == Path::new("-") {
        std::io::stdin().read_to_end(&mut bytes).context("standard input cannot be read")?;
    } else if out::is_stream(file) && !std::fs::metadata(file).is_ok_and(|known| known.is_file()) {
        bytes = std::fs::read(file).with_context(|| file.display().to_string())?;
    } else {
        return Ok(None);
    }
    Ok(Some(bytes))
}

/// Every array that names an input, or for one input its own array or the only one.
fn read_npz(
    npz: &mut Npz,
    key: Option<usize>,
    declared: &Declared,
    cast: Cast,
) -> Result<Vec<(usize, Tensor)>> {
    let names = npz.names();
    let mut out = Vec::new();
    for name in &names {
        let plain = name.strip_prefix("arr_").unwrap_or(name);
        let port = match (key, names.len()) {
            (Some(port), 1) => Some(port),
            (Some(port), _) => declared.ports[port].is(name).then_some(port),
            (None, _) => Some(
                find(&declared.ports, name, "input")
                    .or_else(|e| find(&declared.ports, plain, "input").map_err(|_| e))?,
            ),
        };
        if let Some(port) = port {
            out.push((port, npz.read(name, declared.types[port], cast)?));
        }
    }
    if let (Some(port), true) = (key, out.is_empty()) {
        let name = declared.ports[port].shown();
        bail!("none of the arrays {} is called \"{name}\"", names.join(", "));
    }
    Ok(out)
}

fn check(port: usize, tensor: &Tensor, declared: &Declared) -> Result<()> {
    let shape = PartialShape::fixed(tensor.sizes());
    if declared.shapes[port].covers(&shape) {
        return Ok(());
    }
    let name = declared.ports[port].shown();
    let takes = declared.describe(port);
    let held = format!("the file holds {}{shape}", tensor.element_type());
    if declared.overridden.contains(&port) {
        bail!("input {port} ({name}) is {takes} because --shape says so, but {held}");
    }
    bail!("input {port} ({name}) takes {takes}, but {held}")
}

/// The tensors of all inputs.
///
/// # Errors
/// Every input that is not given.
pub fn complete(tensors: Vec<Option<Tensor>>, declared: &Declared) -> Result<Vec<Tensor>> {
    let missing: Vec<usize> = (0..tensors.len()).filter(|&i| tensors[i].is_none()).collect();
    if missing.is_empty() {
        return Ok(tensors.into_iter().flatten().collect());
    }
    let list = missing
        .iter()
        .map(|&i| format!("\n  {i}: \"{}\" {}", declared.ports[i].shown(), declared.describe(i)));
    let key = |i| key_of(&declared.ports, i);
    let flags = missing.iter().map(|i| format!(" --input {}=x{i}.npy", key(*i)));
    bail!(
        "{} not given:{}\ngive{}",
        if missing.len() == 1 { "an input is" } else { "inputs are" },
        list.collect::<String>(),
        flags.collect::<String>()
    )
}

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
const LONGEST: usize = 200;

/// A name with what no file name needs replaced.
pub fn in_file_name(name: &str) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
    name.chars().map(keep).collect()
}

/// Names for the files of all outputs, different for each, that are one component of a path.
fn file_names(ports: &[Port]) -> Vec<String> {
    told_apart(ports.iter().map(|p| {
        let mut name = in_file_name(p.shown());
        let says_little = name.len() > LONGEST || name.trim_matches('.').is_empty();
        // Of ASCII characters only, so it may be cut anywhere.
        name.truncate(LONGEST);
        (name, says_little)
    }))
}

/// Puts their index before names that are there twice, or do not say enough; before all of them if
/// one would be there twice then.
fn told_apart(names: impl Iterator<Item = (String, bool)>) -> Vec<String> {
    let names: Vec<(String, bool)> = names.collect();
    let mut times = HashMap::new();
    names.iter().for_each(|(name, _)| *times.entry(name).or_insert(0) += 1);
    let numbered = |(i, (name, says_little)): (usize, &(String, bool))| match *says_little
        || times[name] > 1
    {
        true => format!("{i}_{name}"),
        false => name.clone(),
    };
    let apart: Vec<String> = names.iter().enumerate().map(numbered).collect();
    match apart.iter().collect::<HashSet<_>>().len() == apart.len() {
        true => apart,
        false => names.iter().enumerate().map(|(i, (name, _))| format!("{i}_{name}")).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports() -> Vec<Port> {
        let port = |f: &str, n: &[&str]| Port {
            friendly: f.into(),
            names: n.iter().map(|n| (*n).to_owned()).collect(),
        };
        vec![port("x", &["a/b:0", "in=1"]), port("y", &[]), port("a_b_0", &[])]
    }

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

    #[test]
    fn shapes_in_benchmark_app_syntax() {
        let ports = ports();
        let text = vec!["x[1,3,?],y[1..8, 2..]".to_owned(), "2=[]".to_owned()];
        let shapes = shape_overrides(&text, &ports).unwrap();
        let shown: Vec<String> = shapes.iter().map(|(p, s)| format!("{p}{s}")).collect();
        assert_eq!(shown, ["0[1,3,?]", "1[1..8,2..]", "2[]"]);
        for bad in ["[1]", "x", "x[1", "z[1]", "x[a]"] {
            assert!(shape_overrides(&[bad.to_owned()], &ports).is_err(), "{bad}");
        }
    }

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
        let names = ["é".repeat(LONGEST), "a".repeat(LONGEST + 1)].map(|name| port(&name));
        let long = format!("1_{}", "a".repeat(LONGEST));
        assert_eq!(file_names(&names), ["_".repeat(LONGEST), long]);
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
