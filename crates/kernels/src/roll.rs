//! Roll: every output row is two whole runs of an input row.

use crate::copy::gcd;
use crate::multiversion;
use crate::par::{Slice, Threads};

/// Outputs beyond this size leave the cache before anyone reads them, so they are written past
/// it: on the machines measured, the L2 of one core.
const STREAM_BYTES: usize = 3 << 20;

/// Bytes that are worth a second thread.
const GRAIN_BYTES: usize = 64 << 10;

/// Rows of at most so many bytes are copied line by line; longer ones as the system copies best.
const SHORT: usize = 4 << 10;

/// Bytes of a line.
const LINE: usize = 64;

/// Bytes of rows that are copied at a time: whole lines would nearly all reach into a second one.
const STEP: usize = LINE / 2;

/// A roll whose axes have been merged as far as they move together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RollPlan {
    /// Outer axes, outermost first: size and shift.
    outer: Vec<(usize, usize)>,
    /// Bytes of a row: the innermost rolled axis with everything inside it.
    row: usize,
    /// Bytes by which a row is rotated towards its end.
    shift: usize,
}

impl RollPlan {
    /// The roll of a tensor of `sizes`, with elements of `element` bytes, by `shifts`, one for
    /// each axis, towards larger indices.
    pub fn new(sizes: &[usize], shifts: &[i64], element: usize) -> RollPlan {
        let reduce = |(&size, &shift): (&usize, &i64)| match i64::try_from(size) {
            Ok(0) | Err(_) => (size, 0),
            Ok(n) => (size, shift.rem_euclid(n) as usize),
        };
        let axes: Vec<(usize, usize)> = sizes.iter().zip(shifts).map(reduce).collect();
        let rolled = axes.iter().rposition(|(_, shift)| *shift != 0);
        let Some(last) = rolled else {
            let row = sizes.iter().product::<usize>() * element;
            return RollPlan { outer: Vec::new(), row, shift: 0 };
        };
        let inside: usize = sizes[last + 1..].iter().product::<usize>() * element;
        let mut outer: Vec<(usize, usize)> = Vec::new();
        for &(size, shift) in &axes[..last] {
            match outer.last_mut() {
                Some((merged, 0)) if shift == 0 => *merged *= size,
                _ => outer.push((size, shift)),
            }
        }
        RollPlan { outer, row: axes[last].0 * inside, shift: axes[last].1 * inside }
    }

    /// The largest number of bytes such that whole, aligned runs of so many are moved.
    pub fn granularity(&self) -> usize {
        gcd(self.row, self.shift)
    }

    /// The same roll of elements of `element` bytes in place of runs of `run` bytes, which divides
    /// [`RollPlan::granularity`].
    pub fn in_runs(&self, run: usize, element: usize) -> RollPlan {
        let scale = |bytes: usize| bytes / run * element;
        RollPlan { outer: self.outer.clone(), row: scale(self.row), shift: scale(self.shift) }
    }

    /// Where output row `row` comes from, and how many rows from there on come one after the
    /// other.
    fn source(&self, row: usize) -> (usize, usize) {
        let (mut rest, mut stride, mut source, mut count) = (row, 1, 0, usize::MAX);
        for &(size, shift) in self.outer.iter().rev() {
            let i = rest % size;
            rest /= size;
            source += (if i >= shift { i - shift } else { i + size - shift }) * stride;
            if stride == 1 {
                count = if i < shift { shift - i } else { size - i };
            }
            stride *= size;
        }
        (source, count)
    }

