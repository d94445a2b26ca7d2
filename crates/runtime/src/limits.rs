//! Limits of a run: its time, and a way to stop it from outside.

use crate::error::KernelError;
use ir::Layer;
use std::cell::Cell;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// What ends a run before its outputs are there. Without limits it takes the time it needs.
///
/// Both are looked at between layers, in bodies too: a single layer is not interrupted. What
/// tensors may take is limited for the process, by [`crate::set_memory_limit`].
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// The time that one run may take.
    pub time: Option<Duration>,
    /// Another thread ends the run with it.
    pub cancellation: Option<CancellationToken>,
}

/// Ends runs from another thread, and tells what they are doing. Clones are the same token.
#[derive(Clone, Debug, Default)]
pub struct CancellationToken(Arc<TokenState>);

#[derive(Debug, Default)]
struct TokenState {
    reason: OnceLock<String>,
    /// The layer that runs now.
    layer: Mutex<String>,
}

impl CancellationToken {
    /// Ends the run before its next layer, and every later one. Messages give the reason of the
    /// first call.
    pub fn cancel(&self, reason: impl Into<String>) {
        let _: Result<(), String> = self.0.reason.set(reason.into());
    }

    /// Why runs end, once they are cancelled.
    pub fn reason(&self) -> Option<&str> {
        self.0.reason.get().map(String::as_str)
    }

    /// The layer that runs now or ran last, with its type; nothing before the first.
    pub fn layer(&self) -> Option<String> {
        let layer = self.0.layer.lock().unwrap_or_else(PoisonError::into_inner);
        Some(layer.clone()).filter(|layer| !layer.is_empty())
    }

    fn enter(&self, layer: &Layer) {
        use std::fmt::Write;
        let mut text = self.0.layer.lock().unwrap_or_else(PoisonError::into_inner);
        text.clear();
        // Writing to a string does not fail.
        let _ = write!(text, "{} layer \"{}\"", layer.op_type, layer.name);
    }
}

/// Limits with the time at which the present run ends.
pub(crate) struct RunLimits {
    limits: Limits,
    deadline: Cell<Option<Instant>>,
}

impl RunLimits {
    pub(crate) fn new(limits: Limits) -> RunLimits {
        RunLimits { limits, deadline: Cell::new(None) }
    }

    /// A run begins.
    pub(crate) fn start(&self) {
        self.deadline.set(self.limits.time.and_then(|time| Instant::now().checked_add(time)));
    }

    /// Whether the run may go on.
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

    /// As [`RunLimits::check`], before a layer runs.
    pub(crate) fn enter(&self, layer: Option<&Layer>) -> Result<(), KernelError> {
        self.check()?;
        if let (Some(token), Some(layer)) = (&self.limits.cancellation, layer) {
            token.enter(layer);
        }
        Ok(())
    }
}
