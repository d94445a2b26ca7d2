//! The size of tensors in bytes, and the error for too large ones.
#![forbid(unsafe_code)]

use super::memory_limit::reason;
use crate::error::KernelError;
use ir::ElementType;

/// Buffers are aligned to cache lines, so that kernels may use whole lines.
pub(super) const ALIGN: usize = 64;

/// Bytes or sizes that do not form a tensor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TensorError {
    message: String,
}

impl From<TensorError> for KernelError {
    fn from(error: TensorError) -> KernelError {
        KernelError::new(error.to_string())
    }
}

impl TensorError {
    pub(crate) fn new(message: String) -> TensorError {
        TensorError { message }
    }
}

/// The bytes of a tensor of packed elements.
///
/// # Errors
/// When the size exceeds the address space.
pub fn packed_len(element_type: ElementType, sizes: &[usize]) -> Result<usize, TensorError> {
    let len = count(element_type, sizes).map(|n| element_type.packed_len(n as u64));
    let limit = isize::MAX as u64 - 2 * ALIGN as u64;
    match len?.filter(|len| *len <= limit) {
        Some(len) => Ok(len as usize),
        None => Err(too_large(element_type, sizes)),
    }
}

/// The number of elements. Even if one size is 0, the product of the others must not overflow.
pub(super) fn count(element_type: ElementType, sizes: &[usize]) -> Result<usize, TensorError> {
    let product = sizes.iter().try_fold(1usize, |n, &s| n.checked_mul(s.max(1)));
    let count = if sizes.contains(&0) { product.and(Some(0)) } else { product };
    count.ok_or_else(|| too_large(element_type, sizes))
}

/// Whether this much memory is available now, within the limit. Touches no memory.
pub(crate) fn is_available(len: usize) -> bool {
    reason(len).is_empty() && Vec::<u8>::new().try_reserve_exact(len).is_ok()
}

/// The error if the system refuses memory.
pub(super) fn no_memory(element_type: ElementType, sizes: &[usize]) -> TensorError {
    let reason = packed_len(element_type, sizes).map(reason).unwrap_or_default();
    TensorError::new(format!("there is no memory for {element_type}{sizes:?}{reason}"))
}

fn too_large(element_type: ElementType, sizes: &[usize]) -> TensorError {
    TensorError::new(format!("{element_type}{sizes:?} would not fit any memory"))
}
