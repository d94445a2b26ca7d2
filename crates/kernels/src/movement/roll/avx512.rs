//! Rolling line by line, with AVX-512: whole lines are written where lines begin, each of them
//! made up by two masked loads.
//!
//! The output rows of a [`Batch`] are rotated by the same shift, so a byte comes from one of two
//! distances: the first bytes of a row are those at the end of its source, the others lie before
//! them. Which bytes of a line are which is one mask.

use super::plan::{Batch, LINE, RollPlan, SHORT_ROW_BYTES, low};
use crate::base::isa::is_intel;
use crate::base::strides::gcd;
use std::arch::x86_64::*;
use std::ops::Range;

/// Bytes ahead of what is read that are asked for.
const READ_AHEAD: usize = 24 * LINE;

/// Bytes ahead of what is written that are asked for, to be written.
const WRITE_AHEAD: usize = 16 * LINE;

/// Lines that are read before the first of them is written. A load at the place of a recent store,
/// in another page, is taken for one that has to wait for it: so would nearly all be where rows are
/// rotated by less than a line.
const LOADS_BEFORE_STORES: usize = 4;

/// Bytes of a page. The prefetchers of the machine do not look beyond one, and memory answers
/// four of them sooner than one.
const PAGE: usize = 4 << 10;

/// Whether this module can roll the rows of a plan on this machine: a line reaches into two at
/// most.
pub(super) fn can(plan: &RollPlan) -> bool {
    plan.row >= LINE && crate::base::isa::isa() >= crate::base::isa::Isa::Avx512
}

/// Writes output bytes `range`; past the cache, if they are to be streamed.
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
    let mut pattern = None;
    for Batch { start, len, from: source, inside } in plan.batches(range.clone()) {
        let rows = Rotation { row: plan.row, shift: plan.shift };
        // SAFETY: `start` is within the output.
        let to = unsafe { to.add(start) };
        let mut at = Cursor { rows, from: from.wrapping_add(source), to, inside, len };
        // SAFETY: the batch lies within both, and its lines are written once.
        unsafe {
            let first = at.to.align_offset(LINE).min(at.len);
            at.part(first);
            if at.len >= LINE {
                match pattern.get_or_insert_with(|| Pattern::new(&at, range.len() / LINE)) {
                    Some(pattern) => at.by_pattern::<STREAM>(pattern),
                    None => at.by_runs::<STREAM>(),
                }
            }
            at.part(at.len);
        }
    }
    if STREAM {
        // Streamed stores come before whatever tells other threads that they are done.
        _mm_sfence();
    }
}

/// Rows that are rotated towards their end, in bytes.
#[derive(Clone, Copy)]
struct Rotation {
    row: usize,
    shift: usize,
}

impl Rotation {
    /// Which of the 64 bytes from byte `inside` of a row on come from the end of their row.
    fn tails(self, inside: usize) -> u64 {
        let next = self.row - inside;
        let of_next = if next < LINE { low(self.shift) << next } else { 0 };
        low(self.shift.saturating_sub(inside)) | of_next
    }

    /// The byte of a row that is `by` after byte `inside` of one, `by` at most a row.
    fn after(self, inside: usize, by: usize) -> usize {
        let at = inside + by;
        if at >= self.row { at - self.row } else { at }
    }
}

/// [`Rotation::tails`] of all lines of short rows, which repeat.
struct Pattern {
    tails: Vec<u64>,
    /// Bytes between one and the next.
    unit: usize,
}

impl Pattern {
    /// The pattern of the lines from a place on, if there are so many that it pays.
    fn new(at: &Cursor, lines: usize) -> Option<Pattern> {
        let unit = gcd(at.rows.row, LINE);
        let count = at.rows.row / unit;
        if at.rows.row > SHORT_ROW_BYTES || 2 * count > lines {
            return None;
        }
        let first = at.inside % unit;
        let tails = (0..count).map(|i| at.rows.tails(first + i * unit)).collect();
        Some(Pattern { tails, unit })
    }
}

/// What is still to be written of a batch.
struct Cursor {
    rows: Rotation,
    /// Where the next byte would come from if rows were not rotated. What is read lies within a
    /// row of it.
    from: *const u8,
    to: *mut u8,
    /// Bytes of the row before the next byte.
    inside: usize,
    len: usize,
}

impl Cursor {
    /// Where the source of a byte is that comes from the end of its row, and of any other.
    fn sources(&self) -> [*const u8; 2] {
        let Rotation { row, shift } = self.rows;
        [self.from.wrapping_add(row - shift), self.from.wrapping_sub(shift)]
    }

    /// Goes on by `count` bytes, which are at most those up to the end of the row after this.
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
        debug_assert!(count < LINE && count <= self.len);
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

    /// Writes whole lines, by the pattern of all of them.
    ///
    /// # Safety
    /// As [`Cursor::part`], and the next byte to write begins a line.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,bmi2")]
    unsafe fn by_pattern<const STREAM: bool>(&mut self, pattern: &Pattern) {
        debug_assert!(self.to.addr().is_multiple_of(LINE));
        debug_assert_eq!(pattern.tails.len() * pattern.unit, self.rows.row);
        let (tails, step) = (pattern.tails.as_slice(), LINE / pattern.unit);
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
        let (prefetch, whole) = (PrefetchPolicy::new::<STREAM>(), self.len / LINE * LINE);
        let mut at = 0;
        while at + LOADS_BEFORE_STORES * LINE <= whole {
            prefetch.ahead(head.wrapping_add(at), to.wrapping_add(at));
            // Loops over indices: lines that an iterator reaches lie in memory.
            let mut lines = [_mm512_setzero_si512(); LOADS_BEFORE_STORES];
            for j in 0..LOADS_BEFORE_STORES {
                lines[j] = line(at + j * LINE);
            }
            // SAFETY: there are so many lines to write.
            unsafe { store_all::<STREAM>(to.add(at), lines) };
            at += LOADS_BEFORE_STORES * LINE;
        }
        for at in (at..whole).step_by(LINE) {
            // SAFETY: there is a line to write.
            unsafe { store::<STREAM>(to.add(at), line(at)) };
        }
        self.from = self.from.wrapping_add(whole);
        self.to = self.to.wrapping_add(whole);
        self.inside = (self.inside + whole) % self.rows.row;
        self.len -= whole;
    }

