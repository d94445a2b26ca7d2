//! Buffers for tensors whose shape is known only while running.

use crate::kernel::KernelError;
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
            None => Tensor::zeros(element_type, sizes).map_err(failed),
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
}
