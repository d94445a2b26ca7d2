//! `irrun bench --trace`: when each layer ran, as Trace Events of Chrome.
//!
//! The form is that of "Trace Event Format", which `ui.perfetto.dev`, `chrome://tracing` and
//! speedscope read: complete events (`ph` X) with microseconds, nested by their times.

use crate::out;
use anyhow::Result;
use runtime::StepSpan;
use serde::Serialize;
use std::path::Path;
use std::time::Duration;

/// A file.
#[derive(Serialize)]
struct Trace<'a> {
    #[serde(rename = "displayTimeUnit")]
    unit: &'static str,
    #[serde(rename = "traceEvents")]
    events: Vec<Event<'a>>,
}

/// One execution of a layer, or for `ph` M the name of the process.
#[derive(Serialize)]
struct Event<'a> {
    name: &'a str,
    #[serde(rename = "cat")]
    category: &'a str,
    #[serde(rename = "ph")]
    phase: &'static str,
    /// Microseconds since the run began.
    #[serde(rename = "ts")]
    start: f64,
    /// Microseconds.
    #[serde(rename = "dur")]
    time: f64,
    #[serde(rename = "pid")]
    process: u32,
    #[serde(rename = "tid")]
    thread: u32,
    args: Notes<'a>,
}

/// What is shown of an event that is selected.
#[derive(Serialize)]
struct Notes<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    kernel: &'a str,
}

/// Writes the steps of a run of a model.
///
/// # Errors
/// When the file cannot be written.
pub(crate) fn write(path: &Path, model: &Path, spans: &[StepSpan]) -> Result<()> {
    let model = model.display().to_string();
    let named = Event {
        name: "process_name",
        category: "",
        phase: "M",
        start: 0.0,
        time: 0.0,
        process: 1,
        thread: 1,
        args: Notes { name: &model, kernel: "" },
    };
    let mut events = vec![named];
    events.extend(spans.iter().map(event));
    let trace = Trace { unit: "ms", events };
    out::write_whole(path, |file| {
        serde_json::to_writer(&mut *file, &trace)?;
        Ok(writeln!(file)?)
    })
}

/// The bar of a step says its operation; the layer is in its notes.
fn event(span: &StepSpan) -> Event<'_> {
    Event {
        name: &span.op_type,
        category: span.kernel,
        phase: "X",
        start: microseconds(span.start),
        time: microseconds(span.time),
        process: 1,
        thread: 1,
        args: Notes { name: &span.layer, kernel: span.kernel },
    }
}

fn microseconds(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}
