//! Buffers for tensors whose shape is known only while running.

use crate::error::KernelError;
use crate::tensor::{Tensor, packed_len};
use ir::ElementType;
use std::cell::RefCell;

/// Buffers kept for reuse, at most this many.
const KEPT: usize = 32;

/// Buffers that no tensor uses at the moment.
#[derive(Default)]
pub(crate) struct Pool {
    free: RefCell<Vec<Tensor>>,
}

impl Pool {
    /// A tensor with arbitrary contents: the smallest free buffer that fits, or a new one.
    pub(crate) fn take(
        &self,
        element_type: ElementType,
        sizes: &[usize],
    ) -> Result<Tensor, KernelError> {
        let failed = |e: crate::TensorError| KernelError::new(e.to_string());
        if element_type == ElementType::String {
            return Tensor::zeros(element_type, sizes).map_err(failed);
        }
        let len = packed_len(element_type, sizes).map_err(failed)?;
        let mut free = self.free.borrow_mut();
        // A buffer far too large would be missing where it is needed.
        let fits = |t: &Tensor| (len..=len.saturating_mul(2).max(4096)).contains(&t.capacity());
        let best = (0..free.len()).filter(|&i| fits(&free[i])).min_by_key(|&i| free[i].capacity());
        match best {
            Some(i) => free.swap_remove(i).recycled(element_type, sizes).map_err(failed),
            None => {
                let new = |len| Tensor::zeros(ElementType::U8, &[len]);
                let new = new(with_headroom(len)).or_else(|_| new(len)).map_err(failed)?;
                new.recycled(element_type, sizes).map_err(failed)
            }
        }
    }

    /// Takes back a tensor that nothing needs; kept if nothing shares its memory.
    pub(crate) fn give(&self, tensor: Tensor) {
        let mut free = self.free.borrow_mut();
        if tensor.is_unique() && free.len() < KEPT {
            free.push(tensor);
        }
    }
}

/// Bytes for a buffer of `len`: large ones have up to a quarter more, so that a tensor that grows
/// from one iteration of a loop to the next, or from run to run, finds memory that has been used
/// before. What is never written costs nothing.
fn with_headroom(len: usize) -> usize {
    /// Bytes from which on first use costs more than what is done with it.
    const LARGE: usize = 1 << 18;
    if len < LARGE {
        return len;
    }
    let unit = len.checked_next_power_of_two().map_or(1, |power| power / 8);
    len.checked_next_multiple_of(unit).unwrap_or(len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ElementType::*;

    #[test]
    fn unshared_buffers_come_back() {
        let pool = Pool::default();
        let a = pool.take(F32, &[1000]).unwrap();
        let address = a.bytes().as_ptr();
        let shared = a.clone();
        pool.give(a);
        assert_ne!(pool.take(F32, &[1000]).unwrap().bytes().as_ptr(), address);
        pool.give(shared);
        let b = pool.take(U8, &[3000]).unwrap();
        assert_eq!((b.bytes().as_ptr(), b.sizes()), (address, &[3000][..]));
    }

    /// A tensor that grows by a few rows lies where the last but one did, nearly always.
    #[test]
    fn what_grows_finds_memory() {
        let pool = Pool::default();
        let mut places = std::collections::HashSet::new();
        let mut last = pool.take(F32, &[100, 1000]).unwrap();
        for rows in 101..200 {
            let next = pool.take(F32, &[rows, 1000]).unwrap();
            assert_eq!(next.sizes(), [rows, 1000]);
            places.insert(next.bytes().as_ptr());
            pool.give(std::mem::replace(&mut last, next));
        }
        assert!(places.len() <= 14, "{} places", places.len());
    }
}
