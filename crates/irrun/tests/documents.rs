//! What the documents show is what the binary takes and prints.

use irrun::usage;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The words of a line as a shell would divide it: quotes, and a comment at its end.
fn words(line: &str) -> Vec<OsString> {
    let mut words: Vec<String> = Vec::new();
    let (mut quote, mut open) = (None, false);
    for c in line.chars() {
        match (c, quote) {
            ('\'' | '"', None) => {
                if !open {
                    words.push(String::new());
                }
                (quote, open) = (Some(c), true);
            }
            (c, Some(q)) if c == q => quote = None,
            (' ', None) => open = false,
            (c, _) => {
                if !open {
                    words.push(String::new());
                }
                open = true;
                words.last_mut().expect("a word").push(c);
            }
        }
    }
    words.into_iter().map(OsString::from).collect()
}

/// The commands of irrun in the examples of a document, up to a pipe or a redirection.
fn commands(text: &str) -> Vec<String> {
    let of = |line: &str| {
        let line = line.trim().trim_start_matches("- run: ").trim_start_matches("$ ");
        let line = line.strip_prefix("irrun ")?.replace("${{ matrix.shard }}", "1");
        let end = line.find(['|', '>', '<', '…', '#']).unwrap_or(line.len());
        Some(format!("irrun {}", line[..end].trim_end()))
    };
    let shown = text.lines().filter(|line| {
        line.trim().starts_with("$ irrun ") || line.trim().starts_with("- run: irrun ")
    });
    shown.filter_map(of).collect()
}

#[test]
fn commands_that_are_shown_are_understood() {
    let mut pages = vec![root().join("README.md")];
    let docs = std::fs::read_dir(root().join("docs")).unwrap();
    pages.extend(
        docs.map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|ending| ending == "md")),
    );
    let mut count = 0;
    for page in pages {
        for command in commands(&std::fs::read_to_string(&page).unwrap()) {
            let parsed = usage::parse(&words(&command));
            let said = parsed.err().map(|error| error.to_string()).unwrap_or_default();
            assert!(said.is_empty(), "{}: {command}: {said}", page.display());
            count += 1;
        }
    }
    assert!(count > 10, "only {count} commands were found");
}
