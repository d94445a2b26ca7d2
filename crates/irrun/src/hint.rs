//! What was probably meant: files with a name like the one given, models of another format.

use crate::text::nearest;
use ir::{Code, Diagnostics};
use std::path::Path;

/// `; did you mean "model.xml"?`, if a file that is not there has a name like one that is.
pub fn file(path: &Path) -> String {
    let near = if path.exists() { None } else { near(path) };
    near.map(|near| format!("; did you mean \"{near}\"?")).unwrap_or_default()
}

fn near(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    let entries = std::fs::read_dir(dir.unwrap_or(Path::new("."))).ok()?.flatten();
    let names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    let near = nearest(name, names.iter().map(String::as_str))?;
    Some(match dir {
        Some(dir) => dir.join(near).display().to_string(),
        None => near.to_owned(),
    })
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

/// What to do about a model that cannot be read, a line of its own; nothing if nobody can tell.
pub fn model(problems: &Diagnostics) -> String {
    let path = problems.source_file().path();
    let has = |code| problems.list().iter().any(|problem| problem.code == code);
    if has(Code::Unreadable) {
        return file(path);
    }
    let ending = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
    let ending = ending.to_ascii_lowercase();
    let format = CONVERTED.iter().find(|(known, _)| *known == ending);
    match format.filter(|_| has(Code::NotIr) || has(Code::Syntax)) {
        Some((_, format)) => {
            let name = path.display();
            format!("\n  it is called like {format}: `ovc {name}` makes an .xml and a .bin of it")
        }
        None => String::new(),
    }
}
