//! Converts indices to positions in a row-major tensor.

use crate::base::par::Threads;
use crate::base::strides::dense_strides;

/// Indices that are worth a second thread.
const GRAIN: usize = 16 << 10;

/// An index that is out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfRange {
    /// The index.
    pub index: i64,
    /// The size of the axis.
    pub size: usize,
}

/// The non-negative index along an axis of `size`; negative ones count from the end.
///
/// # Errors
/// When it is out of range.
#[inline]
pub fn normal(index: i64, size: usize) -> Result<usize, OutOfRange> {
    let positive = if index < 0 { index.wrapping_add(size as i64) } else { index };
    match usize::try_from(positive) {
        Ok(i) if i < size => Ok(i),
        _ => Err(OutOfRange { index, size }),
    }
}

/// The rows of a tensor of indices, and their positions in the data. Each index replaces one
/// coordinate of its own position. Axes that are contiguous in the data are merged.
#[derive(Clone, Debug)]
pub(crate) struct IndexRows {
    /// Sizes and strides of all axes except the last.
    outer: Vec<(usize, usize)>,
    len: usize,
    step: usize,
    stride: usize,
    size: usize,
}

/// A row of indices: index `i` stands for position `base + i · step + index · stride`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) base: usize,
    pub(crate) step: usize,
    pub(crate) stride: usize,
    /// The size of the axis that is indexed.
    pub(crate) size: usize,
}

impl Row {
    /// The row without its first indices.
    #[inline(always)]
    pub(crate) fn from(self, first: usize) -> Row {
        Row { base: self.base + first * self.step, ..self }
    }

    /// The position of index number `i`, whose value is `index`.
    #[inline(always)]
    pub(crate) fn at(self, i: usize, index: usize) -> usize {
        self.base + i * self.step + index * self.stride
    }
}

impl IndexRows {
    /// The rows of a tensor of `sizes`, with indices along `axis` of data of sizes `data`.
    pub(crate) fn new((data, axis): (&[usize], usize), sizes: &[usize]) -> IndexRows {
        let strides = dense_strides(data);
        let mut axes: Vec<(usize, usize)> = Vec::new();
        for (i, size) in sizes.iter().enumerate().filter(|(_, size)| **size != 1) {
            let step = if i == axis { 0 } else { strides[i] as usize };
            match axes.last_mut() {
                Some(outer) if outer.1 == step * size => *outer = (outer.0 * size, step),
                _ => axes.push((*size, step)),
            }
        }
        let (len, step) = axes.pop().unwrap_or((1, 0));
        IndexRows { outer: axes, len, step, stride: strides[axis] as usize, size: data[axis] }
    }

    /// Indices in a row.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Row `i`.
    pub(crate) fn row(&self, i: usize) -> Row {
        let (mut rest, mut base) = (i, 0);
        for (size, step) in self.outer.iter().rev() {
            base += rest % size * step;
            rest /= size;
        }
        Row { base, step: self.step, stride: self.stride, size: self.size }
    }
}

/// Positions of the slices that `count` tuples of `sizes.len()` indices stand for. The tensor has
/// axes of `sizes`, followed by slices of `inner` elements.
///
/// # Errors
/// Naming the first index that is out of range.
pub fn of_tuples(
    threads: &Threads,
    indices: &[i64],
    count: usize,
    sizes: &[usize],
    inner: usize,
) -> Result<Vec<usize>, OutOfRange> {
    let position = |i: usize| {
        let tuple = indices[i * sizes.len()..].iter().zip(sizes);
        let mut pairs = tuple.map(|(index, size)| Ok((normal(*index, *size)?, size)));
        let slice = pairs.try_fold(0, |at, pair| pair.map(|(index, size)| at * size + index));
        slice.map(|slice| slice * inner)
    };
    let mut positions = vec![0; count];
    threads.par_chunks_mut(&mut positions, 1, GRAIN, |first, part| {
        if let [size] = *sizes {
            for (slot, index) in part.iter_mut().zip(&indices[first..]) {
                *slot = normal(*index, size).map_or(usize::MAX, |i| i * inner);
            }
            return;
        }
        for (i, slot) in part.iter_mut().enumerate() {
            *slot = position(first + i).unwrap_or(usize::MAX);
        }
    });
    match positions.iter().position(|at| *at == usize::MAX) {
        Some(wrong) => position(wrong).map(|_| positions),
        None => Ok(positions),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_begin_in_the_middle() {
        let tuples: Vec<i64> = (0..90_000).map(|i| i * 7919 % 50).collect();
        let all = |threads: &Threads| of_tuples(threads, &tuples, 45_000, &[50, 50], 3);
        assert_eq!(all(&Threads::new(3)), all(Threads::single()));
    }

    #[test]
    fn tuples_mean_slices() {
        let found = of_tuples(Threads::single(), &[1, 0, -1, 2], 2, &[2, 3], 4);
        assert_eq!(found, Ok(vec![12, 20]));
        assert_eq!(of_tuples(Threads::single(), &[], 2, &[], 4), Ok(vec![0, 0]));
        let wrong = OutOfRange { index: -3, size: 2 };
        assert_eq!(of_tuples(Threads::single(), &[1, 0, -3, 2], 2, &[2, 3], 4), Err(wrong));
        assert!(normal(i64::MIN, 3).is_err());
    }
}
