//! Colours in what people are told: `--color`, `NO_COLOR`, and a terminal.

use clap::ColorChoice;
use std::ffi::OsStr;
use std::sync::OnceLock;

/// When people are told things in colour.
static COLOR: OnceLock<ColorChoice> = OnceLock::new();

/// Sets what `--color` says, once.
pub(crate) fn set(choice: ColorChoice) {
    COLOR.get_or_init(|| choice);
}

/// Whether a stream gets colours: on a terminal, unless `NO_COLOR` is set to something.
pub(crate) fn has_color(is_terminal: bool) -> bool {
    let is =
        |name: &str, test: fn(&OsStr) -> bool| std::env::var_os(name).is_some_and(|v| test(&v));
    match COLOR.get().copied().unwrap_or_default() {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => {
            is_terminal && !is("NO_COLOR", |v| !v.is_empty()) && !is("TERM", |v| v == "dumb")
        }
    }
}

/// The words that findings and outcomes begin with, and their colours.
const COLORED: &[(&str, &str)] = &[
    ("error: ", "1;31"),
    ("error IR", "1;31"),
    ("FAILED ", "1;31"),
    ("warning: ", "1;33"),
    ("warning IR", "1;33"),
    ("note: ", "1;36"),
    ("note IR", "1;36"),
];

/// Gives lines that begin with the word of a finding its colour, up to the colon.
pub(crate) fn colored(text: &str) -> String {
    let line = |line: &str| match COLORED.iter().find(|(start, _)| line.starts_with(start)) {
        Some((start, color)) => {
            // A finding up to its colon, an outcome alone.
            let end = line.find(':').filter(|_| !start.starts_with("FAILED"));
            let (word, rest) = line.split_at(end.unwrap_or(start.trim_end().len()));
            format!("\x1b[{color}m{word}\x1b[0m{rest}")
        }
        None => line.to_owned(),
    };
    text.split_inclusive('\n').map(line).collect()
}
