//! What was probably meant: files with a name like the one given, models of another format.

use crate::locate;
use crate::stream;
use crate::text::nearest;
use infer::{ROWS, Row};
use ir::{ByteOffset, Code, Diagnostic, Diagnostics, SourceFile};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

/// The path that was probably meant by one that is not there.
pub(crate) fn path(path: &Path) -> Option<String> {
    if path.exists() || stands_alone(path) { None } else { near(path) }
}

/// ` (did you mean "x.npy"?)`, if a file that is not there has a name like one that is.
pub(crate) fn file(path: &Path) -> String {
    self::path(path).map(|near| format!(" (did you mean \"{near}\"?)")).unwrap_or_default()
}

/// Whether no other file can be meant: of the files of a case folder or of a tokenizer, each is for
/// itself, however alike their names are.
fn stands_alone(path: &Path) -> bool {
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let number = stem.strip_prefix("input_").or_else(|| stem.strip_prefix("expected_"));
    number.is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit())) || locate::is_tokenizer(path)
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
        None => match nearest(ending, other) {
            Some(other) => format!("{stem}.{other}"),
            // Where there is nothing else of the kind, no name has to be like it.
            None => only(named.iter().filter(|(_, other)| *other == ending))?,
        },
    })
}

/// The file that there is, if there is one.
fn only<'a>(mut named: impl Iterator<Item = &'a (&'a str, &'a str)>) -> Option<String> {
    let (name, ending) = named.next().filter(|(_, ending)| !ending.is_empty())?;
    named.next().is_none().then(|| format!("{name}.{ending}"))
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

/// What to do about a model that cannot be read or run, on the same line or on lines of its own;
/// nothing if nobody can tell.
pub(crate) fn model(problems: &Diagnostics) -> String {
    let path = problems.source_file().path();
    let is_unreadable = problems.list().iter().any(|problem| problem.code == Code::Unreadable);
    if !is_unreadable || stream::is_standard_input(path) {
        let operations = operations(problems.list());
        return if operations.is_empty() { operations } else { format!("\n{operations}") };
    }
    let near = self::path(path).map(|near| format!("; did you mean \"{near}\"?"));
    models_beside(path).or(near).unwrap_or_default()
}

/// The operations that were probably meant by types that there are not, a line for each.
pub(crate) fn operations(problems: &[Diagnostic]) -> String {
    let mut lines: Vec<String> = Vec::new();
    for problem in problems.iter().filter(|problem| problem.code == Code::Unsupported) {
        let Some((_, op_type)) = &problem.name_and_type else { continue };
        let is_known = |row: &Row| row.op_type.eq_ignore_ascii_case(op_type);
        let near = nearest(op_type, ROWS.iter().map(|row| row.op_type));
        if let Some(near) = near.filter(|_| !ROWS.iter().any(is_known)) {
            let line = format!("  {op_type}: did you mean {near}?");
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
    }
    lines.join("\n")
}

/// What is said of a file that is no IR but something else that is known, in place of where it is
/// no XML, which makes no sense to its owner.
pub(crate) fn other_format(problems: &Diagnostics) -> Option<Diagnostics> {
    let path = problems.source_file().path();
    let has = |codes: &[Code]| problems.list().iter().any(|problem| codes.contains(&problem.code));
    let (code, message) = if has(&[Code::Unreadable]) && stream::is_standard_input(path) {
        let message = "a model is an .xml with its .bin beside it, so standard input cannot be \
                       one; give the name of the .xml";
        (Code::Unreadable, message.to_owned())
    } else if has(&[Code::NotIr, Code::Syntax]) {
        (Code::NotIr, what_it_is(path)?)
    } else {
        return None;
    };
    // Without its text, of which nothing is to be shown.
    let source = Arc::new(SourceFile::new(path, String::new()));
    let problem = Diagnostic::error(code, ByteOffset(0), message);
    Some(Diagnostics::new(source, vec![problem]))
}

/// What a file is that is no IR, and what to do, by its name or its first bytes.
fn what_it_is(path: &Path) -> Option<String> {
    let ending = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
    let ending = ending.to_ascii_lowercase();
    let name = path.display();
    if let Some((_, format)) = CONVERTED.iter().find(|(known, _)| *known == ending) {
        return Some(format!(
            "{format} by its name, not an IR; `ovc {name}` makes an .xml and a .bin of it"
        ));
    }
    if SAVED.contains(&&*ending) {
        let how = "`openvino.convert_model` in Python makes an .xml and a .bin of the module";
        return Some(format!("by its name what PyTorch saves, not an IR; {how}"));
    }
    let xml = path.with_extension("xml");
    let start = start(path).unwrap_or_default();
    let has = |part: &[u8]| start.windows(part.len()).any(|window| window == part);
    if ending == "bin" && xml.is_file() {
        Some(format!("these are the weights of a model; give {}, beside them", xml.display()))
    } else if ending == "bin" {
        Some("by its name weights, not an IR; give the .xml that belongs to them".to_owned())
    } else if ending == "blob" || has(b"<compiled_blob") {
        Some(
            "a compiled model, which only the OpenVINO that has made it loads, not an IR; give the \
             .xml that it was made of"
                .to_owned(),
        )
    } else if is_binary(&start) {
        Some("binary, not XML; a model is an .xml with its .bin beside it: give the .xml".into())
    } else {
        None
    }
}

/// Bytes that are looked at of a file of another format.
const LOOKED_AT: u64 = 4096;

/// The first bytes of a file; none of a pipe, which is read once.
fn start(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if !path.is_file() {
        return Ok(bytes);
    }
    File::open(path)?.take(LOOKED_AT).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Whether bytes are no text of any encoding that XML has: those of UTF-16 begin with a mark, or
/// with `<` and a zero.
fn is_binary(bytes: &[u8]) -> bool {
    let is_utf16 = [&b"\xff\xfe"[..], b"\xfe\xff", b"<\0", b"\0<"];
    bytes.contains(&0) && !is_utf16.iter().any(|start| bytes.starts_with(start))
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
