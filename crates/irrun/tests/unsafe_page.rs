//! `docs/unsafe.md` lists every argument of `unsafe` code: the contracts of unsafe functions and
//! traits, and why each block keeps those that it relies on. Clippy refuses a block without one.
//! `IRRUN_UPDATE=1 cargo test --workspace --test unsafe_page` writes the page anew.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Where `unsafe` may be, besides the crate of the kernels.
const ALLOWED: [&str; 2] = ["ir/src/weights.rs", "runtime/src/tensor/mod.rs"];

/// The arguments of a file: where each stands, and its words.
type Arguments = Vec<(String, String)>;

fn sources(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
}

/// The code of a line, without a comment at its end.
fn code(line: &str) -> &str {
    line.split("//").next().unwrap_or_default()
}

fn has_unsafe(line: &str) -> bool {
    let is_letter = |c: char| c.is_alphanumeric() || c == '_';
    code(line).split(|c| !is_letter(c)).any(|word| word == "unsafe") && !line.contains('"')
}

/// The name that a line declares: of a function, a trait or an implementation.
fn declared(line: &str) -> Option<String> {
    let words = code(line).trim().trim_end_matches('{').trim();
    if words.contains("impl") && !words.contains("fn ") && line.trim_end().ends_with('{') {
        return Some(words.replace("unsafe ", ""));
    }
    let name = |keyword: &str| {
        let rest = words.split_once(keyword)?.1;
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        (end > 0).then(|| rest[..end].to_owned())
    };
    name("fn ").map(|f| f + "()").or_else(|| name("trait "))
}

/// The lines of a comment from `at` on, after `start`, as one.
fn comment(lines: &[&str], at: usize, marker: &str, start: &str) -> String {
    let first = lines[at].trim().trim_start_matches(marker).trim().trim_start_matches(start);
    let more = lines[at + 1..].iter().map(|l| l.trim());
    let more = more.take_while(|l| l.starts_with(marker) && *l != marker);
    let words = more.map(|l| l.trim_start_matches(marker).trim());
    let all: Vec<&str> =
        std::iter::once(first.trim()).chain(words).filter(|w| !w.is_empty()).collect();
    without_targets(&all.join(" "))
}

/// How many unsafe functions with a body there are, and how many of them assert something.
fn functions(text: &str) -> (usize, usize) {
    let lines: Vec<&str> = text.lines().collect();
    let is_head = |i: &usize| {
        let is_unsafe = code(lines[*i]).split("fn ").next().is_some_and(|l| l.contains("unsafe "));
        is_unsafe && lines[*i].contains("unsafe fn ")
    };
    let body = |i: usize| {
        let indent = lines[i].len() - lines[i].trim_start().len();
        let rest = lines[i..].iter().enumerate();
        let ends = |(n, line): &(usize, &&str)| {
            let own = line.len() - line.trim_start().len();
            own == indent
                && (line.trim() == "}" || line.ends_with(';') || *n == 0 && line.ends_with('}'))
        };
        let end = rest.clone().find(ends).map_or(0, |(n, _)| n);
        lines[i..=i + end].join("\n")
    };
    let bodies: Vec<String> =
        (0..lines.len()).filter(is_head).map(body).filter(|b| b.contains('{')).collect();
    (bodies.len(), bodies.iter().filter(|b| b.contains("assert")).count())
}

/// The implementation that a comment stands above, if it is one.
fn implemented(lines: &[&str]) -> Option<String> {
    let line =
        lines.iter().map(|l| code(l).trim()).find(|l| !l.is_empty() && !l.starts_with('#'))?;
    let name = line.strip_prefix("unsafe ").filter(|rest| rest.starts_with("impl"))?;
    Some(name.trim_end_matches(['{', '}', ' ']).to_owned())
}

/// Without the targets of links, which lead somewhere in the source alone.
fn without_targets(text: &str) -> String {
    let mut parts = text.split("](");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + "]" + part.split_once(')').map_or("", |(_, rest)| rest))
}

fn arguments(text: &str) -> Arguments {
    let lines: Vec<&str> = text.lines().collect();
    let (mut found, mut inside) = (Vec::new(), "the file".to_owned());
    for (i, line) in lines.iter().enumerate() {
        let line = line.trim();
        if line == "/// # Safety" {
            let next = lines[i + 1..].iter().find_map(|l| declared(l));
            let of = next.unwrap_or_else(|| panic!("line {}: a contract of nothing", i + 1));
            found.push((format!("{of} asks"), comment(&lines, i, "///", "# Safety")));
        } else if line.starts_with("// SAFETY:") {
            let of = implemented(&lines[i..]).unwrap_or_else(|| inside.clone());
            found.push((of, comment(&lines, i, "//", "SAFETY:")));
        } else if !line.starts_with("//")
            && let Some(name) = declared(line)
        {
            inside = name;
        }
    }
    found
}

#[test]
fn every_argument_of_unsafe_code_is_on_the_page() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for name in ["infer", "ir", "irrun", "kernels", "runtime", "text", "tokenize"] {
        sources(&crates.join(name).join("src"), &mut files);
    }
    let mut pages: BTreeMap<String, (usize, Arguments)> = BTreeMap::new();
    let mut asserting = (0, 0);
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let name = file.strip_prefix(&crates).unwrap().to_str().unwrap().replace('\\', "/");
        let count = text.lines().filter(|line| has_unsafe(line)).count();
        let found = arguments(&text);
        let (all, some) = functions(&text);
        asserting = (asserting.0 + all, asserting.1 + some);
        let may = name.starts_with("kernels/") || ALLOWED.contains(&&*name);
        assert!(
            may || count == 0,
            "{name} has unsafe code, which docs/architecture.md keeps elsewhere"
        );
        assert!(count == 0 || !found.is_empty(), "{name}: unsafe code without an argument");
        if !found.is_empty() {
            pages.insert(name, (count, found));
        }
    }
    let path = crates.join("../docs/unsafe.md");
    let page = page(&pages, asserting);
    if std::env::var_os("IRRUN_UPDATE").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(there == page, "docs/unsafe.md is out of date; IRRUN_UPDATE=1 writes it anew");
}

fn page(
    pages: &BTreeMap<String, (usize, Arguments)>,
    (functions, asserting): (usize, usize),
) -> String {
    let (lines, all) = pages.values().fold((0, 0), |(n, m), (count, a)| (n + count, m + a.len()));
    let mut text = format!(
        "# Unsafe code\n\nWritten by `IRRUN_UPDATE=1 cargo test --workspace --test unsafe_page`, which checks it: {} files, \
         {lines} lines with `unsafe`, {all} arguments. \"asks\" marks what a caller promises; the others say why it holds. \
         Of {functions} unsafe functions {asserting} assert what they ask, as far as it is their arguments.\n",
        pages.len()
    );
    for (file, (count, arguments)) in pages {
        write!(text, "\n## `crates/{file}`: {count}\n\n").unwrap();
        let mut previous: Option<&(String, String)> = None;
        for argument in arguments {
            if previous != Some(argument) {
                writeln!(text, "- `{}`: {}", argument.0, argument.1).unwrap();
            }
            previous = Some(argument);
        }
    }
    text
}
