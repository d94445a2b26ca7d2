//! What is prepared when it is needed for the second time: a process that runs a model once has no
//! use for it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Something made from inputs that are the same in every run.
pub(crate) struct Again<T> {
    /// Whether they are.
    is_invariant: bool,
    ran: AtomicBool,
    made: OnceLock<T>,
}

impl<T> Again<T> {
    pub(crate) fn new(is_invariant: bool) -> Again<T> {
        Again { is_invariant, ran: AtomicBool::new(false), made: OnceLock::new() }
    }

    /// What was made, from the second run on.
    pub(crate) fn get(&self, make: impl FnOnce() -> T) -> Option<&T> {
        let again = self.ran.swap(true, Ordering::Relaxed);
        (self.is_invariant && again).then(|| self.made.get_or_init(make))
    }
}
