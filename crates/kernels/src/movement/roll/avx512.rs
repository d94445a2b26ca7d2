//! Roll with AVX-512, by whole cache lines of the output. Each line is put together by two masked
//! loads.
//!
//! The output rows of a [`Batch`] are rotated by the same shift. The first bytes of a row come from
//! the end of its source row, the others from before them, so a byte has one of two source offsets.
//! A mask says which bytes of a line have which.

use super::plan::{Batch, RollPlan, SHORT_ROW_BYTES, low};
use crate::base::aligned_buf::LINE_BYTES;
use crate::base::isa::{Isa, is_intel};
use crate::base::simd::store_fence;
use crate::base::strides::gcd;
use std::arch::x86_64::*;
use std::ops::Range;

/// Prefetch distance of reads, in bytes.
const READ_AHEAD: usize = 24 * LINE_BYTES;

/// Prefetch distance of writes, in bytes.
const WRITE_AHEAD: usize = 16 * LINE_BYTES;

/// Lines that are loaded before the first is stored. 4K aliasing: a load with the same low 12
/// address bits as a recent store stalls. If rows rotate by less than a cache line, nearly every
/// load would.
const LOADS_BEFORE_STORES: usize = 4;

/// Bytes of a page. Hardware prefetchers stop at page boundaries, and memory delivers four pages at
/// a time faster than one.
const PAGE: usize = 4 << 10;

/// Whether this module can roll the rows of a plan on this CPU. Rows must not be shorter than a
/// line, so that a line spans two rows at most.
pub(super) fn can(plan: &RollPlan) -> bool {
    plan.row >= LINE_BYTES && crate::base::isa::isa() >= Isa::Avx512
}

/// Writes output bytes `range`; with non-temporal stores if `stream`.
///
/// # Safety
/// [`can`] says so, `from` and `to` are valid for the bytes of the plan and do not overlap, and
/// nobody else uses the bytes of `range`.
pub(super) unsafe fn roll(
    plan: &RollPlan,
    from: *const u8,
    to: *mut u8,
    range: Range<usize>,
    stream: bool,
) {
    debug_assert!(can(plan) && plan.len().is_some_and(|len| range.end <= len));
    debug_assert!(plan.len().is_some_and(|len| from.addr().abs_diff(to.addr()) >= len));
    // SAFETY: the caller's promise.
    unsafe {
        if stream {
            roll_as::<true>(plan, from, to, range)
        } else {
            roll_as::<false>(plan, from, to, range)
        }
    }
}

/// # Safety
/// As [`roll`].
#[target_feature(enable = "avx512f,avx512bw,bmi2")]
unsafe fn roll_as<const STREAM: bool>(
    plan: &RollPlan,
    from: *const u8,
    to: *mut u8,
    range: Range<usize>,
) {
    debug_assert!(Isa::Avx512.is_available() && range.start <= range.end);
    let mut pattern = None;
    for Batch { start, len, from: source, inside } in plan.batches(range.clone()) {
        let rows = Rotation { row: plan.row, shift: plan.shift };
        // SAFETY: `start` is within the output.
        let to = unsafe { to.add(start) };
        let mut at = Cursor { rows, from: from.wrapping_add(source), to, inside, len };
        // SAFETY: the batch is within both, and its lines are written once.
        unsafe {
            let first = at.to.align_offset(LINE_BYTES).min(at.len);
            at.part(first);
            if at.len >= LINE_BYTES {
                match pattern.get_or_insert_with(|| Pattern::new(&at, range.len() / LINE_BYTES)) {
                    Some(pattern) => at.by_pattern::<STREAM>(pattern),
                    None => at.by_runs::<STREAM>(),
                }
            }
            at.part(at.len);
        }
    }
    if STREAM {
        store_fence();
    }
}

/// Rows that are rotated towards their end, in bytes.
#[derive(Clone, Copy)]
struct Rotation {
    row: usize,
    shift: usize,
}

impl Rotation {
    /// A mask of the 64 bytes from byte `inside` of a row on: those that come from the end of their
    /// source row.
    fn tails(self, inside: usize) -> u64 {
        let next = self.row - inside;
        let of_next = if next < LINE_BYTES { low(self.shift) << next } else { 0 };
        low(self.shift.saturating_sub(inside)) | of_next
    }

    /// The offset in its row of the byte that is `by` bytes after offset `inside`; `by` is at most
    /// a row.
    fn after(self, inside: usize, by: usize) -> usize {
        let at = inside + by;
        if at >= self.row { at - self.row } else { at }
    }
}

/// [`Rotation::tails`] for all lines of short rows, which repeat.
struct Pattern {
    tails: Vec<u64>,
    /// Bytes from one mask to the next.
    unit: usize,
}

impl Pattern {
    /// The pattern of the lines from a position on, if there are enough lines that it pays.
    fn new(at: &Cursor, lines: usize) -> Option<Pattern> {
        let unit = gcd(at.rows.row, LINE_BYTES);
        let count = at.rows.row / unit;
        if at.rows.row > SHORT_ROW_BYTES || 2 * count > lines {
            return None;
        }
        let first = at.inside % unit;
        let tails = (0..count).map(|i| at.rows.tails(first + i * unit)).collect();
        Some(Pattern { tails, unit })
    }
}

