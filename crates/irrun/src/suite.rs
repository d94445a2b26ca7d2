//! `irrun test`: every case folder below some directories, divided among threads.

use crate::args::TestArgs;
use crate::case::{self, Case};
use crate::digests::Digests;
use crate::exit::{Exit, Failure, OrExit};
use crate::text::{Glob, nearest};
use crate::{digests, json, limits, out, print, record, suite_formats};
use anyhow::{Result, ensure};
use rayon::prelude::*;
use runtime::{Options, Threads};
use schemars::JsonSchema;
use serde::Serialize;
use std::borrow::Cow;
use std::collections::HashSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Runs the cases, or records one.
///
/// # Errors
/// When a directory cannot be read or holds no case, or a pattern names none.
pub fn test(args: &TestArgs) -> Result<Exit, Failure> {
    let start = Instant::now();
    let options = Options {
        optimize: !args.no_optimize,
        precision: args.precision.into(),
        limits: limits::of_run(),
        ..Options::default()
    };
    if let Some(dir) = &args.record {
        return record::record(args, dir, &options);
    }
    let dirs = cases(&args.dirs).or_exit(Exit::Usage)?;
    all_name_a_case("--expect-failure", &args.expect_failure, &dirs).or_exit(Exit::Usage)?;
    all_name_a_case("--filter", &args.filter, &dirs).or_exit(Exit::Usage)?;
    let dirs = chosen(dirs, args);
    let digests = match &args.digests {
        Some(path) => Some(Digests::read(path, args.update).or_exit(Exit::Usage)?),
        None => None,
    };
    let tested = run_all(&Suite { args, options, digests: digests.as_ref() }, &dirs)?;
    if let (Some(path), Some(mut digests), true) = (&args.digests, digests, args.update) {
        for tested in &tested {
            tested.digests.iter().for_each(|lines| digests.set(&tested.name(), lines.clone()));
        }
        let text = digests.text();
        out::write_whole(path, |file| Ok(file.write_all(text.as_bytes())?)).or_exit(Exit::Input)?;
    }
    let report = Report::new(&tested, start.elapsed());
    if args.json {
        json::print(&report)?;
    } else {
        tell(args, &tested, &report, dirs.len() - tested.len())?;
    }
    if let Some(path) = &args.junit {
        let write = |out: &mut dyn Write| suite_formats::junit(&tested, out);
        out::write_whole(path, write).or_exit(Exit::Input)?;
    }
    Ok(if report.failed == 0 { Exit::Good } else { Exit::Failed })
}

/// What is the same for all cases.
struct Suite<'a> {
    args: &'a TestArgs,
    options: Options,
    digests: Option<&'a Digests>,
}

/// Runs cases on the threads that flags ask for, a case on one thread: there are more cases.
fn run_all(suite: &Suite, dirs: &[PathBuf]) -> Result<Vec<Tested>, Failure> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(suite.args.threads.unwrap_or(0)).build();
    let pool = pool.or_exit(Exit::Running)?;
    let stop = AtomicBool::new(false);
    let one = |dir: &PathBuf| {
        if suite.args.fail_fast && stop.load(Ordering::Relaxed) {
            return None;
        }
        let tested = suite.run(dir);
        stop.fetch_or(matches!(tested.outcome, Outcome::Failed(_)), Ordering::Relaxed);
        Some(tested)
    };
    Ok(pool.install(|| dirs.par_iter().filter_map(one).collect()))
}

/// Tells people what became of the cases, of which some may not have been run.
fn tell(args: &TestArgs, tested: &[Tested], report: &Report, left: usize) -> Result<(), Failure> {
    for Tested { dir, outcome, .. } in tested {
        let dir = dir.display();
        match outcome {
            Outcome::Failed(message) => print::line(format_args!("FAILED {dir}: {message}"))?,
            Outcome::Updated(change) => print::line(format_args!("updated {dir}: {change}"))?,
            other if args.verbose => print::line(format_args!("{} {dir}", other.name()))?,
            _ => {}
        }
    }
    if args.github {
        print::text(suite_formats::annotations(tested))?;
    }
    let more = [
        (report.updated, "updated"),
        (report.failed_as_expected, "failed as expected"),
        (report.skipped, "skipped as unsupported"),
        (left, "not run"),
    ];
    let more = more.iter().filter(|(n, _)| *n > 0).map(|(n, text)| format!(", {n} {text}"));
    let (more, Report { passed, failed, seconds, .. }) = (more.collect::<String>(), report);
    print::line(format_args!("{passed} passed, {failed} failed{more} in {seconds:.1} s"))
}

