//! NonZero: the positions of elements that are not 0.

use crate::base::num::{Bits, Stored};
use crate::base::par::{Slice, Threads};

/// Elements that are counted at a time.
const CHUNK: usize = 16 << 10;

/// Elements of a row that are worth finding its other indices once for all of them.
const LONG: usize = 16;

/// Elements as their bits, and those bits of which one is set if an element is not 0: all but the
/// sign of a real number.
#[derive(Clone, Copy, Debug)]
pub struct Masked<'a, B> {
    /// The elements.
    pub data: &'a [B],
    /// The bits.
    pub mask: B,
}

/// The number of elements of each chunk that are not 0, for [`positions`].
pub fn count<B: Bits>(threads: &Threads, Masked { data, mask }: Masked<'_, B>) -> Vec<usize> {
    let mut counts = vec![0; data.len().div_ceil(CHUNK)];
    threads.par_chunks_mut(&mut counts, 1, 1, |first, counts| {
        for (i, count) in counts.iter_mut().enumerate() {
            let chunk = data[(first + i) * CHUNK..].iter().take(CHUNK);
            *count = chunk.filter(|v| **v & mask != B::default()).count();
        }
    });
    counts
}

/// Writes the index along each axis of every element that is not 0, one row per axis.
///
/// # Panics
/// When the counts are not those of [`count`], or a slice does not have the size that they imply.
pub fn positions<B: Bits, I: Stored>(
    threads: &Threads,
    sizes: &[usize],
    Masked { data, mask }: Masked<'_, B>,
    counts: &[usize],
    out: &mut [I],
) {
    let total: usize = counts.iter().sum();
    assert_eq!(data.len(), sizes.iter().product());
    assert_eq!(out.len(), sizes.len() * total);
    let are_counts =
        counts.len() == data.len().div_ceil(CHUNK) && counts.iter().all(|n| *n <= CHUNK);
    assert!(are_counts, "these are not the counts of the data");
    let first = |chunk: usize| counts[..chunk].iter().sum::<usize>();
    let out = Slice::new(out);
    threads.par_ranges(counts.len(), 1, |chunks| {
        for chunk in chunks {
            let mut at = first(chunk);
            let end = at + counts[chunk];
            let start = chunk * CHUNK;
            if let [outer @ .., len] = sizes
                && (outer.is_empty() || *len >= LONG)
            {
                let stop = data.len().min(start + CHUNK);
                let mut i = start;
                while i < stop {
                    let (row, column) = (i / len, i % len);
                    let next = stop.min((row + 1) * len);
                    // SAFETY: what is left of the part of this chunk, within the last row.
                    let last = unsafe { out.part(outer.len() * total + at, end - at) };
                    let part = Masked { data: &data[i..next], mask };
                    let found = along_one_axis(part, column, last);
                    let mut rest = row;
                    for (axis, size) in outer.iter().enumerate().rev() {
                        // SAFETY: as above, within the row of this axis.
                        let to = unsafe { out.part(axis * total + at, found) };
                        to.fill(I::from_i64((rest % size) as i64));
                        rest /= size;
                    }
                    (i, at) = (next, at + found);
                }
                continue;
            }
            for (i, value) in data[start..].iter().enumerate().take(CHUNK) {
                if *value & mask == B::default() {
                    continue;
                }
                assert!(at < end);
                let mut rest = start + i;
                for (axis, size) in sizes.iter().enumerate().skip(1).rev() {
                    // SAFETY: a row has `total` elements, and no other chunk writes this one.
                    unsafe { *out.at(axis * total + at) = I::from_i64((rest % size) as i64) };
                    rest /= size;
                }
                if !sizes.is_empty() {
                    // SAFETY: as above; what is left is the index along the first axis.
                    unsafe { *out.at(at) = I::from_i64(rest as i64) };
                }
                at += 1;
            }
        }
    });
}

/// Writes the index of each element that is not 0 until `out` is full, without a branch per
/// element. The first element has index `start`. Returns how many there are.
fn along_one_axis<B: Bits, I: Stored>(
    Masked { data, mask }: Masked<'_, B>,
    start: usize,
    out: &mut [I],
) -> usize {
    let mut at = 0;
    for (i, value) in data.iter().enumerate() {
        let Some(slot) = out.get_mut(at) else { break };
        *slot = I::from_i64((start + i) as i64);
        at += usize::from(*value & mask != B::default());
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_row_major() {
        let sizes = [300, 150];
        let data: Vec<f32> =
            (0..300 * 150).map(|i| if i % 7 == 3 { f32::NAN } else { -0.0 }).collect();
        let threads = Threads::new(2);
        let bits = Masked { data: bytemuck::cast_slice(&data), mask: u32::MAX >> 1 };
        let counts = count(&threads, bits);
        let total: usize = counts.iter().sum();
        let mut out = vec![0i32; 2 * total];
        positions(&threads, &sizes, bits, &counts, &mut out);
        let expected: Vec<usize> = (0..data.len()).filter(|i| data[*i] != 0.0).collect();
        let found = (0..total).map(|i| out[i] as usize * 150 + out[total + i] as usize);
        assert!(found.eq(expected.iter().copied()));
    }

    /// Rows long and short, over several chunks.
    #[test]
    fn every_axis_has_its_index() {
        let data: Vec<u8> = (0..40_000).map(|i| u8::from(i * 7919 % 5 == 1)).collect();
        let all = Masked { data: &data, mask: u8::MAX };
        let threads = Threads::new(2);
        let counts = count(&threads, all);
        let total: usize = counts.iter().sum();
        for sizes in [[50, 40, 20], [200, 100, 2], [1, 2, 20_000], [20_000, 2, 1]] {
            let mut out = vec![0i64; 3 * total];
            positions(&threads, &sizes, all, &counts, &mut out);
            let at = |i: usize| (out[i] as usize, out[total + i] as usize, out[2 * total + i]);
            let found =
                (0..total).map(at).map(|(a, b, c)| (a * sizes[1] + b) * sizes[2] + c as usize);
            assert!(found.eq((0..data.len()).filter(|i| data[*i] != 0)), "{sizes:?}");
            assert!(out[2 * total..].iter().all(|c| *c < sizes[2] as i64));
        }
    }

    #[test]
    fn one_axis_of_several_chunks() {
        let data: Vec<u8> = (0..40_000).map(|i| u8::from(i % 3 == 1 || i > 30_000)).collect();
        let threads = Threads::new(2);
        let all = Masked { data: &data, mask: u8::MAX };
        let counts = count(&threads, all);
        let expected: Vec<i64> = (0..40_000).filter(|i| data[*i as usize] != 0).collect();
        let mut out = vec![0i64; counts.iter().sum()];
        positions(&threads, &[data.len()], all, &counts, &mut out);
        assert_eq!(out, expected);
    }

    /// A chunk with more elements than counted would write into the next chunk's part.
    #[test]
    #[should_panic(expected = "not the counts of the data")]
    fn counts_that_no_chunk_has_are_refused() {
        let counts = [CHUNK + 1, 0];
        let mut out = vec![0i64; CHUNK + 1];
        let all = Masked { data: &vec![1u8; CHUNK + 1], mask: u8::MAX };
        positions(Threads::single(), &[CHUNK + 1], all, &counts, &mut out);
    }

    #[test]
    fn nothing_and_no_elements() {
        let mut out: [i64; 0] = [];
        for data in [&[0u8, 0][..], &[]] {
            let all = Masked { data, mask: u8::MAX };
            let counts = count(Threads::single(), all);
            positions(Threads::single(), &[data.len()], all, &counts, &mut out);
        }
    }
}
