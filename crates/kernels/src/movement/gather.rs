//! Gather: slices of a tensor by index.

use crate::base::num::Pod;
use crate::base::par::{Slice, Threads};
use crate::movement::indices::{IndexRows, OutOfRange, Row, Tuples, normal};
use std::sync::atomic::{AtomicBool, Ordering};

/// The layout of data and indices: `batch` independent gathers, each of `outer` slices with `size`
/// entries of `inner` elements, of which `count` are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatherPlan {
    /// Gathers with indices of their own.
    pub batch: usize,
    /// Slices that share indices.
    pub outer: usize,
    /// Entries to choose from.
    pub size: usize,
    /// Entries chosen.
    pub count: usize,
    /// Elements of an entry.
    pub inner: usize,
}

/// Bytes that are worth a second thread.
const GRAIN: usize = 64 << 10;

/// Positions that are computed at a time.
const BLOCK: usize = 128;

impl GatherPlan {
    /// Copies the chosen entries. Negative indices count from the end; an index out of range gives
    /// zeros.
    ///
    /// # Panics
    /// When a slice does not have the size of the plan.
    pub fn run<T: Pod>(&self, threads: &Threads, data: &[T], indices: &[i64], out: &mut [T]) {
        let GatherPlan { batch, outer, size, count, inner } = *self;
        assert_eq!(out.len(), batch * outer * count * inner);
        assert_eq!(data.len(), batch * outer * size * inner);
        assert_eq!(indices.len(), batch * count);
        if out.is_empty() {
            return;
        }
        if batch * inner == 1 && self.columns(threads, data, indices, out) {
            return;
        }
        let grain = GRAIN / size_of::<T>() / inner;
        let shared = Slice::new(out);
        threads.par_ranges(batch * outer * count, grain, |entries| {
            let mut entry = entries.start;
            while entry < entries.end {
                let (slice, first) = (entry / count, entry % count);
                let some = (count - first).min(entries.end - entry);
                let from = &data[slice * size * inner..][..size * inner];
                let indices = &indices[slice / outer * count + first..][..some];
                // SAFETY: entries are disjoint parts of the output.
                let to = unsafe { shared.part(entry * inner, some * inner) };
                self.take(from, indices, to);
                entry += some;
            }
        });
    }

    /// Copies a few elements of every slice, such as the channels of an image; returns whether it
    /// did.
    fn columns<T: Pod>(
        &self,
        threads: &Threads,
        data: &[T],
        indices: &[i64],
        out: &mut [T],
    ) -> bool {
        match *indices {
            [a] => self.pick(threads, data, [a], out),
            [a, b] => self.pick(threads, data, [a, b], out),
            [a, b, c] => self.pick(threads, data, [a, b, c], out),
            [a, b, c, d] => self.pick(threads, data, [a, b, c, d], out),
            _ => false,
        }
    }

    /// Copies `N` elements of every slice, unless an index is out of range.
    fn pick<T: Pod, const N: usize>(
        &self,
        threads: &Threads,
        data: &[T],
        indices: [i64; N],
        out: &mut [T],
    ) -> bool {
        let size = self.size;
        let mut at = [0; N];
        for (at, index) in at.iter_mut().zip(indices) {
            let Ok(index) = normal(index, size) else { return false };
            *at = index;
        }
        // A slice costs at most a whole cache line.
        let grain = GRAIN / (size * size_of::<T>()).clamp(size_of::<T>(), 64);
        threads.par_chunks_mut(out, N, grain, |first, out| {
            let slices = data[first * size..].chunks_exact(size);
            for (to, slice) in out.as_chunks_mut().0.iter_mut().zip(slices) {
                *to = at.map(|i| slice[i]);
            }
        });
        true
    }

    /// Copies the entries of one slice that the indices choose.
    fn take<T: Pod>(&self, from: &[T], indices: &[i64], to: &mut [T]) {
        let GatherPlan { size, inner, .. } = *self;
        if inner == 1 {
            for (to, index) in to.iter_mut().zip(indices) {
                *to = normal(*index, size).map_or_else(|_| T::default(), |i| from[i]);
            }
            return;
        }
        for (to, index) in to.chunks_exact_mut(inner).zip(indices) {
            match normal(*index, size) {
                Ok(index) => to.copy_from_slice(&from[index * inner..][..inner]),
                Err(_) => to.fill(T::default()),
            }
        }
    }
}

