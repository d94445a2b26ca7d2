//! How many bytes the tensors of this process may take.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

static LIMIT: AtomicU64 = AtomicU64::new(u64::MAX);
static USED: AtomicU64 = AtomicU64::new(0);
static REFUSED: AtomicU64 = AtomicU64::new(0);

/// What takes no more is counted, but never refused: shapes and axes, which planning asks for where
/// no layer can be named.
const SMALL: u64 = 4096;

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

/// How often the limit has refused a tensor, in all sessions of the process.
pub fn memory_refusals() -> u64 {
    REFUSED.load(Relaxed)
}

/// Bytes counted against the limit, until it is dropped.
pub(super) struct Charge(u64);

impl Charge {
    /// Counts so many bytes, if they fit the limit.
    pub(super) fn new(bytes: usize) -> Option<Charge> {
        let (bytes, limit) = (bytes as u64, LIMIT.load(Relaxed));
        let with =
            |used: u64| used.checked_add(bytes).filter(|sum| bytes <= SMALL || *sum <= limit);
        let counted = USED.fetch_update(Relaxed, Relaxed, with);
        if counted.is_err() {
            REFUSED.fetch_add(1, Relaxed);
        }
        counted.ok().map(|_| Charge(bytes))
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
