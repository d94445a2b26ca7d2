//! Memory of the process: what it has, and what a run will need (`irrun check --memory`).

use crate::bind::Declared;
use crate::exit::{Exit, Failure, OrExit};
use crate::limits;
use anyhow::Context;
use ir::Graph;
use runtime::{Options, PlanMemory};
use schemars::JsonSchema;
use serde::Serialize;
use std::num::NonZero;
use std::path::Path;

/// What `irrun MODEL.xml` will need, in bytes that it shares with no file: what `--max-memory`
/// limits. Weights stay in their file.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub(crate) struct Needed {
    /// All of it.
    bytes: u64,
    /// The arena, in which the values of layers follow one another.
    arena: u64,
    /// The outputs.
    outputs: u64,
    /// What kernels pack of the weights, and scratchpads of convolutions.
    kernels: u64,
    /// The model, its plan, and the program.
    process: u64,
    /// Whether there is more whose size is known only while running.
    is_open: bool,
}

/// Lets the heap of a command that ends soon start in large pages.
pub(crate) fn prefer_large_heap() {
    /// More bytes than what is known of most models. Those that are not used are never touched.
    const HEAP: usize = 8 << 20;
    runtime::prefer_large_heap(HEAP);
}

/// The same for a run of a model, if its file is long: model and plan of a shorter one fill no
/// large page, and zeroing it takes longer than touching a few small ones.
pub(crate) fn prefer_large_heap_for(model: &Path) {
    /// Bytes of a file whose model and plan take megabytes.
    const LONG: u64 = 400 << 10;
    if std::fs::metadata(model).is_ok_and(|file| file.len() >= LONG) {
        prefer_large_heap();
    }
}

/// Where an output of a step lives, without the number of a value, which nobody knows: `value 379
/// at byte 0` is a part of another value.
pub(crate) fn place(storage: &str) -> &str {
    if storage.starts_with("value ") { "memory of another value" } else { storage }
}

/// Plans a run with inputs as they are declared.
///
/// # Errors
/// When the model cannot be planned, or an input is open.
pub(crate) fn needed(graph: &Graph, declared: &Declared) -> Result<Needed, Failure> {
    let facts = infer::propagate(graph, &declared.given()).or_exit(Exit::Model)?;
    declared.have_sizes(|_| true).context("--memory").or_exit(Exit::Usage)?;
    let options = Options { runs_once: true, limits: limits::of_run(), ..Options::default() };
    let plan = runtime::compile_with(graph, &facts, &options).or_exit(Exit::Model)?;
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    let PlanMemory { arena, outputs, kernels, is_open, .. } = plan.memory(threads);
    // The model and its plan are here as they will be there.
    let process = counted_memory().or_else(own_memory).unwrap_or(0);
    let bytes = arena + outputs + kernels + process;
    Ok(Needed { bytes, arena, outputs, kernels, process, is_open })
}

/// What people read.
pub(crate) fn text(needed: &Needed) -> String {
    let Needed { bytes, arena, outputs, kernels, process, is_open } = *needed;
    let [bytes, arena, outputs, kernels, process] =
        [bytes, arena, outputs, kernels, process].map(mebibytes);
    let more = if is_open { ", and values whose size is known only while running" } else { "" };
    format!(
        "a run needs {bytes} at least: arena {arena}, outputs {outputs}, packed weights and scratch \
         {kernels}, program with model and plan {process}{more}; weights stay in their file\n"
    )
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// Bytes of memory that the process does not share with files; `None` where the system does not
/// tell.
pub(crate) fn own_memory() -> Option<u64> {
    status("RssAnon:")
}

/// Bytes of memory that the process has had at most; `None` where the system does not tell.
pub(crate) fn peak_memory() -> Option<u64> {
    status("VmHWM:")
}

/// As [`own_memory`], but counted page by page, which takes longer. The system adds up its sums for
/// several pages at a time.
fn counted_memory() -> Option<u64> {
    value_of("Anonymous:", "/proc/self/smaps_rollup")
}

fn status(key: &str) -> Option<u64> {
    value_of(key, "/proc/self/status")
}

/// Bytes that a file of the system tells behind a key, in kB.
fn value_of(key: &str, file: &str) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}