/// GatherElements: for each index of a tensor of `sizes`, copies the element of the data at the
/// same position, with the coordinate along `axis` replaced by the index. The other sizes must not
/// exceed those of the data.
///
/// # Errors
/// Naming the first index that is out of range.
///
/// # Panics
/// When the numbers of indices and of output elements differ.
pub fn along<T: Pod, I: Copy + Sync + Into<i64>>(
    threads: &Threads,
    (data, sizes, axis): (&[T], &[usize], usize),
    (indices, index_sizes): (&[I], &[usize]),
    out: &mut [T],
) -> Result<(), OutOfRange> {
    assert_eq!(out.len(), indices.len());
    let rows = IndexRows::new((sizes, axis), index_sizes);
    let wrong = AtomicBool::new(false);
    threads.par_chunks_mut(out, 1, GRAIN / size_of::<T>(), |first, out| {
        let mut done = 0;
        while done < out.len() {
            let at = first + done;
            let some = (rows.len() - at % rows.len()).min(out.len() - done);
            let row = rows.row(at / rows.len()).from(at % rows.len());
            if !take_row(data, row, &indices[at..][..some], &mut out[done..][..some]) {
                wrong.store(true, Ordering::Relaxed);
            }
            done += some;
        }
    });
    let first = || indices.iter().find_map(|i| normal((*i).into(), sizes[axis]).err());
    wrong.into_inner().then(first).flatten().map_or(Ok(()), Err)
}

/// Copies the elements for a row of indices; returns whether all are in range.
#[inline(always)]
fn take_row<T: Pod, I: Copy + Into<i64>>(
    data: &[T],
    row: Row,
    indices: &[I],
    out: &mut [T],
) -> bool {
    let mut valid = true;
    for (i, (to, index)) in out.iter_mut().zip(indices).enumerate() {
        match normal((*index).into(), row.size) {
            Ok(index) => *to = data[row.at(i, index)],
            Err(_) => valid = false,
        }
    }
    valid
}

/// GatherND: copies the slice that each tuple names.
///
/// # Errors
/// Naming the first index that is out of range.
///
/// # Panics
/// When there are fewer tuples than slices of the output, or the data have another size.
pub fn tuples<T: Pod>(
    threads: &Threads,
    data: &[T],
    of: Tuples<'_>,
    out: &mut [T],
) -> Result<(), OutOfRange> {
    let wrong = AtomicBool::new(out.is_empty());
    let inner = of.inner;
    threads.par_chunks_mut(out, inner, GRAIN / size_of::<T>(), |first, out| {
        let mut positions = [0; BLOCK];
        for (block, out) in out.chunks_mut(BLOCK * inner).enumerate() {
            let positions = &mut positions[..out.len() / inner];
            if of.write(first + block * BLOCK, positions) {
                copy_runs(data, (positions, inner), out);
            } else {
                wrong.store(true, Ordering::Relaxed);
            }
        }
    });
    if wrong.into_inner() { of.check() } else { Ok(()) }
}

/// Copies runs of `inner` elements from `positions` to consecutive places.
fn copy_runs<T: Pod>(data: &[T], (positions, inner): (&[usize], usize), out: &mut [T]) {
    match inner {
        1 => runs::<T, 1>(data, positions, out),
        2 => runs::<T, 2>(data, positions, out),
        4 => runs::<T, 4>(data, positions, out),
        _ => {
            for (to, position) in out.chunks_exact_mut(inner).zip(positions) {
                to.copy_from_slice(&data[*position..][..inner]);
            }
        }
    }
}