    /// Rolls `from` into `to`.
    ///
    /// # Panics
    /// When the slices are not of the size the plan is for.
    pub fn run(&self, threads: &Threads, from: &[u8], to: &mut [u8]) {
        assert_eq!(from.len(), to.len());
        if to.is_empty() {
            return;
        }
        let rows: usize = self.outer.iter().map(|(size, _)| size).product();
        assert_eq!(rows * self.row, to.len());
        let stream = to.len() > STREAM_BYTES;
        if !stream && self.row <= SHORT {
            return threads.chunks(to, self.row, GRAIN_BYTES, |first, to| {
                self.rotate(from, first, to);
            });
        }
        // Pieces of the output begin at cache lines, whatever the length of a row, but for what lies
        // before the first line.
        let pieces = threads.count() * 4;
        let piece = to.len().div_ceil(pieces).max(GRAIN_BYTES).next_multiple_of(LINE);
        let len = to.len();
        let before = to.as_ptr().align_offset(LINE).min(len);
        let out = Slice::new(to);
        let write = |start: usize, end: usize, stream: bool| {
            // SAFETY: what is written at a time are disjoint parts of `to`.
            let part = unsafe { std::slice::from_raw_parts_mut(out.at(start), end - start) };
            let mut writer = Writer::new(part, stream);
            self.write(from, start, end, &mut writer);
            writer.finish();
        };
        write(0, before, false);
        threads.run((len - before).div_ceil(piece), &|i, _| {
            write(before + i * piece, (before + (i + 1) * piece).min(len), stream);
        });
    }

    /// Writes the output rows from `first` on.
    fn rotate(&self, from: &[u8], first: usize, to: &mut [u8]) {
        let rows = to.len() / self.row;
        let mut row = 0;
        while row < rows {
            let (source, count) = self.source(first + row);
            let count = count.min(rows - row);
            let len = count * self.row;
            let to = &mut to[row * self.row..][..len];
            rotate_rows(&from[source * self.row..][..len], to, self.row, self.shift);
            row += count;
        }
    }

    /// Passes the runs that make up output bytes `start..end` to a writer.
    fn write(&self, from: &[u8], start: usize, end: usize, writer: &mut Writer<'_>) {
        let mut at = start;
        while at < end {
            let row = at / self.row;
            let source = &from[self.source(row).0 * self.row..][..self.row];
            let (head, tail) = source.split_at(self.row - self.shift);
            // The output row is `tail` and then `head`.
            let (first, last) = (at - row * self.row, (end - row * self.row).min(self.row));
            if first < self.shift {
                writer.put(&tail[first..last.min(self.shift)]);
            }
            if last > self.shift {
                writer.put(&head[first.max(self.shift) - self.shift..last - self.shift]);
            }
            at = (row + 1) * self.row;
        }
    }
}

multiversion! {
    /// Rotates each row towards its end. Rows are written in order and in whole steps, each of
    /// which may reach into what is written after it.
    fn rotate_rows(from: &[u8], to: &mut [u8], row: usize, shift: usize) {
        assert_eq!(from.len(), to.len());
        let len = to.len();
        for start in (0..len).step_by(row) {
            if start + row + STEP <= len {
                // SAFETY: both rows end a step before the end of the slices.
                unsafe {
                    let (from, to) = (from.as_ptr().add(start), to.as_mut_ptr().add(start));
                    copy_steps(from.add(row - shift), to, shift);
                    copy_steps(from, to.add(shift), row - shift);
                }
            } else {
                let (head, tail) = from[start..start + row].split_at(row - shift);
                to[start..start + shift].copy_from_slice(tail);
                to[start + shift..start + row].copy_from_slice(head);
            }
        }
    }
}

/// Copies whole steps until `len` bytes are copied.
///
/// # Safety
/// `len` bytes and a step more are valid, and the two do not overlap.
#[inline(always)]
unsafe fn copy_steps(from: *const u8, to: *mut u8, len: usize) {
    let mut at = 0;
    while at < len {
        // SAFETY: the caller's promise.
        unsafe { to.add(at).copy_from_nonoverlapping(from.add(at), STEP) };
        at += STEP;
    }
}

/// Writes runs one after the other: through the cache, or past it in whole lines.
struct Writer<'a> {
    to: &'a mut [u8],
    at: usize,
    stream: bool,
    /// A line that is not complete yet, when streaming.
    line: Line,
    filled: usize,
}

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; 64]);