/// The rest of a batch that is still to be written.
struct Cursor {
    rows: Rotation,
    /// The source of the next byte if rows were not rotated. All reads are within a row of it.
    from: *const u8,
    to: *mut u8,
    /// Bytes of the row before the next byte.
    inside: usize,
    len: usize,
}

impl Cursor {
    /// The sources of the next byte: if it comes from the end of its source row, and if not.
    fn sources(&self) -> [*const u8; 2] {
        let Rotation { row, shift } = self.rows;
        [self.from.wrapping_add(row - shift), self.from.wrapping_sub(shift)]
    }

    /// Advances by `count` bytes, at most a row.
    fn skip(&mut self, count: usize) {
        self.from = self.from.wrapping_add(count);
        self.to = self.to.wrapping_add(count);
        self.inside = self.rows.after(self.inside, count);
        self.len -= count;
    }

    /// Writes `count` bytes, fewer than a line.
    ///
    /// # Safety
    /// As [`roll`], for the bytes from here on.
    #[target_feature(enable = "avx512f,avx512bw,bmi2")]
    unsafe fn part(&mut self, count: usize) {
        debug_assert!(count < LINE_BYTES && count <= self.len);
        if count > 0 {
            let tails = self.rows.tails(self.inside);
            let [tail, head] = self.sources();
            // SAFETY: what the masks leave out is neither read nor written.
            unsafe {
                let bytes = join(tails & low(count), tail, !tails & low(count), head);
                _mm512_mask_storeu_epi8(self.to.cast(), low(count), bytes);
            }
            self.skip(count);
        }
    }

    /// Writes whole lines, with the masks of a pattern.
    ///
    /// # Safety
    /// As [`Cursor::part`]; the destination is aligned to a line.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,bmi2")]
    unsafe fn by_pattern<const STREAM: bool>(&mut self, pattern: &Pattern) {
        debug_assert!(self.to.addr().is_multiple_of(LINE_BYTES));
        debug_assert_eq!(pattern.tails.len() * pattern.unit, self.rows.row);
        let (tails, step) = (pattern.tails.as_slice(), LINE_BYTES / pattern.unit);
        let mut i = self.inside / pattern.unit;
        let ([tail, head], to) = (self.sources(), self.to);
        let mut line = |at: usize| {
            let (tail, head) = (tail.wrapping_add(at), head.wrapping_add(at));
            // SAFETY: what the masks leave out is not read.
            let bytes = unsafe {
                match tails[i] {
                    0 => _mm512_loadu_si512(head.cast()),
                    u64::MAX => _mm512_loadu_si512(tail.cast()),
                    tails => join(tails, tail, !tails, head),
                }
            };
            i += step;
            if i >= tails.len() {
                i -= tails.len();
            }
            bytes
        };
        let (prefetch, whole) =
            (PrefetchPolicy::new::<STREAM>(), self.len / LINE_BYTES * LINE_BYTES);
        let mut at = 0;
        while at + LOADS_BEFORE_STORES * LINE_BYTES <= whole {
            prefetch.ahead(head.wrapping_add(at), to.wrapping_add(at));
            // Loops over indices: an iterator would keep the lines in memory.
            let mut lines = [_mm512_setzero_si512(); LOADS_BEFORE_STORES];
            for j in 0..LOADS_BEFORE_STORES {
                lines[j] = line(at + j * LINE_BYTES);
            }
            // SAFETY: this many lines are left to write.
            unsafe { store_all::<STREAM>(to.add(at), lines) };
            at += LOADS_BEFORE_STORES * LINE_BYTES;
        }
        for at in (at..whole).step_by(LINE_BYTES) {
            // SAFETY: one more line is left to write.
            unsafe { store::<STREAM>(to.add(at), line(at)) };
        }
        self.from = self.from.wrapping_add(whole);
        self.to = self.to.wrapping_add(whole);
        self.inside = (self.inside + whole) % self.rows.row;
        self.len -= whole;
    }

    /// Writes whole lines: runs from one source by copying, and each line with two sources by
    /// masks.
    ///
    /// # Safety
    /// As [`Cursor::by_pattern`].
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,bmi2")]
    unsafe fn by_runs<const STREAM: bool>(&mut self) {
        debug_assert!(self.to.addr().is_multiple_of(LINE_BYTES));
        let Rotation { row, shift } = self.rows;
        while self.len >= LINE_BYTES {
            let [tail, head] = self.sources();
            let (from, run) = if self.inside < shift {
                (tail, shift - self.inside)
            } else {
                (head, row - self.inside)
            };
            let whole = run.min(self.len) / LINE_BYTES * LINE_BYTES;
            // SAFETY: the run has this many bytes; otherwise a line is left to write, and what the
            // masks leave out is not read.
            unsafe {
                if whole > 0 {
                    copy::<STREAM>(from, self.to, whole);
                } else {
                    let tails = self.rows.tails(self.inside);
                    store::<STREAM>(self.to, join(tails, tail, !tails, head));
                }
            }
            self.skip(whole.max(LINE_BYTES));
        }
    }
}

