//! A variable of rows that grow from run to run, as caches of keys and values do: new rows are put
//! behind the others where these lie, instead of copying all of them.

use crate::error::KernelError;
use crate::memory::pool::Pool;
use crate::tensor::{Sizes, Tensor};
use ir::ElementType;
use kernels::par::Threads;

/// Elements that are worth a second thread when rows are copied.
const GRAIN: usize = 32 << 10;

/// What a variable of f32 with batch, heads, rows and columns holds.
pub(crate) struct KvCache {
    batch: usize,
    heads: usize,
    columns: usize,
    /// The rows that the last complete run left, or that it begins with.
    rows: usize,
    /// Whether the variable has a value.
    is_set: bool,
    block: CacheBlock,
    /// What the run that is going on has made of it.
    next: Option<Next>,
}

/// Matrices with room for more rows, one behind the other.
struct CacheBlock {
    elements: Tensor,
    /// Rows that each has room for.
    capacity: usize,
}

struct Next {
    rows: usize,
    /// Where the rows are, if beams were put in another order.
    moved: Option<CacheBlock>,
}

/// Rows to be put behind those of a cache.
pub(crate) struct NewRows<'a> {
    pub(crate) values: &'a [f32],
    /// Where the rows of each matrix begin.
    pub(crate) at: &'a [usize],
    /// How many there are for each, and how far they are apart.
    pub(crate) rows: usize,
    pub(crate) stride: usize,
}

/// The matrices of a cache.
#[derive(Clone, Copy)]
pub(crate) struct Matrices<'a> {
    pub(crate) values: &'a [f32],
    /// Rows of each.
    pub(crate) rows: usize,
    /// How far the first elements of two of them are apart.
    pub(crate) apart: usize,
}

impl KvCache {
    /// A cache that begins with a tensor of four axes; `is_set` if the variable holds it already.
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

    /// Puts rows behind those that the last complete run left, whose batches are taken in another
    /// order first if one is given; a batch that does not exist is zeros.
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
                // A run that fails leaves the beams as they were.
                Some(_) => moved = Some(block),
                None => pool.give(std::mem::replace(&mut self.block, block).elements),
            }
        }
        let block = moved.as_mut().unwrap_or(&mut self.block);
        block.write(old, self.columns, new, threads);
        self.next = Some(Next { rows, moved });
        Ok(())
    }

    /// The matrices as the run that is going on has left them.
    pub(crate) fn matrices(&self) -> Matrices<'_> {
        let (block, rows) = match &self.next {
            Some(next) => (next.moved.as_ref().unwrap_or(&self.block), next.rows),
            None => (&self.block, self.rows),
        };
        let values = block.elements.as_slice().unwrap_or_default();
        Matrices { values, rows, apart: block.capacity * self.columns }
    }

    /// Keeps what the run has made. Returns whether the variable has a value.
    pub(crate) fn commit(&mut self, pool: &Pool) -> bool {
        if let Some(next) = self.next.take() {
            (self.rows, self.is_set) = (next.rows, true);
            if let Some(block) = next.moved {
                pool.give(std::mem::replace(&mut self.block, block).elements);
            }
        }
        self.is_set
    }

    /// Forgets what the run has made. Returns whether the variable has a value.
    pub(crate) fn discard(&mut self) -> bool {
        self.next = None;
        self.is_set
    }

    /// Lets others use its memory.
    pub(crate) fn give_back(self, pool: &Pool) {
        pool.give(self.block.elements);
    }

    /// What the variable holds, as a tensor of its own.
    pub(crate) fn tensor(&self) -> Result<Option<Tensor>, KernelError> {
        let Some(sizes) = self.sizes() else { return Ok(None) };
        let failed = |e: crate::TensorError| KernelError::new(e.to_string());
        let mut tensor = Tensor::zeros(ElementType::F32, &sizes).map_err(failed)?;
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

    /// A larger block with the first rows of each matrix, which is that of `from` here.
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
        // What a matrix takes to write, by which the work is divided, is not what it has room for.
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
