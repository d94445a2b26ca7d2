//! How many bytes the tensors of this process may take.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

static LIMIT: AtomicU64 = AtomicU64::new(u64::MAX);
static USED: AtomicU64 = AtomicU64::new(0);

/// Limits the bytes of all tensors of this process together; `None` takes the limit away.
///
/// What does not fit is refused with a message that names the layer, before memory is asked for.
/// Weights that stay in their mapped file do not count. The limit holds for every session of the
/// process, as they share its memory.
pub fn set_memory_limit(bytes: Option<u64>) {
    LIMIT.store(bytes.unwrap_or(u64::MAX), Relaxed);
}

/// Bytes that tensors may take yet; more than any memory where there is no limit.
pub fn memory_left() -> u64 {
    LIMIT.load(Relaxed).saturating_sub(USED.load(Relaxed))
}

/// Bytes counted against the limit, until it is dropped.
pub(super) struct Charge(u64);

impl Charge {
    /// Counts so many bytes, if they fit the limit.
    pub(super) fn new(bytes: usize) -> Option<Charge> {
        let charge = Charge(bytes as u64);
        let before = USED.fetch_add(charge.0, Relaxed);
        (before.saturating_add(charge.0) <= LIMIT.load(Relaxed)).then_some(charge)
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        USED.fetch_sub(self.0, Relaxed);
    }
}

/// What leaves no room for so many bytes, for messages: nothing where it is not the limit.
pub(crate) fn reason(bytes: usize) -> String {
    let limit = LIMIT.load(Relaxed);
    let used = USED.load(Relaxed);
    if used.saturating_add(bytes as u64) <= limit {
        return String::new();
    }
    format!(
        "; it needs {bytes} bytes, and tensors already take {used} of the {limit} bytes that the \
         memory limit allows"
    )
}