/// Bytes of two sources, selected by masks.
///
/// # Safety
/// The bytes of the masks can be read; the others need not.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn join(tails: u64, tail: *const u8, heads: u64, head: *const u8) -> __m512i {
    debug_assert!((tails == 0 || !tail.is_null()) && (heads == 0 || !head.is_null()));
    // SAFETY: the caller's promise; masked loads do not touch what they leave out.
    unsafe {
        let heads = _mm512_maskz_loadu_epi8(heads, head.cast());
        _mm512_mask_loadu_epi8(heads, tails, tail.cast())
    }
}

/// What is prefetched by software. AMD's CPUs predict it by themselves, and are slower with
/// prefetches.
#[derive(Clone, Copy)]
struct PrefetchPolicy {
    reads: bool,
    writes: bool,
}

impl PrefetchPolicy {
    /// With non-temporal stores only the source is prefetched.
    fn new<const STREAM: bool>() -> PrefetchPolicy {
        PrefetchPolicy { reads: STREAM || is_intel(), writes: !STREAM && is_intel() }
    }

    /// Prefetches the source of some lines and, if it pays, their destination.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn ahead(self, from: *const u8, to: *mut u8) {
        if self.reads {
            for j in 0..LOADS_BEFORE_STORES {
                _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(READ_AHEAD + j * LINE_BYTES).cast());
            }
        }
        if self.writes {
            for j in 0..LOADS_BEFORE_STORES {
                prefetch_for_write(to.wrapping_add(WRITE_AHEAD + j * LINE_BYTES));
            }
        }
    }
}

/// Prefetches a line for writing, so that no other core owns it. The compiler's intrinsic
/// prefetches for reading only, unless `prefetchw` is enabled as a target feature. On CPUs that
/// lack the instruction it does nothing.
#[inline]
fn prefetch_for_write(line: *const u8) {
    // SAFETY: a hint, which neither reads nor writes.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) line, options(nostack, preserves_flags));
    }
}

/// # Safety
/// A whole line can be written.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn store<const STREAM: bool>(to: *mut u8, line: __m512i) {
    debug_assert!(to.addr().is_multiple_of(LINE_BYTES));
    // SAFETY: the caller's promise.
    unsafe {
        if STREAM {
            _mm512_stream_si512(to.cast(), line)
        } else {
            _mm512_store_si512(to.cast(), line)
        }
    }
}

/// # Safety
/// All these lines can be written.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn store_all<const STREAM: bool>(to: *mut u8, lines: [__m512i; LOADS_BEFORE_STORES]) {
    debug_assert!(to.addr().is_multiple_of(LINE_BYTES));
    for j in 0..LOADS_BEFORE_STORES {
        // SAFETY: the caller's promise.
        unsafe { store::<STREAM>(to.add(j * LINE_BYTES), lines[j]) };
    }
}

/// Copies a run of whole lines; with non-temporal stores, four pages at a time.
///
/// # Safety
/// `len` bytes, a multiple of a line, can be read and written, and `to` is aligned to a line.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn copy<const STREAM: bool>(from: *const u8, to: *mut u8, len: usize) {
    debug_assert!(to.addr().is_multiple_of(LINE_BYTES) && len.is_multiple_of(LINE_BYTES));
    let pages = if STREAM { len / (4 * PAGE) * (4 * PAGE) } else { 0 };
    for start in (0..pages).step_by(4 * PAGE) {
        for at in (0..PAGE).step_by(2 * LINE_BYTES) {
            for page in 0..4 {
                let at = start + page * PAGE + at;
                // SAFETY: two lines of one of four whole pages; a prefetch reads nothing.
                unsafe {
                    let (from, to) = (from.add(at), to.add(at));
                    for line in [2 * LINE_BYTES, 3 * LINE_BYTES] {
                        _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(line).cast());
                    }
                    let lines =
                        [0, LINE_BYTES].map(|line| _mm512_loadu_si512(from.add(line).cast()));
                    store::<STREAM>(to, lines[0]);
                    store::<STREAM>(to.add(LINE_BYTES), lines[1]);
                }
            }
        }
    }
    let prefetch = PrefetchPolicy::new::<STREAM>();
    let mut at = pages;
    while at + LOADS_BEFORE_STORES * LINE_BYTES <= len {
        // SAFETY: these lines are within the bytes of the caller's promise.
        unsafe {
            let (from, to) = (from.add(at), to.add(at));
            prefetch.ahead(from, to);
            let mut lines = [_mm512_setzero_si512(); LOADS_BEFORE_STORES];
            for j in 0..LOADS_BEFORE_STORES {
                lines[j] = _mm512_loadu_si512(from.add(j * LINE_BYTES).cast());
            }
            store_all::<STREAM>(to, lines);
        }
        at += LOADS_BEFORE_STORES * LINE_BYTES;
    }
    for at in (at..len).step_by(LINE_BYTES) {
        // SAFETY: as above.
        unsafe { store::<STREAM>(to.add(at), _mm512_loadu_si512(from.add(at).cast())) };
    }
}
