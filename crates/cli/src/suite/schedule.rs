//! Items that run side by side within `--max-memory`: each begins when what it is expected to need
//! is left, and one that was refused while others ran is run again alone.

use crate::limits::{self, Item};
use crate::memory::own_memory;
use crate::run;
use anyhow::Result;
use ir::Graph;
use runtime::{Limits, Options, Plan, Session, Tensor, Threads};
use std::cell::{Cell, RefCell};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// How an item runs: with which options, on which threads, and in which memory.
pub struct Runner<'a> {
    options: Options,
    threads: Arc<Threads>,
    turn: Option<Turn<'a>>,
}

impl<'a> Runner<'a> {
    /// Runs as soon as it is asked to.
    pub fn new(options: Options, threads: Arc<Threads>) -> Runner<'static> {
        Runner { options, threads, turn: None }
    }

    /// Runs when there is memory for it.
    pub fn with_turn(options: Options, threads: Arc<Threads>, turn: Turn<'a>) -> Runner<'a> {
        let limits = Limits { cancellation: Some(turn.item.token()), ..options.limits.clone() };
        Runner { options: Options { limits, ..options }, threads, turn: Some(turn) }
    }

    /// A session for these inputs, once there is memory for what it runs.
    ///
    /// # Errors
    /// What is wrong with the model.
    pub fn session(&self, graph: &Graph, inputs: &[Tensor], runs_once: bool) -> Result<Session> {
        let Some(turn) = &self.turn else {
            return Ok(self.plan(graph, inputs, false)?.session_on(Arc::clone(&self.threads)));
        };
        let plan = self.plan(graph, inputs, runs_once)?;
        turn.wait_for(expected(graph, &plan, inputs, runs_once));
        Ok(plan.session_on(Arc::clone(&self.threads)))
    }

    fn plan(&self, graph: &Graph, inputs: &[Tensor], runs_once: bool) -> Result<Plan> {
        let options = Options { runs_once, ..self.options.clone() };
        run::plan(graph, inputs, &[], &options).map_err(|failure| failure.error)
    }

    /// Whether it may have been refused memory that others had.
    pub fn was_crowded(&self) -> bool {
        self.turn.as_ref().is_some_and(Turn::was_crowded)
    }
}

/// What is there of an output while it is compared, in multiples of it: itself, the golden, and
/// both as f64.
const COMPARED: u64 = 6;

/// Bytes of a graph and its plan for each byte of the XML: 8 to 20 for models of some hundred
/// layers.
const PER_BYTE_OF_XML: u64 = 20;

/// The most bytes that an item is expected to need, without those of the process as it began.
fn expected(graph: &Graph, plan: &Plan, inputs: &[Tensor], runs_once: bool) -> u64 {
    let memory = plan.memory(1);
    let inputs: u64 = inputs.iter().map(|tensor| tensor.bytes().len() as u64).sum();
    let xml = std::fs::metadata(graph.source().path()).map_or(0, |file| file.len());
    // The second run packs them.
    let packed = if runs_once { 0 } else { weights(graph) };
    let parts = [memory.arena, COMPARED.saturating_mul(memory.outputs), memory.constants, inputs];
    let rest = [packed, memory.kernels, PER_BYTE_OF_XML.saturating_mul(xml)];
    parts.iter().chain(&rest).fold(0, |sum, part| sum.saturating_add(*part))
}

/// Bytes of the constants as they are multiplied: halves as f32.
fn weights(graph: &Graph) -> u64 {
    let bytes = |layer: &ir::Layer| {
        let size: u64 = layer.attribute("size").and_then(|text| text.parse().ok()).unwrap_or(0);
        let is_half = matches!(layer.attribute("element_type"), Some("f16" | "bf16"));
        if is_half { size.saturating_mul(2) } else { size }
    };
    graph.layers().iter().fold(0, |sum, layer| sum.saturating_add(bytes(layer)))
}