/// Copies runs of `N` elements, which are too short for a call each.
fn runs<T: Pod, const N: usize>(data: &[T], positions: &[usize], out: &mut [T]) {
    for (to, position) in out.as_chunks_mut::<N>().0.iter_mut().zip(positions) {
        *to = data[*position..].as_chunks::<N>().0[0];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::movement::indices::Indices;

    #[test]
    fn tuples_choose_slices() {
        let data: Vec<u16> = (0..24).collect();
        let gather = |indices: &[i32], sizes: &[usize], inner, count| {
            let mut out = vec![99; count];
            let of = Tuples { indices: Indices::I32(indices), sizes, inner };
            tuples(Threads::single(), &data, of, &mut out).map(|()| out)
        };
        assert_eq!(gather(&[7, 0, -1], &[12], 2, 6).unwrap(), [14, 15, 0, 1, 22, 23]);
        assert_eq!(gather(&[1, 2, 3, -2, 0, -1], &[2, 3, 4], 1, 2).unwrap(), [23, 3]);
        assert_eq!(gather(&[1, -1], &[2, 4], 3, 3).unwrap(), [21, 22, 23]);
        assert_eq!(gather(&[1, 0, 1, 0], &[2, 2, 2, 3], 1, 1).unwrap(), [15]);
        assert_eq!(gather(&[], &[], 24, 24).unwrap(), data);
        let wrong = OutOfRange { index: -5, size: 4 };
        assert_eq!(gather(&[0, 3, 1, -5], &[2, 4], 3, 6), Err(wrong));
        assert_eq!(gather(&[0, 3, 1, -5], &[2, 4], 0, 0), Err(wrong));
    }

    /// Tuples in blocks, by several threads.
    #[test]
    fn many_tuples_choose_elements() {
        let data: Vec<f32> = (0..700 * 300).map(|i| i as f32).collect();
        let indices: Vec<i64> =
            (0..90_000).flat_map(|i| [i * 7919 % 700, i * 31 % 300 - 300]).collect();
        let mut out = vec![0.0; 90_000];
        let of = Tuples { indices: Indices::I64(&indices), sizes: &[700, 300], inner: 1 };
        tuples(&Threads::new(3), &data, of, &mut out).unwrap();
        let expected = indices.as_chunks::<2>().0.iter().map(|[a, b]| a * 300 + b + 300);
        assert!(out.into_iter().eq(expected.map(|at| at as f32)));
    }

    #[test]
    fn few_elements_of_every_slice() {
        let data: Vec<u16> = (0..12).collect();
        let gathered = |indices: &[i64]| {
            let count = indices.len();
            let plan = GatherPlan { batch: 1, outer: 4, size: 3, count, inner: 1 };
            let mut out = vec![9; 4 * count];
            plan.run(Threads::single(), &data, indices, &mut out);
            out
        };
        assert_eq!(gathered(&[2, 1, -3]), [2, 1, 0, 5, 4, 3, 8, 7, 6, 11, 10, 9]);
        assert_eq!(gathered(&[1]), [1, 4, 7, 10]);
        assert_eq!(gathered(&[3, -1]), [0, 2, 0, 5, 0, 8, 0, 11]);
    }

    /// Along each axis, with sizes below those of the data, compared element by element.
    #[test]
    fn elements_along_an_axis() {
        let sizes = [4, 50, 70];
        let data: Vec<u32> = (0..4 * 50 * 70).collect();
        for (axis, index_sizes) in [(0, [9, 50, 70]), (1, [3, 60, 70]), (2, [4, 50, 300])] {
            let [_, rows, columns] = index_sizes;
            let (size, count) = (sizes[axis] as i32, index_sizes.iter().product::<usize>());
            let mut indices: Vec<i32> =
                (0..count as i32).map(|i| i * 31 % (2 * size) - size).collect();
            let expected = indices.iter().enumerate().map(|(i, index)| {
                let mut at = [i / columns / rows, i / columns % rows, i % columns];
                at[axis] = index.rem_euclid(size) as usize;
                data[(at[0] * 50 + at[1]) * 70 + at[2]]
            });
            let expected: Vec<u32> = expected.collect();
            let found = |threads: &Threads, indices: &[i32]| {
                let mut out = vec![0; count];
                let from = (&data[..], &sizes[..], axis);
                along(threads, from, (indices, &index_sizes), &mut out).map(|()| out)
            };
            assert_eq!(found(Threads::single(), &indices).as_ref(), Ok(&expected));
            assert_eq!(found(&Threads::new(3), &indices), Ok(expected));
            (indices[77], indices[99]) = (size, -size - 1);
            let wrong = OutOfRange { index: size.into(), size: sizes[axis] };
            assert_eq!(found(&Threads::new(3), &indices), Err(wrong));
        }
        let nothing =
            along::<u8, i64>(Threads::single(), (&[], &[2, 0], 1), (&[], &[2, 0]), &mut []);
        assert_eq!(nothing, Ok(()));
    }

    #[test]
    fn entries_are_chosen_per_batch() {
        let plan = GatherPlan { batch: 2, outer: 1, size: 3, count: 2, inner: 2 };
        let data: Vec<u8> = (0..12).collect();
        let mut out = [0; 8];
        plan.run(Threads::single(), &data, &[2, -3, 1, -2], &mut out);
        assert_eq!(out, [4, 5, 0, 1, 8, 9, 8, 9]);
        let plan = GatherPlan { batch: 1, outer: 2, size: 2, count: 3, inner: 1 };
        let mut out = [0; 6];
        plan.run(Threads::single(), &[1u32, 2, 3, 4], &[1, 1, 0], &mut out);
        assert_eq!(out, [2, 2, 1, 4, 4, 3]);
        let plan = GatherPlan { batch: 1, outer: 3, size: 2, count: 1, inner: 1 };
        plan.run(Threads::single(), &[1u32, 2, 3, 4, 5, 6], &[1], &mut out[..3]);
        assert_eq!(out[..3], [2, 4, 6]);
    }

    #[test]
    fn what_is_out_of_range_is_zero() {
        let plan = GatherPlan { batch: 1, outer: 1, size: 2, count: 3, inner: 1 };
        let mut out = [9; 3];
        plan.run(Threads::single(), &[1u8, 2], &[2, 1, i64::MIN], &mut out);
        assert_eq!(out, [0, 2, 0]);
    }
}
