//! What a command line names: case folders and the models of suite files, filtered and divided.

use super::case::{self, Case};
use super::entry::Entry;
use super::file::SuiteFile;
use super::test::Test;
use crate::args::TestArgs;
use crate::hint;
use crate::out;
use crate::print;
use crate::text::{Glob, nearest};
use anyhow::{Result, ensure};
use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Something to run and to compare.
pub enum TestItem {
    /// A folder with `case.json`.
    Folder(PathBuf),
    /// A model that a suite file lists, by its position there.
    Entry(Arc<SuiteFile>, usize),
}

impl TestItem {
    /// Its path in reports and for patterns: the folder, or the suite file and the name in it.
    pub fn path(&self) -> PathBuf {
        match self {
            TestItem::Folder(dir) => dir.clone(),
            TestItem::Entry(file, index) => file.path.join(&file.models()[*index].name),
        }
    }

    /// The file that describes it.
    pub fn described_in(&self) -> PathBuf {
        match self {
            TestItem::Folder(dir) => dir.join("case.json"),
            TestItem::Entry(file, _) => file.path.clone(),
        }
    }

    /// The files that are read for it.
    pub fn files(&self) -> Vec<out::Read> {
        match self {
            TestItem::Folder(dir) => {
                Case::open(dir).map_or_else(|_| case::files_of(dir), |case| case.files())
            }
            TestItem::Entry(file, index) => {
                let mut files = Entry { file, entry: &file.models()[*index] }.files();
                files.push(("the suite", file.path.clone()));
                files
            }
        }
    }

    /// The digest file it is compared with, unless a flag names one, and its name there.
    pub fn digests(&self) -> Option<(PathBuf, String)> {
        match self {
            TestItem::Folder(_) => None,
            TestItem::Entry(file, index) => {
                let entry = &file.models()[*index];
                let path = file.digests().filter(|_| !entry.has_goldens())?;
                Some((path, entry.name.clone()))
            }
        }
    }

    /// Reads what describes it.
    ///
    /// # Errors
    /// When `case.json` is not of its form.
    pub fn open(&self) -> Result<Box<dyn Test + '_>> {
        Ok(match self {
            TestItem::Folder(dir) => Box::new(Case::open(dir)?),
            TestItem::Entry(file, index) => Box::new(Entry { file, entry: &file.models()[*index] }),
        })
    }

    fn has_one_of(&self, tags: &[String]) -> bool {
        match self {
            TestItem::Folder(_) => false,
            TestItem::Entry(file, index) => {
                file.models()[*index].tags.iter().any(|tag| tags.contains(tag))
            }
        }
    }

    /// Whether a pattern is for it: by its name, or by its path.
    pub fn is_called(&self, pattern: &Glob) -> bool {
        let path = self.path();
        pattern.matches(&name(&path)) || pattern.matches(&path.to_string_lossy())
    }
}

/// What a command line names, without what its flags leave out.
///
/// # Errors
/// When there is nothing of a name, or a pattern or tag is for nothing.
pub fn all(args: &TestArgs) -> Result<Vec<TestItem>> {
    let items = below(&args.dirs)?;
    all_name_one("--expect-failure", &args.expect_failure, &items)?;
    all_name_one("--filter", &args.filter, &items)?;
    for tag in &args.tag {
        let is_there = items.iter().any(|t| t.has_one_of(std::slice::from_ref(tag)));
        ensure!(is_there, "--tag {tag}: no model of a suite file has it{}", known_tags(&items));
    }
    let is_wanted = |item: &TestItem| {
        (args.filter.is_empty() || args.filter.iter().any(|pattern| item.is_called(pattern)))
            && (args.tag.is_empty() || item.has_one_of(&args.tag))
    };
    let is_in_shard = |i: usize| args.shard.is_none_or(|shard| i % shard.count == shard.index);
    let wanted = items.into_iter().filter(is_wanted).enumerate();
    Ok(wanted.filter(|(i, _)| is_in_shard(*i)).map(|(_, item)| item).collect())
}