impl<'a> Writer<'a> {
    fn new(to: &'a mut [u8], stream: bool) -> Writer<'a> {
        // Whole lines can be streamed only to addresses that are whole lines.
        let stream = stream && (to.as_ptr() as usize).is_multiple_of(64);
        Writer { to, at: 0, stream, line: Line([0; 64]), filled: 0 }
    }

    #[inline]
    fn put(&mut self, mut run: &[u8]) {
        if !self.stream {
            self.to[self.at..self.at + run.len()].copy_from_slice(run);
            self.at += run.len();
            return;
        }
        if self.filled > 0 {
            let take = run.len().min(64 - self.filled);
            self.line.0[self.filled..self.filled + take].copy_from_slice(&run[..take]);
            self.filled += take;
            run = &run[take..];
            if self.filled < 64 {
                return;
            }
            stream_lines(&self.line.0, &mut self.to[self.at..self.at + 64]);
            self.at += 64;
            self.filled = 0;
        }
        let whole = run.len() / 64 * 64;
        stream_lines(&run[..whole], &mut self.to[self.at..self.at + whole]);
        self.at += whole;
        let rest = &run[whole..];
        self.line.0[..rest.len()].copy_from_slice(rest);
        self.filled = rest.len();
    }

    fn finish(self) {
        let (line, filled) = (self.line, self.filled);
        self.to[self.at..self.at + filled].copy_from_slice(&line.0[..filled]);
        if self.stream {
            fence();
        }
    }
}

/// Copies whole lines to an aligned destination without reading it into the cache first.
#[cfg(target_arch = "x86_64")]
fn stream_lines(from: &[u8], to: &mut [u8]) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
    assert!(from.len() == to.len() && (to.as_ptr() as usize).is_multiple_of(16));
    let pairs = from.chunks_exact(64).zip(to.chunks_exact_mut(64));
    for (from, to) in pairs {
        let (from, to): (*const __m128i, *mut __m128i) =
            (from.as_ptr().cast(), to.as_mut_ptr().cast());
        // SAFETY: both chunks hold 64 bytes, `to` is aligned to 16, and SSE2 is part of x86-64.
        unsafe {
            let lanes = [0, 1, 2, 3].map(|i| _mm_loadu_si128(from.add(i)));
            for (i, lane) in lanes.into_iter().enumerate() {
                _mm_stream_si128(to.add(i), lane);
            }
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn stream_lines(from: &[u8], to: &mut [u8]) {
    to.copy_from_slice(from);
}

/// Orders streamed stores before whatever tells other threads that they are done.
fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is part of x86-64.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definition: element by element, index by index.
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
        let mut to = vec![0; len];
        RollPlan::new(sizes, shifts, element).run(threads, &from, &mut to);
        assert!(to == reference(sizes, shifts, &from, element), "{sizes:?} by {shifts:?}");
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

    #[test]
    fn large_tensors_are_streamed_and_divided() {
        let threads = Threads::new(3);
        check(&[5, 300, 700], &[1, -299, 13], 4, &threads);
        check(&[900, 1001], &[0, 500], 4, &threads);
        check(&[4_000_003], &[i64::MIN], 1, &threads);
    }

    #[test]
    fn short_rows_are_rotated_in_lines() {
        let threads = Threads::new(2);
        for element in [1, 2, 4, 8] {
            check(&[3, 20, 96], &[1, -3, 5], element, &threads);
            check(&[700, 37], &[0, 36], element, &threads);
            check(&[41, 9, 130], &[-1, 0, 64], element, &threads);
        }
    }

    #[test]
    fn axes_merge() {
        let plan = RollPlan::new(&[2, 3, 8, 5, 7], &[0, 0, 3, 0, 0], 4);
        assert_eq!(plan, RollPlan { outer: vec![(6, 0)], row: 8 * 140, shift: 3 * 140 });
        let plan = RollPlan::new(&[2, 3], &[2, -3], 4);
        assert_eq!(plan, RollPlan { outer: vec![], row: 24, shift: 0 });
    }
}