    /// Writes whole lines: those that come from one place run by run, and each that does not.
    ///
    /// # Safety
    /// As [`Cursor::by_pattern`].
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,bmi2")]
    unsafe fn by_runs<const STREAM: bool>(&mut self) {
        debug_assert!(self.to.addr().is_multiple_of(LINE));
        let Rotation { row, shift } = self.rows;
        while self.len >= LINE {
            let [tail, head] = self.sources();
            let (from, run) = if self.inside < shift {
                (tail, shift - self.inside)
            } else {
                (head, row - self.inside)
            };
            let whole = run.min(self.len) / LINE * LINE;
            // SAFETY: the run has so many bytes; else there is a line to write, and what the masks
            // leave out is not read.
            unsafe {
                if whole > 0 {
                    copy::<STREAM>(from, self.to, whole);
                } else {
                    let tails = self.rows.tails(self.inside);
                    store::<STREAM>(self.to, join(tails, tail, !tails, head));
                }
            }
            self.skip(whole.max(LINE));
        }
    }
}

/// The bytes of two sources, each where its mask says so.
///
/// # Safety
/// The bytes of the masks can be read; the others need not.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn join(tails: u64, tail: *const u8, heads: u64, head: *const u8) -> __m512i {
    // SAFETY: the caller's promise; masked loads do not touch what they leave out.
    unsafe {
        let heads = _mm512_maskz_loadu_epi8(heads, head.cast());
        _mm512_mask_loadu_epi8(heads, tails, tail.cast())
    }
}

/// What is asked for before it is needed. Processors of AMD see by themselves what comes, and take
/// longer when they are told.
#[derive(Clone, Copy)]
struct PrefetchPolicy {
    reads: bool,
    writes: bool,
}

impl PrefetchPolicy {
    /// What goes past the cache is asked for by none but its readers.
    fn new<const STREAM: bool>() -> PrefetchPolicy {
        PrefetchPolicy { reads: STREAM || is_intel(), writes: !STREAM && is_intel() }
    }

    /// Asks for what will be read with some lines, and for where it will be written.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn ahead(self, from: *const u8, to: *mut u8) {
        if self.reads {
            for j in 0..LOADS_BEFORE_STORES {
                _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(READ_AHEAD + j * LINE).cast());
            }
        }
        if self.writes {
            for j in 0..LOADS_BEFORE_STORES {
                prefetch_for_write(to.wrapping_add(WRITE_AHEAD + j * LINE));
            }
        }
    }
}

/// Asks for a line to be written, so that no other core has it. The compiler's own hint asks for
/// reading alone, unless the instruction is among those it is told of; where a processor lacks it,
/// it does nothing.
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
/// So many whole lines can be written.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn store_all<const STREAM: bool>(to: *mut u8, lines: [__m512i; LOADS_BEFORE_STORES]) {
    debug_assert!(to.addr().is_multiple_of(LINE));
    for j in 0..LOADS_BEFORE_STORES {
        // SAFETY: the caller's promise.
        unsafe { store::<STREAM>(to.add(j * LINE), lines[j]) };
    }
}

/// Copies a run to whole lines; four pages at a time past the cache.
///
/// # Safety
/// `len` bytes, which are whole lines, can be read and written, and `to` begins a line.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn copy<const STREAM: bool>(from: *const u8, to: *mut u8, len: usize) {
    debug_assert!(to.addr().is_multiple_of(LINE) && len.is_multiple_of(LINE));
    let pages = if STREAM { len / (4 * PAGE) * (4 * PAGE) } else { 0 };
    for start in (0..pages).step_by(4 * PAGE) {
        for at in (0..PAGE).step_by(2 * LINE) {
            for page in 0..4 {
                let at = start + page * PAGE + at;
                // SAFETY: two lines of one of four whole pages; asking for memory reads nothing.
                unsafe {
                    let (from, to) = (from.add(at), to.add(at));
                    for line in [2 * LINE, 3 * LINE] {
                        _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(line).cast());
                    }
                    let lines = [0, LINE].map(|line| _mm512_loadu_si512(from.add(line).cast()));
                    store::<STREAM>(to, lines[0]);
                    store::<STREAM>(to.add(LINE), lines[1]);
                }
            }
        }
    }
    let prefetch = PrefetchPolicy::new::<STREAM>();
    let mut at = pages;
    while at + LOADS_BEFORE_STORES * LINE <= len {
        // SAFETY: lines of those that the caller has promised.
        unsafe {
            let (from, to) = (from.add(at), to.add(at));
            prefetch.ahead(from, to);
            let mut lines = [_mm512_setzero_si512(); LOADS_BEFORE_STORES];
            for j in 0..LOADS_BEFORE_STORES {
                lines[j] = _mm512_loadu_si512(from.add(j * LINE).cast());
            }
            store_all::<STREAM>(to, lines);
        }
        at += LOADS_BEFORE_STORES * LINE;
    }
    for at in (at..len).step_by(LINE) {
        // SAFETY: as above.
        unsafe { store::<STREAM>(to.add(at), _mm512_loadu_si512(from.add(at).cast())) };
    }
}
