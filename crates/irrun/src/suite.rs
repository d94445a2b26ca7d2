//! `irrun test`: every case folder below some directories, divided among threads.

use crate::args::TestArgs;
use crate::case::{self, Case};
use crate::exit::{Exit, Failure, OrExit};
use crate::text::{Glob, nearest};
use crate::{json, limits, print};
use anyhow::{Result, ensure};
use rayon::prelude::*;
use runtime::{Options, Threads};
use schemars::JsonSchema;
use serde::Serialize;
use std::borrow::Cow;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Runs the cases.
///
/// # Errors
/// When a directory cannot be read or holds no case, or a pattern of `--expect-failure` names none.
pub fn test(args: &TestArgs) -> Result<Exit, Failure> {
    let dirs = cases(&args.dirs).or_exit(Exit::Usage)?;
    all_name_a_case(&args.expect_failure, &dirs).or_exit(Exit::Usage)?;
    let options = Options {
        optimize: !args.no_optimize,
        precision: args.precision.into(),
        limits: limits::of_run(),
        ..Options::default()
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(args.threads.unwrap_or(0)).build();
    let pool = pool.or_exit(Exit::Running)?;
    let one = |dir: &PathBuf| (dir.clone(), outcome(dir, args, &options));
    let outcomes: Vec<_> = pool.install(|| dirs.par_iter().map(one).collect());
    let count = |wanted: fn(&Outcome) -> bool| outcomes.iter().filter(|(_, o)| wanted(o)).count();
    let failed = count(|o| matches!(o, Outcome::Failed(_)));
    let skipped = count(|o| matches!(o, Outcome::Skipped));
    let expected = count(|o| matches!(o, Outcome::FailedAsExpected));
    let passed = outcomes.len() - failed - skipped - expected;
    if args.json {
        let case = |(dir, outcome): &(PathBuf, Outcome)| CaseReport {
            case: dir.display().to_string(),
            passed: matches!(outcome, Outcome::Passed),
            outcome: outcome.name(),
            message: outcome.message().map(str::to_owned),
        };
        let cases = outcomes.iter().map(case).collect();
        json::print(&Report { passed, failed, skipped, failed_as_expected: expected, cases })?;
    } else {
        for (dir, outcome) in &outcomes {
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
        let more = [(expected, "failed as expected"), (skipped, "skipped as unsupported")];
        let more = more.iter().filter(|(n, _)| *n > 0).map(|(n, text)| format!(", {n} {text}"));
        let more: String = more.collect();
        print::line(format_args!("{passed} passed, {failed} failed{more}"))?;
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
        ensure!(!found.is_empty(), "no case.json below {}", dir.display());
        let new = |dir: &PathBuf| seen.insert(dir.canonicalize().unwrap_or_else(|_| dir.clone()));
        dirs.extend(found.into_iter().filter(new));
    }
    Ok(dirs)
}

/// A pattern that no case has is mistyped, or its case is gone: what it was to watch, it does not.
fn all_name_a_case(patterns: &[Glob], dirs: &[PathBuf]) -> Result<()> {
    let names: Vec<_> = dirs.iter().map(|dir| name(dir)).collect();
    let idle = patterns.iter().filter(|pattern| !names.iter().any(|name| pattern.matches(name)));
    let described: Vec<String> = idle
        .map(|pattern| match nearest(pattern.as_str(), names.iter().map(|name| &**name)) {
            Some(near) => format!("{pattern} (did you mean \"{near}\"?)"),
            None => pattern.to_string(),
        })
        .collect();
    ensure!(
        described.is_empty(),
        "--expect-failure: no case is named {}",
        described.join(", nor ")
    );
    Ok(())
}

/// What a pattern is compared with.
fn name(dir: &Path) -> Cow<'_, str> {
    dir.file_name().unwrap_or_default().to_string_lossy()
}

/// What became of a case.
enum Outcome {
    Passed,
    Failed(String),
    FailedAsExpected,
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
    let must_fail = args.expect_failure.iter().any(|pattern| pattern.matches(&name(dir)));
    match result {
        Ok(Outcome::Passed) if must_fail => Outcome::Failed("passes, but must fail".to_owned()),
        Err(_) if must_fail => Outcome::FailedAsExpected,
        Ok(outcome) => outcome,
        Err(error) => Outcome::Failed(format!("{error:#}")),
    }
}
