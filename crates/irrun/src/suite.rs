//! `irrun test`: every case folder below some directories, divided among threads.

use crate::args::TestArgs;
use crate::case::{self, Case};
use crate::exit::{Exit, Failure, OrExit};
use crate::print;
use crate::text::glob;
use anyhow::anyhow;
use rayon::prelude::*;
use runtime::{Options, Threads};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Runs the cases.
///
/// # Errors
/// When a directory cannot be read or holds no case.
pub fn test(args: &TestArgs) -> Result<Exit, Failure> {
    let mut dirs = Vec::new();
    for dir in &args.dirs {
        let usage = |error| Failure { exit: Exit::Usage, error };
        if dir.is_file() {
            let text = "is a file; give a directory of case folders";
            return Err(usage(anyhow!("{} {text}", dir.display())));
        }
        let found = case::find(dir).or_exit(Exit::Usage)?;
        if found.is_empty() {
            return Err(usage(anyhow!("no case.json below {}", dir.display())));
        }
        dirs.extend(found);
    }
    let options = Options { optimize: !args.no_optimize, precision: args.precision.into() };
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
        let case = |(dir, outcome): &(PathBuf, Outcome)| {
            json!({ "case": dir.display().to_string(), "passed": matches!(outcome, Outcome::Passed),
                    "outcome": outcome.name(), "message": outcome.message() })
        };
        let cases: Vec<_> = outcomes.iter().map(case).collect();
        print::line(json!({ "schema": 1, "passed": passed, "failed": failed, "skipped": skipped,
                            "failed_as_expected": expected, "cases": cases }))?;
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
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    let must_fail = args.expect_failure.iter().any(|pattern| glob(pattern, &name));
    match result {
        Ok(Outcome::Passed) if must_fail => Outcome::Failed("passes, but must fail".to_owned()),
        Err(_) if must_fail => Outcome::FailedAsExpected,
        Ok(outcome) => outcome,
        Err(error) => Outcome::Failed(format!("{error:#}")),
    }
}
