//! Rolling without masked loads: short rows in overlapping steps, long ones as runs.

use super::plan::{LINE, RollPlan};
use crate::multiversion;
use std::ops::Range;

/// Bytes of rows that are copied at a time: whole lines would nearly all reach into a second one.
const STEP: usize = LINE / 2;

/// Bytes from which on a run is written in steps that begin where steps begin in memory: half of
/// them would reach into a second line.
const ALIGNED: usize = 512;

/// Writes the output rows from row `first` on.
pub(super) fn rotate(plan: &RollPlan, from: &[u8], first: usize, to: &mut [u8]) {
    for batch in plan.batches(first * plan.row..first * plan.row + to.len()) {
        let to = &mut to[batch.start - first * plan.row..][..batch.len];
        rotate_rows(&from[batch.from..][..batch.len], to, plan.row, plan.shift);
    }
}

/// Writes the output bytes from byte `start` on; past the cache, if they are to be streamed.
pub(super) fn write(plan: &RollPlan, from: &[u8], start: usize, to: &mut [u8], stream: bool) {
    // Lines can be streamed only to where lines begin.
    let before = if stream { to.as_ptr().align_offset(LINE).min(to.len()) } else { 0 };
    let (first, lines) = to.split_at_mut(before);
    for (start, part, stream) in [(start, first, false), (start + before, lines, stream)] {
        let end = start + part.len();
        let mut writer = Writer::new(part, stream);
        put_rows(plan, from, start..end, &mut writer);
        writer.finish();
    }
}

/// Passes the runs that make up output bytes `range` to a writer.
fn put_rows(plan: &RollPlan, from: &[u8], range: Range<usize>, writer: &mut Writer<'_>) {
    let (row, shift) = (plan.row, plan.shift);
    for batch in plan.batches(range) {
        let (mut at, mut left) = (batch.inside, batch.len);
        let mut source = &from[batch.from - at..];
        // Each row, the first one from `at` on, is the tail of its source and then the head.
        while left > 0 {
            let (head, tail) = source[..row].split_at(row - shift);
            let last = (at + left).min(row);
            if at < shift {
                writer.put(&tail[at..last.min(shift)]);
            }
            if last > shift {
                writer.put(&head[at.max(shift) - shift..last - shift]);
            }
            left -= last - at;
            (at, source) = (0, &source[row..]);
        }
    }
}

multiversion! {
    /// Rotates each row towards its end. Rows are written in order and in whole steps, each of
    /// which may reach into what is written after it.
    fn rotate_rows(from: &[u8], to: &mut [u8], row: usize, shift: usize) {
        assert_eq!(from.len(), to.len());
        if row < ALIGNED { rotate_all::<false>(from, to, row, shift) } else { rotate_all::<true>(from, to, row, shift) }
    }
}

/// As [`rotate_rows`], where rows are `LONG` or not: code for both is slower for the short ones.
#[inline(always)]
fn rotate_all<const LONG: bool>(from: &[u8], to: &mut [u8], row: usize, shift: usize) {
    let len = to.len();
    for start in (0..len).step_by(row) {
        if start + row + STEP <= len {
            // SAFETY: both rows end a step before the end of the slices.
            unsafe {
                let (from, to) = (from.as_ptr().add(start), to.as_mut_ptr().add(start));
                copy_steps::<LONG>(from.add(row - shift), to, shift);
                copy_steps::<LONG>(from, to.add(shift), row - shift);
            }
        } else {
            let (head, tail) = from[start..start + row].split_at(row - shift);
            to[start..start + shift].copy_from_slice(tail);
            to[start + shift..start + row].copy_from_slice(head);
        }
    }
}

/// Copies whole steps until `len` bytes are copied.
///
/// # Safety
/// `len` bytes and a step more are valid, and the two do not overlap.
#[inline(always)]
unsafe fn copy_steps<const LONG: bool>(from: *const u8, to: *mut u8, len: usize) {
    debug_assert!(from.addr().abs_diff(to.addr()) >= len);
    let mut at = if LONG && len >= ALIGNED {
        // SAFETY: these are among the bytes that are to be copied.
        unsafe { copy_aligned(from, to, len) }
    } else {
        0
    };
    while at < len {
        // SAFETY: the caller's promise.
        unsafe { to.add(at).copy_from_nonoverlapping(from.add(at), STEP) };
        at += STEP;
    }
}

/// Copies the first of `len` bytes, all but a few, and says how many: what copies memory for
/// everybody is slow where it writes the place of another page that it reads next, as nearly all of
/// a roll by little does.
///
/// # Safety
/// `len` bytes, which are a step or more, are valid, and the two do not overlap.
#[inline(always)]
unsafe fn copy_aligned(from: *const u8, to: *mut u8, len: usize) -> usize {
    debug_assert!(len >= STEP && from.addr().abs_diff(to.addr()) >= len);
    // SAFETY: a step is there, and each step after it is within `len` bytes.
    unsafe {
        to.copy_from_nonoverlapping(from, STEP);
        let mut at = STEP - to.addr() % STEP;
        while at + LOADS_BEFORE_STORES * STEP <= len {
            let (from, to) = (from.add(at), to.add(at));
            // All are read before the first is written, which need not wait for what it is not.
            let (from, to) = (from.cast::<Chunk>(), to.cast::<Chunk>());
            let (a, b) = (from.read_unaligned(), from.add(1).read_unaligned());
            let (c, d) = (from.add(2).read_unaligned(), from.add(3).read_unaligned());
            to.write_unaligned(a);
            to.add(1).write_unaligned(b);
            to.add(2).write_unaligned(c);
            to.add(3).write_unaligned(d);
            at += LOADS_BEFORE_STORES * STEP;
        }
        at
    }
}

/// Steps that are read before the first of them is written.
const LOADS_BEFORE_STORES: usize = 4;

type Chunk = [u8; STEP];

multiversion! {
    /// Copies a run.
    fn copy_run(from: &[u8], to: &mut [u8]) {
        assert_eq!(from.len(), to.len());
        let mut at = 0;
        if to.len() >= ALIGNED {
            // SAFETY: both have so many bytes.
            at = unsafe { copy_aligned(from.as_ptr(), to.as_mut_ptr(), to.len()) };
        }
        to[at..].copy_from_slice(&from[at..]);
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
            copy_run(run, &mut self.to[self.at..self.at + run.len()]);
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
