//! What programs read: every `--json` is a type that serde writes, and its JSON Schema stands in
//! `docs/schema/`. A new report is a `struct` with `Serialize` and `JsonSchema`, a call of
//! [`print()`], and a row of [`SCHEMAS`].

use crate::exit::{Exit, Failure};
use crate::finding::Finding;
use crate::suite::{case_file, file, outcome};
use crate::surgery::written;
use crate::{
    batch, bench, check, diff, draw, explain, generate, inspect, operations, print, symbolic,
};
use ir::Diagnostics;
use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings};
use serde::Serialize;

/// A report with the version of its form.
#[derive(Serialize, JsonSchema)]
struct Versioned<T> {
    /// The version of the form: it grows when a key changes its meaning.
    schema: u32,
    #[serde(flatten)]
    report: T,
}

/// The version of the form: 2 since the first values of outputs are numbers.
const VERSION: u32 = 2;

/// Prints a report on a line, `schema` first.
///
/// # Errors
/// When it cannot be written, as on a full disk.
pub fn print(report: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(&Versioned { schema: VERSION, report });
    print::raw(format_args!("{}\n", text.unwrap_or_default()))
}

/// Prints what went wrong, for a command that was to print a report. Standard error tells it as
/// well, and the exit code stays.
pub fn print_failure(failure: &Failure) {
    let problems = failure.error.downcast_ref::<Diagnostics>();
    let findings = problems.map(|all| Finding::all(all.list(), all.source_file()));
    print_error(failure.exit, &failure.to_string(), findings.unwrap_or_default());
}

/// As [`print_failure`], for a command line that is not understood.
pub fn print_usage_error(message: &str) {
    let (message, _) = message.split_once("\n\nUsage:").unwrap_or((message, ""));
    print_error(Exit::Usage, message, Vec::new());
}

fn print_error(exit: Exit, message: &str, findings: Vec<Finding>) {
    let message = message.strip_prefix("error: ").unwrap_or(message).trim_end().to_owned();
    let error = ErrorReport { exit_code: exit.code(), message, findings };
    // There is nobody left to tell when it cannot be printed.
    let _ = print(&Failed { ok: false, error });
}

/// What stands in place of a report when a command cannot give one.
#[derive(Serialize, JsonSchema)]
struct Failed {
    /// Always false.
    ok: bool,
    error: ErrorReport,
}

/// Why a command could not do what it was asked for.
#[derive(Serialize, JsonSchema)]
struct ErrorReport {
    /// The exit code: 2 bad usage, 3 bad model, 4 bad input, 5 failed while running.
    exit_code: u8,
    /// What standard error says, without `error: `.
    message: String,
    /// What is wrong with the model, if the model is at fault.
    findings: Vec<Finding>,
}

/// The name of a file below `docs/schema/`, and what it holds.
pub type Named = (&'static str, fn() -> Schema);

/// The schema of each report by the name of its file below `docs/schema/`.
pub const SCHEMAS: &[Named] = &[
    ("batch", report::<batch::Report>),
    ("bench", report::<bench::Report<'static>>),
    ("case", of::<case_file::CaseFile>),
    ("check", report::<check::Report>),
    ("diff", report::<diff::Report>),
    ("error", report::<Failed>),
    ("explain", report::<explain::Report>),
    ("generate", report::<generate::Report>),
    ("graph", report::<draw::Report>),
    ("inspect", report::<inspect::Report<'static>>),
    ("ops", report::<operations::Report>),
    ("run", report::<crate::report::Report>),
    ("suite", of::<file::Content>),
    ("symbolic", report::<symbolic::Report>),
    ("test", report::<outcome::Report>),
    ("written", report::<written::Report>),
];

fn report<T: JsonSchema>() -> Schema {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    SchemaGenerator::new(settings).into_root_schema_for::<Versioned<T>>()
}

fn of<T: JsonSchema>() -> Schema {
    SchemaGenerator::new(SchemaSettings::draft2020_12()).into_root_schema_for::<T>()
}
