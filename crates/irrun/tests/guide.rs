//! Every command of the guide runs, with the exit code that it shows, and every link leads somewhere.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The pages are read in a directory with the models of the repository, an input and an output.
#[test]
#[cfg(unix)]
fn commands_of_the_guide() {
    let room = tempfile::tempdir().unwrap();
    for name in ["models", "fixtures"] {
        std::os::unix::fs::symlink(root().join(name), room.path().join(name)).unwrap();
    }
    let case = root().join("models/swin_block");
    fs::copy(case.join("input_0.npy"), room.path().join("x.npy")).unwrap();
    fs::copy(case.join("expected_0.npy"), room.path().join("ref.npy")).unwrap();
    std::env::set_current_dir(room.path()).unwrap();
    let cases = trycmd::TestCases::new();
    cases.register_bin("irrun", Path::new(env!("CARGO_BIN_EXE_irrun")));
    cases.case(root().join("docs/guide/*.md"));
    cases.run();
}

/// Links of a page that are paths, without what follows `#`.
fn links(page: &str) -> impl Iterator<Item = &str> {
    let targets = page.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let paths = targets.map(|target| target.split('#').next().unwrap_or_default());
    paths.filter(|path| !path.is_empty() && !path.contains("://") && !path.starts_with("mailto:"))
}

fn pages(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            pages(&path, found);
        } else if path.extension().is_some_and(|e| e == "md") {
            found.push(path);
        }
    }
}

#[test]
fn links_of_the_documents() {
    let mut found = vec![root().join("README.md"), root().join("CONTRIBUTING.md")];
    pages(&root().join("docs"), &mut found);
    let mut broken = Vec::new();
    for page in &found {
        let text = fs::read_to_string(page).unwrap();
        let dir = page.parent().unwrap();
        let missing = links(&text).filter(|link| !dir.join(link).exists());
        broken.extend(missing.map(|link| format!("{}: {link}", page.display())));
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// Pages that no reader would find.
#[test]
fn the_summary_has_every_page() {
    let docs = root().join("docs");
    let summary = fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let listed: Vec<PathBuf> = links(&summary).map(|link| docs.join(link)).collect();
    let mut found = Vec::new();
    pages(&docs, &mut found);
    let of_machines = docs.join("performance/machines");
    let missing: Vec<&PathBuf> = found
        .iter()
        .filter(|page| !listed.contains(page) && !page.starts_with(&of_machines))
        .filter(|page| page.file_name().is_some_and(|name| name != "SUMMARY.md"))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}
