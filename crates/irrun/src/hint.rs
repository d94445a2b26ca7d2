//! What was probably meant: files with a name like the one given, models of another format.

use crate::locate;
use crate::text::nearest;
use ir::{Code, Diagnostics};
use std::path::Path;

/// The path that was probably meant by one that is not there.
pub(crate) fn path(path: &Path) -> Option<String> {
    if path.exists() { None } else { near(path) }
}

/// ` (did you mean "x.npy"?)`, if a file that is not there has a name like one that is.
pub(crate) fn file(path: &Path) -> String {
    self::path(path).map(|near| format!(" (did you mean \"{near}\"?)")).unwrap_or_default()
}

/// The path with the first part of it that is not there corrected.
fn near(path: &Path) -> Option<String> {
    let is_missing = |part: &&Path| !part.as_os_str().is_empty() && !part.exists();
    let missing = path.ancestors().filter(is_missing).last()?;
    let rest = path.strip_prefix(missing).ok()?;
    let found = missing.with_file_name(beside(missing)?);
    let whole = if rest.as_os_str().is_empty() { found } else { found.join(rest) };
    whole.exists().then(|| whole.display().to_string())
}

/// The name of a file or directory beside it with the same ending and a name like its own, or the
/// same name and an ending like its own.
fn beside(path: &Path) -> Option<String> {
    let (stem, ending) = parts(path)?;
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    let entries = std::fs::read_dir(dir.unwrap_or(Path::new("."))).ok()?.flatten();
    let there: Vec<_> = entries.map(|entry| entry.path()).collect();
    let named: Vec<(&str, &str)> = there.iter().filter_map(|path| parts(path)).collect();
    let alike = named.iter().filter(|(_, other)| *other == ending).map(|(name, _)| *name);
    let other = named.iter().filter(|(name, _)| *name == stem).map(|(_, other)| *other);
    Some(match nearest(stem, alike) {
        Some(name) if ending.is_empty() => name.to_owned(),
        Some(name) => format!("{name}.{ending}"),
        None => format!("{stem}.{}", nearest(ending, other)?),
    })
}

/// Name and ending, which a directory mostly lacks.
fn parts(path: &Path) -> Option<(&str, &str)> {
    let ending = path.extension().map_or(Some(""), |ending| ending.to_str())?;
    Some((path.file_stem()?.to_str()?, ending))
}

/// Endings of files that OpenVINO's converter reads.
const CONVERTED: &[(&str, &str)] = &[
    ("onnx", "an ONNX model"),
    ("pb", "a TensorFlow model"),
    ("meta", "a TensorFlow model"),
    ("tflite", "a TensorFlow Lite model"),
    ("pdmodel", "a Paddle model"),
    ("pt2", "a PyTorch program"),
];

/// Endings of what PyTorch saves, which only a program can convert.
const SAVED: &[&str] = &["pt", "pth", "ckpt"];

/// What to do about a model that cannot be read, a line of its own; nothing if nobody can tell.
pub(crate) fn model(problems: &Diagnostics) -> String {
    let path = problems.source_file().path();
    let has = |code| problems.list().iter().any(|problem| problem.code == code);
    if has(Code::Unreadable) {
        let near = self::path(path).map(|near| format!("; did you mean \"{near}\"?"));
        return models_beside(path).or(near).unwrap_or_default();
    }
    let ending = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
    let ending = ending.to_ascii_lowercase();
    if SAVED.contains(&&*ending) && (has(Code::NotIr) || has(Code::Syntax)) {
        let how = "`openvino.convert_model` in Python makes an .xml and a .bin of the module";
        return format!("\n  it is called like what PyTorch saves: {how}");
    }
    let format = CONVERTED.iter().find(|(known, _)| *known == ending);
    match format.filter(|_| has(Code::NotIr) || has(Code::Syntax)) {
        Some((_, format)) => {
            let name = path.display();
            format!("\n  it is called like {format}: `ovc {name}` makes an .xml and a .bin of it")
        }
        None => String::new(),
    }
}

/// What a directory that was given for a model holds in place of `model.xml`.
fn models_beside(path: &Path) -> Option<String> {
    let dir = path.parent().filter(|dir| dir.is_dir() && path.ends_with("model.xml"))?;
    let models = locate::models_in(dir);
    let names: Vec<_> = models.iter().filter_map(|model| model.file_name()?.to_str()).collect();
    let shown = dir.display();
    match names.len() {
        _ if dir.as_os_str().is_empty() => None,
        0 => Some(format!("; {shown} holds no .xml")),
        _ => Some(format!("; {shown} holds {}: name one of them", names.join(", "))),
    }
}
