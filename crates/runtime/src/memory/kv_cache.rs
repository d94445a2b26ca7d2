//! KV cache: a variable to which each run appends rows in place, instead of copying all earlier
//! rows.

use crate::error::KernelError;
use crate::memory::pool::Pool;
use crate::tensor::{Sizes, Tensor};
use ir::ElementType;
use kernels::par::Threads;

/// Elements per thread when rows are copied.
const GRAIN: usize = 32 << 10;

/// A variable of f32 with shape (batch, heads, rows, columns).
pub(crate) struct KvCache {
    batch: usize,
    heads: usize,
    columns: usize,
    /// The rows after the last complete run, or the initial ones.
    rows: usize,
    /// Whether the variable has a value.
    is_set: bool,
    block: CacheBlock,
    /// What the current run has made of it.
    next: Option<Next>,
}

/// One matrix per batch element and head, each with capacity for more rows.
struct CacheBlock {
    elements: Tensor,
    /// Row capacity of each matrix.
    capacity: usize,
}

struct Next {
    rows: usize,
    /// The new block, if the beams were reordered.
    moved: Option<CacheBlock>,
}

/// Rows to append to a cache.
pub(crate) struct NewRows<'a> {
    pub(crate) values: &'a [f32],
    /// The offset of the rows of each matrix.
    pub(crate) at: &'a [usize],
    /// How many rows there are for each matrix, and their stride.
    pub(crate) rows: usize,
    pub(crate) stride: usize,
}

/// The matrices of a cache.
#[derive(Clone, Copy)]
pub(crate) struct Matrices<'a> {
    pub(crate) values: &'a [f32],
    /// Rows of each matrix.
    pub(crate) rows: usize,
    /// The distance between the first elements of two matrices.
    pub(crate) apart: usize,
}

impl KvCache {
    /// A cache with the values of a tensor of rank 4. `is_set` if the variable has that value
    /// already.
    pub(crate) fn new(value: &Tensor, is_set: bool, pool: &Pool) -> Result<KvCache, KernelError> {
        let (&[batch, heads, rows, columns], Some(values)) = (value.sizes(), value.as_slice())
        else {
            return Err(KernelError::new(format!("{value:?} is no cache of rows of f32")));
        };
        let mut block = CacheBlock::new([batch * heads, rows, columns], pool)?;
        if let Some(elements) = block.elements.as_slice_mut::<f32>() {
            elements[..values.len()].copy_from_slice(values);
        }
        Ok(KvCache { batch, heads, columns, rows, is_set, block, next: None })
    }

    /// Batch, heads and columns.
    pub(crate) fn shape(&self) -> [usize; 3] {
        [self.batch, self.heads, self.columns]
    }

    /// The sizes of the variable, if it has a value.
    pub(crate) fn sizes(&self) -> Option<[usize; 4]> {
        self.is_set.then_some([self.batch, self.heads, self.rows, self.columns])
    }

    /// Appends rows to those of the last complete run. If an order is given, batch elements are
    /// reordered first; one that does not exist becomes zeros.
    pub(crate) fn grow(
        &mut self,
        new: &NewRows<'_>,
        order: Option<&[usize]>,
        (threads, pool): (&Threads, &Pool),
    ) -> Result<(), KernelError> {
        let (old, rows) = (self.rows, self.rows + new.rows);
        let count = self.batch * self.heads;
        let (batch, heads) = (self.batch, self.heads);
        let from = |matrix: usize| match order {
            Some(order) => {
                let beam = order.get(matrix / heads).filter(|beam| **beam < batch)?;
                Some(beam * heads + matrix % heads)
            }
            None => Some(matrix),
        };
        let mut moved = None;
        if rows > self.block.capacity || order.is_some() {
            let larger = |capacity: usize| {
                let size = [count, capacity, self.columns];
                self.block.moved(size, old, from, (threads, pool))
            };
            let block = larger(rows + rows / 2).or_else(|_| larger(rows))?;
            match order {
                // The reordered block is kept apart, so that a failed run leaves the beams as they
                // were.
                Some(_) => moved = Some(block),
                // The smaller block goes back to the system: no cache needs it again, and the pool
                // would keep one for each layer.
                None => self.block = block,
            }
        }
        let block = moved.as_mut().unwrap_or(&mut self.block);
        block.write(old, self.columns, new, threads);
        self.next = Some(Next { rows, moved });
        Ok(())
    }