/// What `irrun test --json` prints.
#[derive(Serialize, JsonSchema)]
pub struct Report {
    passed: usize,
    failed: usize,
    /// Cases whose goldens or digests were written anew.
    updated: usize,
    /// Cases with an operation that irrun does not know.
    skipped: usize,
    failed_as_expected: usize,
    /// What all of it took.
    seconds: f64,
    cases: Vec<CaseReport>,
}

/// What became of a case.
#[derive(Serialize, JsonSchema)]
struct CaseReport {
    /// Its folder.
    case: String,
    passed: bool,
    /// `passed`, `failed`, `updated`, `failed as expected` or `skipped`.
    outcome: &'static str,
    /// What differs or went wrong, if it failed; what changed, if it was updated.
    message: Option<String>,
    /// What it took.
    seconds: f64,
}

impl Report {
    fn new(tested: &[Tested], time: Duration) -> Report {
        let count = |name| tested.iter().filter(|t| t.outcome.name() == name).count();
        let case = |Tested { dir, outcome, time, .. }: &Tested| CaseReport {
            case: dir.display().to_string(),
            passed: matches!(outcome, Outcome::Passed),
            outcome: outcome.name(),
            message: outcome.message().map(str::to_owned),
            seconds: time.as_secs_f64(),
        };
        Report {
            passed: count(Outcome::Passed.name()),
            failed: count(Outcome::Failed(String::new()).name()),
            updated: count(Outcome::Updated(String::new()).name()),
            skipped: count(Outcome::Skipped.name()),
            failed_as_expected: count(Outcome::FailedAsExpected.name()),
            seconds: time.as_secs_f64(),
            cases: tested.iter().map(case).collect(),
        }
    }
}

/// A case that was run.
pub struct Tested {
    /// Its folder.
    pub dir: PathBuf,
    /// What became of it.
    pub outcome: Outcome,
    /// What it took.
    pub time: Duration,
    /// The digests of its outputs, where they are asked for.
    pub digests: Option<Vec<String>>,
}

impl Tested {
    /// What its digests are filed under: its path, written alike on every system.
    fn name(&self) -> String {
        digest_name(&self.dir)
    }
}

fn digest_name(dir: &Path) -> String {
    let parts: Vec<_> = dir.components().map(|part| part.as_os_str().to_string_lossy()).collect();
    parts.join("/")
}

/// The cases that `--filter` and `--shard` leave.
fn chosen(dirs: Vec<PathBuf>, args: &TestArgs) -> Vec<PathBuf> {
    let is_wanted = |dir: &PathBuf| {
        args.filter.is_empty() || args.filter.iter().any(|pattern| is_called(dir, pattern))
    };
    let is_in_shard = |i: usize| args.shard.is_none_or(|shard| i % shard.count == shard.index);
    let wanted = dirs.into_iter().filter(is_wanted).enumerate();
    wanted.filter(|(i, _)| is_in_shard(*i)).map(|(_, dir)| dir).collect()
}

/// Whether a pattern is for a case: by the name of its folder, or by its path.
fn is_called(dir: &Path, pattern: &Glob) -> bool {
    pattern.matches(&name(dir)) || pattern.matches(&dir.to_string_lossy())
}

