//! A pool of buffers for tensors whose shape is known only at run time.

use crate::error::KernelError;
use crate::tensor::{Tensor, packed_len};
use ir::ElementType;
use std::cell::RefCell;

/// The most free buffers that are kept.
const KEPT: usize = 32;

/// Free buffers.
#[derive(Default)]
pub(crate) struct Pool {
    free: RefCell<Vec<Tensor>>,
}

impl Pool {
    /// A tensor with arbitrary contents, in the smallest free buffer that fits or in a new one.
    pub(crate) fn take(
        &self,
        element_type: ElementType,
        sizes: &[usize],
    ) -> Result<Tensor, KernelError> {
        if element_type == ElementType::String {
            return Tensor::zeros(element_type, sizes).map_err(KernelError::from);
        }
        let len = packed_len(element_type, sizes)?;
        let mut free = self.free.borrow_mut();
        // A buffer much larger than needed is left for larger tensors.
        let fits = |t: &Tensor| (len..=len.saturating_mul(2).max(4096)).contains(&t.capacity());
        let best = (0..free.len()).filter(|&i| fits(&free[i])).min_by_key(|&i| free[i].capacity());
        match best {
            Some(i) => free.swap_remove(i).recycled(element_type, sizes).map_err(KernelError::from),
            None => {
                let new = |len| Tensor::zeros(ElementType::U8, &[len]);
                let new = new(with_headroom(len)).or_else(|_| new(len))?;
                new.recycled(element_type, sizes).map_err(KernelError::from)
            }
        }
    }

    /// Takes back a tensor that is not needed any more. Its buffer is kept if nothing else shares
    /// it.
    pub(crate) fn give(&self, tensor: Tensor) {
        let mut free = self.free.borrow_mut();
        if tensor.is_unique() && free.len() < KEPT {
            free.push(tensor);
        }
    }
}

/// The size of a new buffer for `len` bytes. Large buffers get up to a quarter more, so that a
/// tensor that grows between iterations or runs fits a used buffer. Pages that are never written
/// cost nothing.
fn with_headroom(len: usize) -> usize {
    /// From this many bytes on, first use (page faults) costs more than the work on a buffer.
    const SPARE_FROM: usize = 1 << 18;
    if len < SPARE_FROM {
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

    /// A tensor that grows by a few rows nearly always reuses the buffer before the last.
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
