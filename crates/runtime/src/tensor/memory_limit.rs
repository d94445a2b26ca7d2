//! The limit on the bytes of all tensors of the process.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

static LIMIT: AtomicU64 = AtomicU64::new(u64::MAX);
static USED: AtomicU64 = AtomicU64::new(0);
static REFUSED: AtomicU64 = AtomicU64::new(0);

/// Tensors of up to this many bytes are counted but never rejected. They are mostly shapes and
/// axes, allocated during compilation, where no layer could be named.
const UNCOUNTED_BYTES: u64 = 4096;

/// Limits the bytes of all tensors of the process together; `None` removes the limit.
///
/// A tensor that does not fit is rejected before it is allocated, with a message that names the
/// layer. Weights in a mapped file do not count. The limit holds for all sessions of the process.
pub fn set_memory_limit(bytes: Option<u64>) {
    LIMIT.store(bytes.unwrap_or(u64::MAX), Relaxed);
}

/// Bytes that tensors may still take; `u64::MAX` minus the bytes in use if there is no limit.
pub fn memory_left() -> u64 {
    LIMIT.load(Relaxed).saturating_sub(USED.load(Relaxed))
}

/// How many tensors the limit has rejected, in all sessions of the process.
pub fn memory_refusals() -> u64 {
    REFUSED.load(Relaxed)
}

/// Bytes counted against the limit, until dropped.
pub(super) struct Charge(u64);

impl Charge {
    /// Counts these bytes, if they fit the limit.
    pub(super) fn new(bytes: usize) -> Option<Charge> {
        let (bytes, limit) = (bytes as u64, LIMIT.load(Relaxed));
        let with = |used: u64| {
            used.checked_add(bytes).filter(|sum| bytes <= UNCOUNTED_BYTES || *sum <= limit)
        };
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

/// For messages: why the limit leaves no space for this many bytes. Empty if it does.
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
