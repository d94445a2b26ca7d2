//! From indices to positions in a row-major tensor.

use crate::copy::dense_strides;
use crate::par::Threads;

/// Indices that are worth a second thread.
const GRAIN: usize = 16 << 10;

/// An index that is not one of its axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfRange {
    /// The index.
    pub index: i64,
    /// The size of the axis.
    pub size: usize,
}

/// The index from the beginning of an axis of `size`; negative ones count from the end.
///
/// # Errors
/// When it lies beyond either end.
#[inline]
pub fn normal(index: i64, size: usize) -> Result<usize, OutOfRange> {
    let positive = if index < 0 { index.wrapping_add(size as i64) } else { index };
    match usize::try_from(positive) {
        Ok(i) if i < size => Ok(i),
        _ => Err(OutOfRange { index, size }),
    }
}

/// Positions in a tensor of `data` sizes: those of the elements of a tensor of `sizes`, but for
/// `axis`, along which `indices` (one for each element, in range) has the index. The other `sizes`
/// are at most those of the data.
pub fn along(
    threads: &Threads,
    data: &[usize],
    axis: usize,
    sizes: &[usize],
    mut indices: Vec<usize>,
) -> Vec<usize> {
    let mut strides = dense_strides(data);
    let stride = std::mem::take(&mut strides[axis]) as usize;
    threads.chunks(&mut indices, 1, GRAIN, |first, part| {
        let (mut rest, mut base) = (first, 0);
        let mut at = vec![0; sizes.len()];
        for (i, size) in sizes.iter().enumerate().rev() {
            (rest, at[i]) = (rest / size, rest % size);
            base += at[i] * strides[i] as usize;
        }
        for slot in part {
            *slot = base + *slot * stride;
            for (i, size) in sizes.iter().enumerate().rev() {
                let step = strides[i] as usize;
                at[i] += 1;
                base += step;
                if at[i] < *size {
                    break;
                }
                base -= step * size;
                at[i] = 0;
            }
        }
    });
    indices
}

/// Positions of the slices that tuples of `sizes.len()` indices mean, `count` of them, in a tensor
/// that begins with axes of `sizes` and goes on with slices of `inner` elements.
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
    threads.chunks(&mut positions, 1, GRAIN, |first, part| {
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
    fn indices_replace_one_coordinate() {
        assert_eq!(
            along(Threads::single(), &[3, 4], 0, &[2, 3], vec![2, 1, 0, 0, 0, 2]),
            [8, 5, 2, 0, 1, 10]
        );
        assert_eq!(
            along(Threads::single(), &[3, 4], 1, &[2, 3], vec![3, 1, 0, 0, 0, 2]),
            [3, 1, 0, 4, 4, 6]
        );
        assert_eq!(along(Threads::single(), &[2, 0], 1, &[2, 0], vec![]), []);
    }

    #[test]
    fn threads_begin_in_the_middle() {
        let indices: Vec<usize> = (0..90_000).map(|i| i * 7919 % 50).collect();
        let tuples: Vec<i64> = indices.iter().map(|i| *i as i64).collect();
        let all = |threads: &Threads| {
            let found = along(threads, &[31, 50, 100], 1, &[30, 30, 100], indices.clone());
            (found, of_tuples(threads, &tuples, 45_000, &[50, 50], 3))
        };
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
