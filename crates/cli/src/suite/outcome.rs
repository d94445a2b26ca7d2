//! What became of the cases, as people and programs read it.

use schemars::JsonSchema;
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

/// A case that was run.
pub struct Tested {
    /// What was run.
    pub path: PathBuf,
    /// The file that describes it.
    pub described_in: PathBuf,
    /// What became of it.
    pub outcome: Outcome,
    /// What it took.
    pub time: Duration,
    /// Its digests, where they are asked for.
    pub digests: Option<ItemDigests>,
}

/// Digests of an item: their file, its name there, and the lines.
pub type ItemDigests = (PathBuf, String, Vec<String>);

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
    /// What people call it.
    pub fn name(&self) -> &'static str {
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

/// What `irrun test --json` prints.
#[derive(Serialize, JsonSchema)]
pub struct Report {
    /// Cases that passed.
    pub passed: usize,
    /// Those that failed.
    pub failed: usize,
    /// Cases whose goldens or digests were written anew.
    pub updated: usize,
    /// Cases with an operation that irrun does not know.
    pub skipped: usize,
    /// Those that failed as a flag says.
    pub failed_as_expected: usize,
    /// What all of it took.
    pub seconds: f64,
    cases: Vec<CaseReport>,
}

/// What became of a case.
#[derive(Serialize, JsonSchema)]
struct CaseReport {
    /// Its folder, or the suite file and its name there.
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
    /// Counts outcomes.
    pub fn new(tested: &[Tested], time: Duration) -> Report {
        let count = |name| tested.iter().filter(|t| t.outcome.name() == name).count();
        let case = |Tested { path, outcome, time, .. }: &Tested| CaseReport {
            case: path.display().to_string(),
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
