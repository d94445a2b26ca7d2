//! How much memory a tensor takes, and what is said where there is none.
#![forbid(unsafe_code)]

use super::memory_limit::reason;
use ir::ElementType;

/// Buffers begin at a cache line, so that kernels may use whole lines.
pub(super) const ALIGN: usize = 64;

/// Bytes or sizes that do not make a tensor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TensorError {
    message: String,
}

impl TensorError {
    pub(crate) fn new(message: String) -> TensorError {
        TensorError { message }
    }
}

/// Bytes that a tensor of packed elements occupies.
///
/// # Errors
/// When no memory could hold it.
pub fn packed_len(element_type: ElementType, sizes: &[usize]) -> Result<usize, TensorError> {
    let len = count(element_type, sizes).map(|n| element_type.packed_len(n as u64));
    let limit = isize::MAX as u64 - 2 * ALIGN as u64;
    match len?.filter(|len| *len <= limit) {
        Some(len) => Ok(len as usize),
        None => Err(too_large(element_type, sizes)),
    }
}

/// Number of elements. The other sizes must be possible even where one of them is 0.
pub(super) fn count(element_type: ElementType, sizes: &[usize]) -> Result<usize, TensorError> {
    let product = sizes.iter().try_fold(1usize, |n, &s| n.checked_mul(s.max(1)));
    let count = if sizes.contains(&0) { product.and(Some(0)) } else { product };
    count.ok_or_else(|| too_large(element_type, sizes))
}

/// Whether so much memory can be had at this moment, within the limit. Nothing is touched.
pub(crate) fn is_available(len: usize) -> bool {
    reason(len).is_empty() && Vec::<u8>::new().try_reserve_exact(len).is_ok()
}

/// What is said when the system refuses.
pub(super) fn no_memory(element_type: ElementType, sizes: &[usize]) -> TensorError {
    let reason = packed_len(element_type, sizes).map(reason).unwrap_or_default();
    TensorError::new(format!("there is no memory for {element_type}{sizes:?}{reason}"))
}

fn too_large(element_type: ElementType, sizes: &[usize]) -> TensorError {
    TensorError::new(format!("{element_type}{sizes:?} would not fit any memory"))
}
