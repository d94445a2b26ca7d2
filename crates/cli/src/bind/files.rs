//! Inputs from files and texts.

use super::declared::Declared;
use super::ports::{find, key_of, split};
use crate::exit::{Exit, Failure, OrExit};
use crate::media::picture::PictureArgs;
use crate::media::{self, Kind};
use crate::npy::{self, Cast};
use crate::npz::{self, Npz};
use crate::{hint, out, stream, text};
use anyhow::{Context, Result, anyhow, bail, ensure};
use infer::PartialShape;
use ir::ElementType;
use runtime::Tensor;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The files that `--input` flags name.
pub fn input_files(args: &[OsString], declared: &Declared) -> impl Iterator<Item = PathBuf> {
    args.iter().map(|arg| split(arg, &declared.ports).1.to_owned())
}

/// The files that `--text` flags name.
pub fn text_files(args: &[String]) -> impl Iterator<Item = PathBuf> {
    let file = |arg: &String| {
        let file = arg.strip_prefix('@').or_else(|| Some(arg.split_once("=@")?.1));
        file.map(PathBuf::from)
    };
    args.iter().filter_map(file)
}

/// What the flags say about inputs.
pub struct Given<'a> {
    /// `--input`.
    pub files: &'a [OsString],
    /// `--text`.
    pub texts: &'a [String],
    /// `--cast`.
    pub cast: bool,
    /// How pictures are read.
    pub media: &'a PictureArgs,
}

impl Given<'_> {
    /// Refuses flags for pictures where no file can be one.
    fn are_needed(&self, declared: &Declared) -> Result<()> {
        let is_picture = |file: PathBuf| {
            let kind = Kind::of_name(&file);
            kind.is_ok_and(|kind| kind == Some(Kind::Picture))
                || stream::is_standard_input(&file)
                || out::is_stream(&file)
        };
        let needed = self.media.is_empty() || input_files(self.files, declared).any(is_picture);
        ensure!(needed, "--mean, --scale and --channels are for pictures, and no input is one");
        Ok(())
    }
}

/// Reads the tensors of all inputs.
///
/// # Errors
/// What is missing, doubled, unknown, or of another type or shape than the model takes.
pub fn read_inputs(given: &Given<'_>, declared: &Declared) -> Result<Vec<Tensor>, Failure> {
    complete(given_inputs(given, declared)?, declared).or_exit(Exit::Usage)
}

/// As [`read_inputs`], with nothing for inputs that are not given.
///
/// # Errors
/// As there, but for those.
pub fn given_inputs(
    given: &Given<'_>,
    declared: &Declared,
) -> Result<Vec<Option<Tensor>>, Failure> {
    given.are_needed(declared).or_exit(Exit::Usage)?;
    let mut tensors: Vec<Option<Tensor>> = vec![None; declared.ports.len()];
    for arg in given.files {
        read_file(arg, given, &mut tensors, declared)?;
    }
    for arg in given.texts {
        read_text(arg, &mut tensors, declared)?;
    }
    Ok(tensors)
}

/// Reads the file of an `--input`, for one input or, from an archive, for several.
fn read_file(
    arg: &OsStr,
    given: &Given<'_>,
    tensors: &mut [Option<Tensor>],
    declared: &Declared,
) -> Result<(), Failure> {
    let ports = &declared.ports;
    let (key, file) = split(arg, ports);
    let key = key.map(|k| find(ports, k, "input")).transpose().or_exit(Exit::Usage)?;
    if file.as_os_str().is_empty() {
        let error = anyhow!("--input {arg:?} names no file; give an .npy or an .npz");
        return Err(Failure { exit: Exit::Usage, error });
    }
    for (port, tensor) in read_one(file, key, tensors, declared, given)? {
        let place = &mut tensors[port];
        if place.is_some() {
            let error = anyhow!("input {port} ({}) is given twice", ports[port].shown());
            return Err(Failure { exit: Exit::Usage, error });
        }
        let held = file.display().to_string();
        check(port, (&tensor, &held), declared).or_exit(Exit::Input)?;
        *place = Some(tensor);
    }
    Ok(())
}

