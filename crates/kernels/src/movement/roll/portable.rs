//! Roll without masked loads: short rows in overlapping steps, long ones as runs.

use super::plan::RollPlan;
use crate::base::aligned_buf::LINE_BYTES;
use crate::base::simd::store_fence;
use crate::multiversion;
use std::ops::Range;

/// Bytes that are copied at a time: half a line, since nearly every access of a whole line would
/// span two.
const STEP: usize = LINE_BYTES / 2;

/// From this many bytes on, stores of a run are aligned to steps: unaligned, half of them would
/// span two lines.
const ALIGNED: usize = 512;

/// Writes output rows from row `first` on.
pub(super) fn rotate(plan: &RollPlan, from: &[u8], first: usize, to: &mut [u8]) {
    for batch in plan.batches(first * plan.row..first * plan.row + to.len()) {
        let to = &mut to[batch.start - first * plan.row..][..batch.len];
        rotate_rows(&from[batch.from..][..batch.len], to, plan.row, plan.shift);
    }
}

/// Writes output bytes from byte `start` on; with non-temporal stores if `stream`.
pub(super) fn write(plan: &RollPlan, from: &[u8], start: usize, to: &mut [u8], stream: bool) {
    // Non-temporal stores must be aligned to lines.
    let before = if stream { to.as_ptr().align_offset(LINE_BYTES).min(to.len()) } else { 0 };
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
        // Each row, the first one from `at` on, is the tail of its source row, and then the head.
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
    /// Rotates each row towards its end. Rows are written in order and in whole steps; each step
    /// may overrun into bytes that are written later.
    fn rotate_rows(from: &[u8], to: &mut [u8], row: usize, shift: usize) {
        assert_eq!(from.len(), to.len());
        if row < ALIGNED { rotate_all::<false>(from, to, row, shift) } else { rotate_all::<true>(from, to, row, shift) }
    }
}

/// As [`rotate_rows`], for long rows or short ones: one body for both is slower for short rows.
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

/// Copies in whole steps until at least `len` bytes are copied.
///
/// # Safety
/// `len` bytes and a step more are valid, and source and destination do not overlap.
#[inline(always)]
unsafe fn copy_steps<const LONG: bool>(from: *const u8, to: *mut u8, len: usize) {
    debug_assert!(from.addr().abs_diff(to.addr()) >= len);
    let mut at = if LONG && len >= ALIGNED {
        // SAFETY: these are among the bytes of the caller's promise.
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

/// Copies up to `len` bytes in steps aligned to the output; returns how many. The standard memcpy
/// stalls by 4K aliasing if source and destination differ by little modulo 4 KB, as they do in a
/// small roll.
///
/// # Safety
/// `len` bytes, at least a step, are valid, and source and destination do not overlap.
#[inline(always)]
unsafe fn copy_aligned(from: *const u8, to: *mut u8, len: usize) -> usize {
    debug_assert!(len >= STEP && from.addr().abs_diff(to.addr()) >= len);
    // SAFETY: the first step is within `len` bytes, and so is each step after it.
    unsafe {
        to.copy_from_nonoverlapping(from, STEP);
        let mut at = STEP - to.addr() % STEP;
        while at + LOADS_BEFORE_STORES * STEP <= len {
            let (from, to) = (from.add(at), to.add(at));
            // All are loaded before the first is stored, so that no load stalls on an earlier
            // store.
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

/// Steps that are loaded before the first is stored.
const LOADS_BEFORE_STORES: usize = 4;

type Chunk = [u8; STEP];

multiversion! {
    /// Copies a run.
    fn copy_run(from: &[u8], to: &mut [u8]) {
        assert_eq!(from.len(), to.len());
        let mut at = 0;
        if to.len() >= ALIGNED {
            // SAFETY: both slices have this many bytes.
            at = unsafe { copy_aligned(from.as_ptr(), to.as_mut_ptr(), to.len()) };
        }
        to[at..].copy_from_slice(&from[at..]);
    }
}

/// Writes runs one after the other: by ordinary stores, or whole lines by non-temporal stores.
struct Writer<'a> {
    to: &'a mut [u8],
    at: usize,
    stream: bool,
    /// An incomplete line, if `stream`.
    line: Line,
    filled: usize,
}

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; 64]);

impl<'a> Writer<'a> {
    fn new(to: &'a mut [u8], stream: bool) -> Writer<'a> {
        // Non-temporal stores must be aligned to lines.
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
            store_fence();
        }
    }
}

/// Copies whole lines to an aligned destination by non-temporal stores, without reading it into the
/// cache first.
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