fn known_tags(items: &[TestItem]) -> String {
    let tags = items.iter().flat_map(|item| match item {
        TestItem::Folder(_) => &[][..],
        TestItem::Entry(file, index) => &file.models()[*index].tags,
    });
    let tags: BTreeSet<_> = tags.map(String::as_str).collect();
    let tags: Vec<_> = tags.into_iter().collect();
    if tags.is_empty() { String::new() } else { format!("; there is {}", tags.join(", ")) }
}

/// The case folders and suite files below some directories, and suite files by name. What two of
/// them lead to counts once.
fn below(paths: &[PathBuf]) -> Result<Vec<TestItem>> {
    let mut items = Vec::new();
    let mut seen = HashSet::new();
    let mut is_new =
        |path: &Path| seen.insert(path.canonicalize().unwrap_or_else(|_| path.to_owned()));
    for path in paths {
        let shown = path.display();
        let is_toml = path.extension().is_some_and(|ending| ending == "toml");
        let kind = if is_toml { "file" } else { "directory" };
        ensure!(path.exists(), "there is no {kind} {shown}{}", hint::file(path));
        if path.is_file() {
            let folder = path.parent().filter(|dir| dir.join("case.json").is_file());
            let meant = folder.map(|dir| format!(", here {}", dir.display())).unwrap_or_default();
            ensure!(
                is_toml,
                "{shown} is a file; give a directory of case folders{meant}, or a suite file such \
                 as {}",
                SuiteFile::NAME
            );
            if is_new(path) {
                items.extend(entries(path)?);
            }
            continue;
        }
        let (folders, suites) = (case::find(path)?, case::folders_with(SuiteFile::NAME, path)?);
        let bare = case::without_case_file(path)?;
        bare.iter().filter(|dir| is_new(dir)).for_each(|dir| tell_of_missing_case(dir));
        ensure!(
            !folders.is_empty() || !suites.is_empty(),
            "no case.json and no {} below {shown}",
            SuiteFile::NAME
        );
        let folders = folders.into_iter().filter(|dir| is_new(dir));
        items.extend(folders.map(TestItem::Folder));
        for dir in suites {
            let file = dir.join(SuiteFile::NAME);
            if is_new(&file) {
                items.extend(entries(&file)?);
            }
        }
    }
    Ok(items)
}

fn entries(path: &Path) -> Result<impl Iterator<Item = TestItem> + use<>> {
    let file = Arc::new(SuiteFile::read(path)?);
    let count = file.models().len();
    Ok((0..count).map(move |index| TestItem::Entry(Arc::clone(&file), index)))
}

/// A folder with a model and goldens is meant as a case; without `case.json` it is none.
fn tell_of_missing_case(dir: &Path) {
    let dir = dir.display();
    print::note(format_args!(
        "note: {dir} has a model and goldens, but no case.json, so it is not run"
    ));
}

/// A pattern that no case has is mistyped, or its case is gone: what it was to watch, it does not.
fn all_name_one(flag: &str, patterns: &[Glob], items: &[TestItem]) -> Result<()> {
    let paths: Vec<_> = items.iter().map(TestItem::path).collect();
    let names: Vec<_> = paths.iter().map(|path| name(path)).collect();
    let idle = patterns.iter().filter(|pattern| !items.iter().any(|t| t.is_called(pattern)));
    let described: Vec<String> = idle
        .map(|pattern| match nearest(pattern.as_str(), names.iter().map(|name| &**name)) {
            Some(near) => format!("{pattern} (did you mean \"{near}\"?)"),
            None => pattern.to_string(),
        })
        .collect();
    ensure!(described.is_empty(), "{flag}: no case is named {}", described.join(", nor "));
    Ok(())
}

/// What a pattern is compared with.
fn name(path: &Path) -> Cow<'_, str> {
    path.file_name().unwrap_or_default().to_string_lossy()
}
