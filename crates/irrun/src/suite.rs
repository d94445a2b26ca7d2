//! `irrun test`: every case folder below some directories, divided among threads.

use crate::args::TestArgs;
use crate::case::{self, Case};
use crate::exit::{Exit, Failure, OrExit};
use crate::text::{Glob, nearest};
use crate::{json, limits, out, print, suite_formats};
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

/// Runs the cases.
///
/// # Errors
/// When a directory cannot be read or holds no case, or a pattern of `--expect-failure` names none.
pub fn test(args: &TestArgs) -> Result<Exit, Failure> {
    let start = Instant::now();
    let dirs = cases(&args.dirs).or_exit(Exit::Usage)?;
    all_name_a_case("--expect-failure", &args.expect_failure, &dirs).or_exit(Exit::Usage)?;
    all_name_a_case("--filter", &args.filter, &dirs).or_exit(Exit::Usage)?;
    let dirs = chosen(dirs, args);
    let options = Options {
        optimize: !args.no_optimize,
        precision: args.precision.into(),
        limits: limits::of_run(),
        ..Options::default()
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(args.threads.unwrap_or(0)).build();
    let pool = pool.or_exit(Exit::Running)?;
    let stop = AtomicBool::new(false);
    let one = |dir: &PathBuf| {
        if args.fail_fast && stop.load(Ordering::Relaxed) {
            return None;
        }
        let begin = Instant::now();
        let outcome = outcome(dir, args, &options);
        stop.fetch_or(matches!(outcome, Outcome::Failed(_)), Ordering::Relaxed);
        Some(Tested { dir: dir.clone(), outcome, time: begin.elapsed() })
    };
    let tested: Vec<Tested> = pool.install(|| dirs.par_iter().filter_map(one).collect());
    let count = |wanted: fn(&Outcome) -> bool| tested.iter().filter(|t| wanted(&t.outcome)).count();
    let failed = count(|o| matches!(o, Outcome::Failed(_)));
    let skipped = count(|o| matches!(o, Outcome::Skipped));
    let expected = count(|o| matches!(o, Outcome::FailedAsExpected));
    let passed = tested.len() - failed - skipped - expected;
    if args.json {
        let case = |Tested { dir, outcome, time }: &Tested| CaseReport {
            case: dir.display().to_string(),
            passed: matches!(outcome, Outcome::Passed),
            outcome: outcome.name(),
            message: outcome.message().map(str::to_owned),
            seconds: time.as_secs_f64(),
        };
        let cases = tested.iter().map(case).collect();
        let seconds = start.elapsed().as_secs_f64();
        let failed_as_expected = expected;
        json::print(&Report { passed, failed, skipped, failed_as_expected, seconds, cases })?;
    } else {
        for Tested { dir, outcome, .. } in &tested {
            match outcome {
                Outcome::Failed(message) => {
                    print::line(format_args!("FAILED {}: {message}", dir.display()))?;
                }
                other if args.verbose => {
                    print::line(format_args!("{} {}", other.name(), dir.display()))?;
                }
                _ => {}
            }
        }
        if args.github {
            print::text(suite_formats::annotations(&tested))?;
        }
        let left = dirs.len() - tested.len();
        let more = [
            (expected, "failed as expected"),
            (skipped, "skipped as unsupported"),
            (left, "not run"),
        ];
        let more = more.iter().filter(|(n, _)| *n > 0).map(|(n, text)| format!(", {n} {text}"));
        let more: String = more.collect();
        let seconds = start.elapsed().as_secs_f64();
        print::line(format_args!("{passed} passed, {failed} failed{more} in {seconds:.1} s"))?;
    }
    if let Some(path) = &args.junit {
        let write = |out: &mut dyn Write| suite_formats::junit(&tested, out);
        out::write_whole(path, write).or_exit(Exit::Input)?;
    }
    Ok(if failed == 0 { Exit::Good } else { Exit::Failed })
}

/// What `irrun test --json` prints.
#[derive(Serialize, JsonSchema)]
pub struct Report {
    passed: usize,
    failed: usize,
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
    /// `passed`, `failed`, `failed as expected` or `skipped`.
    outcome: &'static str,
    /// What differs or went wrong, if it failed.
    message: Option<String>,
    /// What it took.
    seconds: f64,
}

/// A case that was run.
pub struct Tested {
    /// Its folder.
    pub dir: PathBuf,
    /// What became of it.
    pub outcome: Outcome,
    /// What it took.
    pub time: Duration,
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
            Outcome::FailedAsExpected => "failed as expected",
            Outcome::Skipped => "skipped",
        }
    }

    fn message(&self) -> Option<&str> {
        match self {
            Outcome::Failed(message) => Some(message),
            _ => None,
        }
    }
}

fn outcome(dir: &Path, args: &TestArgs, options: &Options) -> Outcome {
    // Each case on one thread: there are more cases than threads.
    let threads = Arc::new(Threads::new(1));
    let result = Case::open(dir).and_then(|case| {
        if args.skip_unsupported && case.is_unsupported()? {
            return Ok(Outcome::Skipped);
        }
        case.run(options, &threads).map(|_| Outcome::Passed)
    });
    let must_fail = args.expect_failure.iter().any(|pattern| is_called(dir, pattern));
    match result {
        Ok(Outcome::Passed) if must_fail => Outcome::Failed("passes, but must fail".to_owned()),
        Err(_) if must_fail => Outcome::FailedAsExpected,
        Ok(outcome) => outcome,
        Err(error) => Outcome::Failed(format!("{error:#}")),
    }
}