/// Reads what a `--text` holds.
fn read_text(
    arg: &str,
    tensors: &mut [Option<Tensor>],
    declared: &Declared,
) -> Result<(), Failure> {
    let (port, text) = port_of_text(arg, tensors, declared).or_exit(Exit::Usage)?;
    let strings = strings(text).or_exit(Exit::Input)?;
    let scalar = declared.shapes[port].rank() == Some(0) && strings.len() == 1;
    let sizes = [strings.len()];
    let tensor = Tensor::strings(if scalar { &[] } else { &sizes }, strings);
    let tensor = tensor.or_exit(Exit::Input)?;
    check(port, (&tensor, "--text"), declared).or_exit(Exit::Input)?;
    tensors[port] = Some(tensor);
    Ok(())
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

/// A string, or for `@FILE` the lines of a file; `-` and `@-` are those of standard input.
fn strings(text: &str) -> Result<Vec<Box<str>>> {
    let file = if text == "-" { Some(text) } else { text.strip_prefix('@') };
    let Some(file) = file.map(Path::new) else { return Ok(vec![text.into()]) };
    let shown = file.display();
    let bytes = match stream::read(file)? {
        Some(bytes) => bytes,
        None => std::fs::read(file)
            .with_context(|| format!("--text: {shown} cannot be read{}", hint::file(file)))?,
    };
    let lines = String::from_utf8(bytes).ok();
    let lines = lines.with_context(|| format!("--text: {shown} is no text in UTF-8"))?;
    Ok(lines.lines().map(Box::from).collect())
}

/// Reads a file for the input `key`, or for the next one; from an archive, for those it names.
fn read_one(
    file: &Path,
    key: Option<usize>,
    tensors: &[Option<Tensor>],
    declared: &Declared,
    given: &Given<'_>,
) -> Result<Vec<(usize, Tensor)>, Failure> {
    let cast = Cast::flag(given.cast);
    let stream = stream::read(file).or_exit(Exit::Input)?;
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
    let tensor = read_array(file, stream, port, declared, given);
    let tensor =
        tensor.with_context(|| format!("input {port} ({name}, {})", declared.describe(port)));
    Ok(vec![(port, tensor.or_exit(Exit::Input)?)])
}

/// Reads what holds one array: an `.npy`, a picture or a sound. What comes from a pipe tells itself
/// what it is, and a file does by its name.
fn read_array(
    file: &Path,
    stream: Option<Vec<u8>>,
    port: usize,
    declared: &Declared,
    given: &Given<'_>,
) -> Result<Tensor> {
    let element_type = declared.types[port];
    let (stream, kind) = match stream {
        Some(bytes) => {
            let kind = Kind::of_bytes(&bytes);
            (Some(bytes), kind)
        }
        None => (None, Kind::of_name(file)?),
    };
    let cast = Cast::flag(given.cast);
    match (kind, stream) {
        (Some(kind), stream) => {
            let bytes = stream.map_or_else(|| media::bytes(file), Ok)?;
            let read = kind.read(&bytes, &declared.wanted(port), given.media);
            read.with_context(|| file.display().to_string())
        }
        (None, Some(bytes)) => {
            npy::from_stream(bytes, element_type, cast).with_context(|| file.display().to_string())
        }
        (None, None) => npy::read(file, element_type, cast),
    }
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

/// Refuses a tensor of another shape than the input takes; `file` holds it.
fn check(port: usize, (tensor, file): (&Tensor, &str), declared: &Declared) -> Result<()> {
    let shape = PartialShape::fixed(tensor.sizes());
    if declared.shapes[port].covers(&shape) {
        return Ok(());
    }
    let name = declared.ports[port].shown();
    let takes = declared.describe(port);
    let held = format!("{file} holds {}{shape}", tensor.element_type());
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
    if let Some(list) = missing(&tensors, declared) {
        let open = (0..tensors.len()).filter(|&i| tensors[i].is_none());
        let flag = |i: usize| match (key_of(&declared.ports, i), declared.types[i]) {
            (key, ElementType::String) => format!(" --text {key}=\"…\""),
            (key, _) => format!(" --input {key}=x{i}.npy"),
        };
        let flags = open.map(flag);
        bail!("{list}\ngive{}", flags.collect::<String>());
    }
    Ok(tensors.into_iter().flatten().collect())
}

/// The inputs that are not given, a line for each; nothing if all are.
pub fn missing(tensors: &[Option<Tensor>], declared: &Declared) -> Option<String> {
    let missing: Vec<usize> = (0..tensors.len()).filter(|&i| tensors[i].is_none()).collect();
    let verb = match missing.len() {
        0 => return None,
        1 => "an input is",
        _ => "inputs are",
    };
    let line =
        |&i: &usize| format!("\n  {i}: \"{}\" {}", declared.ports[i].shown(), declared.describe(i));
    Some(format!("{verb} not given:{}", missing.iter().map(line).collect::<String>()))
}