    /// The matrices with the rows of the current run.
    pub(crate) fn matrices(&self) -> Matrices<'_> {
        let (block, rows) = match &self.next {
            Some(next) => (next.moved.as_ref().unwrap_or(&self.block), next.rows),
            None => (&self.block, self.rows),
        };
        let values = block.elements.as_slice().unwrap_or_default();
        Matrices { values, rows, apart: block.capacity * self.columns }
    }

    /// Commits the current run. Returns whether the variable has a value.
    pub(crate) fn commit(&mut self, pool: &Pool) -> bool {
        if let Some(next) = self.next.take() {
            (self.rows, self.is_set) = (next.rows, true);
            if let Some(block) = next.moved {
                pool.give(std::mem::replace(&mut self.block, block).elements);
            }
        }
        self.is_set
    }

    /// Discards the current run. Returns whether the variable has a value.
    pub(crate) fn discard(&mut self) -> bool {
        self.next = None;
        self.is_set
    }

    /// Returns its memory to the pool.
    pub(crate) fn give_back(self, pool: &Pool) {
        pool.give(self.block.elements);
    }

    /// A copy of the value as a tensor.
    pub(crate) fn tensor(&self) -> Result<Option<Tensor>, KernelError> {
        let Some(sizes) = self.sizes() else { return Ok(None) };
        let mut tensor = Tensor::zeros(ElementType::F32, &sizes)?;
        let (len, capacity) = (sizes[2] * self.columns, self.block.capacity * self.columns);
        let own: &[f32] = self.block.elements.as_slice().unwrap_or_default();
        let to = tensor.as_slice_mut::<f32>().unwrap_or_default();
        for (to, own) in to.chunks_exact_mut(len.max(1)).zip(own.chunks_exact(capacity.max(1))) {
            to.copy_from_slice(&own[..len]);
        }
        Ok(Some(tensor))
    }
}

impl CacheBlock {
    fn new([count, capacity, columns]: [usize; 3], pool: &Pool) -> Result<CacheBlock, KernelError> {
        let sizes = Sizes::from_slice(&[count, capacity, columns]);
        Ok(CacheBlock { elements: pool.take(ElementType::F32, &sizes)?, capacity })
    }

    /// A larger block with the first rows of each matrix. Matrix `i` is a copy of matrix `from(i)`
    /// here.
    fn moved(
        &self,
        size: [usize; 3],
        rows: usize,
        from: impl Fn(usize) -> Option<usize> + Sync,
        (threads, pool): (&Threads, &Pool),
    ) -> Result<CacheBlock, KernelError> {
        let mut block = CacheBlock::new(size, pool)?;
        let [_, capacity, columns] = size;
        let (len, apart) = (rows * columns, self.capacity * columns);
        let own: &[f32] = self.elements.as_slice().unwrap_or_default();
        let to = block.elements.as_slice_mut().unwrap_or_default();
        threads.par_chunks_mut(to, capacity * columns, GRAIN, |first, matrices| {
            for (i, to) in matrices.chunks_exact_mut((capacity * columns).max(1)).enumerate() {
                match from(first + i) {
                    Some(matrix) => to[..len].copy_from_slice(&own[matrix * apart..][..len]),
                    None => to[..len].fill(0.0),
                }
            }
        });
        Ok(block)
    }

    /// Writes new rows behind the first `rows` of each matrix.
    fn write(&mut self, rows: usize, columns: usize, new: &NewRows<'_>, threads: &Threads) {
        let apart = self.capacity * columns;
        let to = self.elements.as_slice_mut::<f32>().unwrap_or_default();
        // Work is divided by the rows written, not by the capacity of the matrices.
        let grain = (GRAIN / (new.rows * columns).max(1)).max(1).saturating_mul(apart);
        threads.par_chunks_mut(to, apart, grain, |first, matrices| {
            for (matrix, start) in matrices.chunks_exact_mut(apart.max(1)).zip(&new.at[first..]) {
                let lines = matrix[rows * columns..].chunks_exact_mut(columns.max(1));
                for (r, line) in lines.take(new.rows).enumerate() {
                    line.copy_from_slice(&new.values[start + r * new.stride..][..columns]);
                }
            }
        });
    }
}
