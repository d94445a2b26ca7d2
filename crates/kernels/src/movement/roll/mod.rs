//! Roll: every output row is two contiguous runs of an input row.

#[cfg(target_arch = "x86_64")]
mod avx512;
mod plan;
mod portable;
#[cfg(target_arch = "x86_64")]
mod rep_movs;

use crate::base::aligned_buf::LINE_BYTES;
use crate::base::isa::core_cache;
use crate::base::par::{Slice, Threads};
use plan::SHORT_ROW_BYTES;
use std::ops::Range;

pub use plan::RollPlan;

/// From this many bytes on, an output leaves the cache before it is read, so it is written with
/// non-temporal stores. Measured on a CPU with 2 MB of L2 per core.
const STREAM_BYTES: usize = 3 << 20;

/// Bytes that are worth a second thread.
const GRAIN_BYTES: usize = 64 << 10;

/// The most bytes in a piece of work: larger outputs have several pieces per thread.
const PIECE_BYTES: usize = 160 << 10;

impl RollPlan {
    /// Rolls `from` into `to`.
    ///
    /// # Panics
    /// When the slices do not have the size of the plan.
    pub fn run(&self, threads: &Threads, from: &[u8], to: &mut [u8]) {
        assert_eq!(from.len(), to.len());
        if to.is_empty() {
            return;
        }
        assert_eq!(self.len(), Some(to.len()), "the roll is of another size");
        let stream = to.len() > STREAM_BYTES;
        #[cfg(target_arch = "x86_64")]
        if !stream && rep_movs::pays(self) {
            return in_lines(threads, to, |to, range| {
                // SAFETY: the CPU has AVX-512, both slices have the size of the plan, and the
                // ranges are disjoint.
                unsafe { rep_movs::roll(self, from.as_ptr(), to.start(), range) };
            });
        }
        #[cfg(target_arch = "x86_64")]
        if avx512::can(self) {
            return in_lines(threads, to, |to, range| {
                // SAFETY: both slices have the size of the plan, and the ranges are disjoint.
                unsafe { avx512::roll(self, from.as_ptr(), to.start(), range, stream) };
            });
        }
        self.run_portable(threads, from, to, stream);
    }

    /// As [`RollPlan::run`], on any CPU.
    fn run_portable(&self, threads: &Threads, from: &[u8], to: &mut [u8], stream: bool) {
        if !stream && self.row <= SHORT_ROW_BYTES {
            return threads.par_chunks_mut(to, self.row, GRAIN_BYTES, |first, to| {
                portable::rotate(self, from, first, to);
            });
        }
        in_lines(threads, to, |to, range| {
            // SAFETY: the ranges lie within `to` and are disjoint.
            let part = unsafe { to.part(range.start, range.len()) };
            portable::write(self, from, range.start, part, stream);
        });
    }
}