/// The case folders below some directories, each of which must have some. A folder that two of
/// them lead to counts once.
fn cases(below: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut dirs = Vec::new();
    let mut seen = HashSet::new();
    for dir in below {
        ensure!(dir.exists(), "there is no directory {}", dir.display());
        ensure!(!dir.is_file(), "{} is a file; give a directory of case folders", dir.display());
        let found = case::find(dir)?;
        if found.is_empty() {
            tell_of_folders_without_case(dir)?;
        }
        ensure!(!found.is_empty(), "no case.json below {}", dir.display());
        let new = |dir: &PathBuf| seen.insert(dir.canonicalize().unwrap_or_else(|_| dir.clone()));
        dirs.extend(found.into_iter().filter(new));
        tell_of_folders_without_case(dir)?;
    }
    Ok(dirs)
}

/// A folder with a model and goldens is meant as a case; without `case.json` it is none.
fn tell_of_folders_without_case(below: &Path) -> Result<()> {
    for dir in case::without_case_file(below)? {
        let dir = dir.display();
        print::note(format_args!(
            "note: {dir} has a model and goldens, but no case.json, so it is not run"
        ));
    }
    Ok(())
}

/// A pattern that no case has is mistyped, or its case is gone: what it was to watch, it does not.
fn all_name_a_case(flag: &str, patterns: &[Glob], dirs: &[PathBuf]) -> Result<()> {
    let names: Vec<_> = dirs.iter().map(|dir| name(dir)).collect();
    let idle = patterns.iter().filter(|pattern| !dirs.iter().any(|dir| is_called(dir, pattern)));
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
fn name(dir: &Path) -> Cow<'_, str> {
    dir.file_name().unwrap_or_default().to_string_lossy()
}

/// What became of a case.
pub enum Outcome {
    /// Its outputs are what they must be.
    Passed,
    /// What differs or went wrong.
    Failed(String),
    /// Goldens or digests were written anew, and what was in them.
    Updated(String),
    /// It failed, as `--expect-failure` says it must.
    FailedAsExpected,
    /// Its model has an operation that irrun does not know.
    Skipped,
}

impl Outcome {
    fn name(&self) -> &'static str {
        match self {
            Outcome::Passed => "passed",
            Outcome::Failed(_) => "failed",
            Outcome::Updated(_) => "updated",
            Outcome::FailedAsExpected => "failed as expected",
            Outcome::Skipped => "skipped",
        }
    }

    fn message(&self) -> Option<&str> {
        match self {
            Outcome::Failed(message) | Outcome::Updated(message) => Some(message),
            _ => None,
        }
    }
}

impl Suite<'_> {
    fn run(&self, dir: &Path) -> Tested {
        let begin = Instant::now();
        let mut digests = None;
        let result = Case::open(dir).and_then(|case| self.result(dir, &case, &mut digests));
        let must_fail = self.args.expect_failure.iter().any(|pattern| is_called(dir, pattern));
        let outcome = match result {
            Ok(Outcome::Passed) if must_fail => Outcome::Failed("passes, but must fail".to_owned()),
            Err(_) if must_fail => Outcome::FailedAsExpected,
            Ok(outcome) => outcome,
            Err(error) => Outcome::Failed(format!("{error:#}")),
        };
        Tested { dir: dir.to_owned(), outcome, time: begin.elapsed(), digests }
    }

    fn result(
        &self,
        dir: &Path,
        case: &Case,
        digests: &mut Option<Vec<String>>,
    ) -> Result<Outcome> {
        if self.args.skip_unsupported && case.is_unsupported()? {
            return Ok(Outcome::Skipped);
        }
        // Each case on one thread: there are more cases than threads.
        let threads = Arc::new(Threads::new(1));
        if let Some(known) = self.digests {
            let lines = digests::of(&case.outputs(&self.options, &threads)?);
            let same = known.compare(&digest_name(dir), &lines);
            *digests = Some(lines);
            return match (same, self.args.update) {
                (Err(change), true) => Ok(Outcome::Updated(format!("{change:#}"))),
                (same, _) => same.map(|()| Outcome::Passed),
            };
        }
        if self.args.update {
            let changes = case.update(&self.options, &threads)?;
            return Ok(match changes.is_empty() {
                true => Outcome::Passed,
                false => Outcome::Updated(changes.join("; ")),
            });
        }
        case.run(&self.options, &threads).map(|_| Outcome::Passed)
    }
}
