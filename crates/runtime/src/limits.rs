//! Limits of a run: a timeout, and cancellation from another thread.

use crate::error::KernelError;
use ir::Layer;
use std::cell::Cell;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Limits of a run. The default has none.
///
/// Both are checked between layers, also in bodies; a single layer is not interrupted. The memory
/// of tensors is limited for the process, by [`crate::set_memory_limit`].
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// The longest time of one run.
    pub time: Option<Duration>,
    /// A token with which another thread can end the run.
    pub cancellation: Option<CancellationToken>,
}

/// Ends runs from another thread, and reports their progress. Clones share one state.
#[derive(Clone, Debug, Default)]
pub struct CancellationToken(Arc<TokenState>);

#[derive(Debug, Default)]
struct TokenState {
    reason: OnceLock<String>,
    progress: Mutex<Progress>,
}

/// The progress of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The layer that runs now or ran last, with its type; it may belong to a body. Empty before
    /// the first layer.
    pub layer: String,
    /// The index of the step that runs now.
    pub step: usize,
    /// The number of steps of the plan.
    pub steps: usize,
    /// How many bodies have started within the step.
    pub iterations: u64,
}

impl CancellationToken {
    /// Ends the run before its next layer, and every later run. Messages give the reason of the
    /// first call.
    pub fn cancel(&self, reason: impl Into<String>) {
        let _: Result<(), String> = self.0.reason.set(reason.into());
    }

    /// The reason, once the token is cancelled.
    pub fn reason(&self) -> Option<&str> {
        self.0.reason.get().map(String::as_str)
    }

    /// The layer that runs now or ran last, with its type; `None` before the first layer.
    pub fn layer(&self) -> Option<String> {
        Some(self.progress().layer).filter(|layer| !layer.is_empty())
    }

    /// The progress of the run.
    pub fn progress(&self) -> Progress {
        self.state().clone()
    }

    fn state(&self) -> MutexGuard<'_, Progress> {
        self.0.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Called when a layer starts. Unless it belongs to a body, it is step `at.0` of `at.1`.
    fn enter(&self, layer: &Layer, at: Option<(usize, usize)>) {
        use std::fmt::Write;
        let mut progress = self.state();
        progress.layer.clear();
        // Writing to a string cannot fail.
        let _ = write!(progress.layer, "{} layer \"{}\"", layer.op_type, layer.name);
        if let Some((step, steps)) = at {
            (progress.step, progress.steps, progress.iterations) = (step, steps, 0);
        }
    }
}

/// Limits, with the deadline of the current run.
pub(crate) struct RunLimits {
    limits: Limits,
    deadline: Cell<Option<Instant>>,
    /// How many graphs are running: the model, and nested bodies.
    depth: Cell<usize>,
}

/// A running graph, until it is dropped.
pub(crate) struct RunningGraph<'a>(&'a Cell<usize>);

impl Drop for RunningGraph<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}

impl RunLimits {
    pub(crate) fn new(limits: Limits) -> RunLimits {
        RunLimits { limits, deadline: Cell::new(None), depth: Cell::new(0) }
    }

    /// Called when the model or a body starts.
    pub(crate) fn begin_graph(&self) -> RunningGraph<'_> {
        let depth = self.depth.get() + 1;
        self.depth.set(depth);
        if let (2, Some(token)) = (depth, &self.limits.cancellation) {
            token.state().iterations += 1;
        }
        RunningGraph(&self.depth)
    }

    /// Called when a run starts.
    pub(crate) fn start(&self) {
        self.deadline.set(self.limits.time.and_then(|time| Instant::now().checked_add(time)));
    }

    /// Fails if the run is cancelled or past its deadline.
    pub(crate) fn check(&self) -> Result<(), KernelError> {
        if let Some(reason) = self.limits.cancellation.as_ref().and_then(CancellationToken::reason)
        {
            return Err(KernelError::new(reason));
        }
        match (self.deadline.get(), self.limits.time) {
            (Some(deadline), Some(time)) if Instant::now() >= deadline => {
                let seconds = time.as_secs_f64();
                Err(KernelError::new(format!("the run takes more than its limit of {seconds} s")))
            }
            _ => Ok(()),
        }
    }

    /// As [`RunLimits::check`], before a layer runs as step `at.0` of `at.1`.
    pub(crate) fn enter(
        &self,
        layer: Option<&Layer>,
        at: (usize, usize),
    ) -> Result<(), KernelError> {
        self.check()?;
        if let (Some(token), Some(layer)) = (&self.limits.cancellation, layer) {
            token.enter(layer, (self.depth.get() == 1).then_some(at));
        }
        Ok(())
    }
}
