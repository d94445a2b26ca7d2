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

/// Gives lines that begin with the word of a finding its colour, up to the colon, and the caret
/// below its line of XML the same.
pub(crate) fn colored(text: &str) -> String {
    let mut last = None;
    let line = |line: &str| match COLORED.iter().find(|(start, _)| line.starts_with(start)) {
        Some((start, color)) => {
            last = Some(color);
            // A finding up to its colon, an outcome alone.
            let end = line.find(':').filter(|_| !start.starts_with("FAILED"));
            let (word, rest) = line.split_at(end.unwrap_or(start.trim_end().len()));
            format!("\x1b[{color}m{word}\x1b[0m{rest}")
        }
        None => match (last, before_caret(line)) {
            (Some(color), Some(before)) => {
                let rest = line.get(before.len() + 1..).unwrap_or_default();
                format!("{before}\x1b[{color}m^\x1b[0m{rest}")
            }
            _ => line.to_owned(),
        },
    };
    text.split_inclusive('\n').map(line).collect()
}

/// What is before the caret, in a line that shows nothing else.
fn before_caret(line: &str) -> Option<&str> {
    let before = line.trim_end().strip_suffix('^')?;
    (before.trim() == "|").then_some(before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn carets_have_the_colour_of_their_finding() {
        let text = "warning IR0302: odd\n  7 | <data ^='1'/>\n    |       ^\nerror: e\n    | ^\n";
        let lines = [
            "\x1b[1;33mwarning IR0302\x1b[0m: odd",
            "  7 | <data ^='1'/>",
            "    |       \x1b[1;33m^\x1b[0m",
            "\x1b[1;31merror\x1b[0m: e",
            "    | \x1b[1;31m^\x1b[0m\n",
        ];
        assert_eq!(colored(text), lines.join("\n"));
        assert_eq!(colored("    | ^\n"), "    | ^\n");
    }
}