/// Calls `f` with ranges of bytes of `to` that begin at cache lines, except for the first.
fn in_lines(threads: &Threads, to: &mut [u8], f: impl Fn(Slice<u8>, Range<usize>) + Sync) {
    let before = to.as_ptr().align_offset(LINE_BYTES).min(to.len());
    let (len, out) = (to.len(), Slice::new(to));
    let lines = (len - before).div_ceil(LINE_BYTES).max(1);
    let piece = lines.div_ceil(threads.count()).min(PIECE_BYTES / LINE_BYTES);
    let grain = piece.max(GRAIN_BYTES / LINE_BYTES);
    let some = |lines: Range<usize>| {
        let start = if lines.start == 0 { 0 } else { before + lines.start * LINE_BYTES };
        f(out, start..(before + lines.end * LINE_BYTES).min(len));
    };
    // If input and output together do not fit the cores' own caches, these hold the end of both,
    // which was written last: so rows go from the end.
    if len <= STREAM_BYTES && 2 * len > core_cache() * threads.count() {
        threads.par_ranges_rev(lines, grain, some)
    } else {
        threads.par_ranges(lines, grain, some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definition, element by element.
    fn reference(sizes: &[usize], shifts: &[i64], from: &[u8], element: usize) -> Vec<u8> {
        let mut to = vec![0; from.len()];
        for i in 0..from.len() / element.max(1) {
            let (mut rest, mut stride, mut target) = (i, 1, 0);
            for (&size, &shift) in sizes.iter().zip(shifts).rev() {
                let index = (rest % size) as i128 + i128::from(shift);
                target += index.rem_euclid(size as i128) as usize * stride;
                rest /= size;
                stride *= size;
            }
            let (i, target) = (i * element, target * element);
            to[target..target + element].copy_from_slice(&from[i..i + element]);
        }
        to
    }

    fn check(sizes: &[usize], shifts: &[i64], element: usize, threads: &Threads) {
        let len = sizes.iter().product::<usize>() * element;
        let from: Vec<u8> = (0..len).map(|i| (i * 31 % 251) as u8).collect();
        let expected = reference(sizes, shifts, &from, element);
        let plan = RollPlan::new(sizes, shifts, element);
        // Outputs that are aligned to a line, and that are not.
        for offset in [0, 24] {
            let mut to = vec![0; len + 2 * LINE_BYTES];
            let first = to.as_ptr().align_offset(LINE_BYTES) + offset;
            plan.run(threads, &from, &mut to[first..][..len]);
            assert!(to[first..][..len] == expected, "{sizes:?} by {shifts:?}");
            let (before, after) = (&to[..first], &to[first + len..]);
            assert!(before.iter().chain(after).all(|byte| *byte == 0), "written beside the output");
        }
        for stream in [false, true].into_iter().filter(|_| len > 0) {
            let mut to = vec![0; len];
            plan.run_portable(threads, &from, &mut to, stream);
            assert!(to == expected, "{sizes:?} by {shifts:?}, portable");
        }
        #[cfg(target_arch = "x86_64")]
        if len > 0 && crate::base::isa::isa() >= crate::base::isa::Isa::Avx512 {
            let mut to = vec![0; len];
            for range in [0..len / 3, len / 3..len - len / 5, len - len / 5..len] {
                // SAFETY: the CPU has AVX-512, and both slices have the size of the plan.
                unsafe { rep_movs::roll(&plan, from.as_ptr(), to.as_mut_ptr(), range) };
            }
            assert!(to == expected, "{sizes:?} by {shifts:?}, strings");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn agrees_with_the_definition(
            axes in proptest::collection::vec((0usize..7, any::<i64>()), 0..5),
            element in proptest::sample::select(vec![1usize, 2, 4, 8]),
        ) {
            let (sizes, shifts): (Vec<usize>, Vec<i64>) = axes.into_iter().unzip();
            check(&sizes, &shifts, element, &Threads::new(2));
        }
    }

    /// The sizes' product wraps around to the bytes that there are.
    #[test]
    #[should_panic(expected = "the roll is of another size")]
    fn sizes_that_cannot_be_counted_are_refused() {
        let plan = RollPlan { outer: vec![(usize::MAX / 8 + 2, 1)], row: 8, shift: 1 };
        plan.run(Threads::single(), &[0; 8], &mut [0; 8]);
    }

    #[test]
    fn large_tensors_are_streamed_and_divided() {
        let threads = Threads::new(3);
        check(&[5, 300, 700], &[1, -299, 13], 4, &threads);
        check(&[900, 1001], &[0, 500], 4, &threads);
        check(&[9, 5000, 97], &[1, 7, -3], 1, &threads);
        check(&[4_000_003], &[i64::MIN], 1, &threads);
    }

    #[test]
    fn what_one_cache_does_not_hold_is_gone_through_from_the_end() {
        for count in [1, 2, 3] {
            let threads = Threads::new(count);
            check(&[3, 7, 100, 300], &[1, 0, 0, 0], 4, &threads);
            check(&[3, 7, 100, 300], &[1, 3, 5, 7], 4, &threads);
            check(&[3, 7, 997, 31], &[2, 3, -5, 0], 4, &threads);
        }
    }

    #[test]
    fn short_rows_are_rotated_in_lines() {
        let threads = Threads::new(2);
        for element in [1, 2, 4, 8] {
            check(&[3, 20, 96], &[1, -3, 5], element, &threads);
            check(&[700, 37], &[0, 36], element, &threads);
            check(&[41, 9, 130], &[-1, 0, 64], element, &threads);
            check(&[3, 300, 97], &[1, -7, 90], element, &threads);
        }
    }
}