/// From so many bytes on, blocks go back to the system when they are freed, and not to a heap that
/// each thread has for itself.
const MMAP_THRESHOLD: usize = 1 << 19;

/// The memory that items share.
pub struct Memory {
    limit: u64,
    /// What the process had before the first.
    process: u64,
    /// One item at a time reads its model and its inputs and is planned: that memory is not asked
    /// for.
    planning: Mutex<()>,
    admitted: Mutex<Admitted>,
    ended: Condvar,
}

#[derive(Default)]
struct Admitted {
    items: usize,
    expected: u64,
}

impl Memory {
    /// So many bytes for the process.
    pub fn new(limit: u64) -> Memory {
        let (planning, admitted) = (Mutex::new(()), Mutex::default());
        runtime::set_mmap_threshold(MMAP_THRESHOLD);
        let process = own_memory().unwrap_or(0);
        Memory { limit, process, planning, admitted, ended: Condvar::new() }
    }

    /// Waits for the turn of an item to be planned.
    pub fn turn(&self) -> Turn<'_> {
        self.begin(false)
    }

    /// The same, until nothing else runs. Nothing else begins before the turn ends.
    pub fn turn_alone(&self) -> Turn<'_> {
        let turn = self.begin(true);
        drop(self.wait_while(|admitted| admitted.items > 0));
        turn
    }

    fn begin(&self, is_alone: bool) -> Turn<'_> {
        let planning = self.planning.lock().unwrap_or_else(PoisonError::into_inner);
        let (planning, expected) = (RefCell::new(Some(planning)), Cell::new(None));
        let refusals = runtime::memory_refusals();
        Turn { memory: self, planning, is_alone, expected, refusals, item: limits::item() }
    }

    fn wait_while(&self, waits: impl Fn(&Admitted) -> bool) -> MutexGuard<'_, Admitted> {
        let admitted = self.admitted.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = self.ended.wait_while(admitted, |admitted| waits(admitted));
        ended.unwrap_or_else(PoisonError::into_inner)
    }
}

/// An item that is planned or runs.
pub struct Turn<'a> {
    memory: &'a Memory,
    /// Until it is admitted, or to its end if it runs alone.
    planning: RefCell<Option<MutexGuard<'a, ()>>>,
    is_alone: bool,
    /// What it is expected to need, once it is admitted.
    expected: Cell<Option<u64>>,
    /// How often tensors had been refused before.
    refusals: u64,
    item: Item,
}

impl Turn<'_> {
    /// Waits until so many bytes are left, or nothing else runs. Only the first session of an item
    /// waits.
    fn wait_for(&self, bytes: u64) {
        if self.expected.get().is_some() {
            return;
        }
        let Memory { limit, process, .. } = *self.memory;
        let sum = |others: u64| process.saturating_add(others).saturating_add(bytes);
        let is_full = |admitted: &Admitted| admitted.items > 0 && sum(admitted.expected) > limit;
        let mut admitted = self.memory.wait_while(is_full);
        admitted.items += 1;
        admitted.expected = admitted.expected.saturating_add(bytes);
        self.expected.set(Some(bytes));
        if !self.is_alone {
            self.planning.take();
        }
    }

    fn was_crowded(&self) -> bool {
        let was_refused = runtime::memory_refusals() > self.refusals;
        // What reads inputs looks at the memory that is left, and refuses by itself.
        let is_unplanned = self.expected.get().is_none();
        !self.is_alone && (was_refused || is_unplanned || self.item.was_ended())
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let Some(bytes) = self.expected.get() else { return };
        let admitted = self.memory.admitted.lock();
        let mut admitted = admitted.unwrap_or_else(PoisonError::into_inner);
        admitted.items = admitted.items.saturating_sub(1);
        admitted.expected = admitted.expected.saturating_sub(bytes);
        drop(admitted);
        self.memory.ended.notify_all();
    }
}
