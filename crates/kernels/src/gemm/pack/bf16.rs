//! Converts operands to bf16: to pairs along k in the 32 bits of one lane of f32, or back to f32
//! one by one, as the bf16 path needs it.

#[cfg(target_arch = "x86_64")]
use crate::gemm::precision::has_dp_bf16;
use crate::gemm::precision::{Bf16Path, Precision, bf16_path};
use crate::gemm::source::{Source, Strides};
use crate::multiversion;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;
use std::cell::Cell;
#[cfg(target_arch = "x86_64")]
use std::mem::transmute;

/// The bits of a number as bf16: to nearest, ties to even; subnormals become 0.
#[inline(always)]
pub(crate) fn bf16_bits(value: f32) -> u32 {
    let bits = value.to_bits();
    let nearest = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    let tiny = value.abs() < f32::MIN_POSITIVE;
    let number = if tiny { bits >> 16 & 0x8000 } else { nearest };
    if value.is_nan() { bits >> 16 | 0x40 } else { number }
}

multiversion! {
    /// Packs rows of `width` elements as pairs: one row of pairs for each two rows.
    pub(crate) fn pair_rows(rows: &[f32], width: usize, pairs: &mut [f32]) {
        for (rows, pairs) in rows.chunks_exact(2 * width).zip(pairs.chunks_exact_mut(width)) {
            let (even, odd) = rows.split_at(width);
            for ((pair, even), odd) in pairs.iter_mut().zip(even).zip(odd) {
                *pair = f32::from_bits(bf16_bits(*even) | bf16_bits(*odd) << 16);
            }
        }
    }
}

multiversion! {
    /// Rows for the f32 path: in bf16 precision, with the two rows of each pair swapped.
    pub(crate) fn swap_row_pairs_through_bf16(rows: &[f32], width: usize, to: &mut [f32]) {
        for (rows, to) in rows.chunks_exact(2 * width).zip(to.chunks_exact_mut(2 * width)) {
            let ((even, odd), (first, second)) = (rows.split_at(width), to.split_at_mut(width));
            for i in 0..width {
                first[i] = through_bf16(odd[i]);
                second[i] = through_bf16(even[i]);
            }
        }
    }
}

multiversion! {
    /// The same along a row: with the two elements of each pair swapped.
    fn swap_pairs_through_bf16(from: &[f32], to: &mut [f32]) {
        for (from, to) in from.chunks_exact(2).zip(to.chunks_exact_mut(2)) {
            (to[0], to[1]) = (through_bf16(from[1]), through_bf16(from[0]));
        }
    }
}

/// A number in bf16 precision, as f32.
#[inline(always)]
fn through_bf16(value: f32) -> f32 {
    f32::from_bits(bf16_bits(value) << 16)
}

multiversion! {
    fn convert_each(from: &[f32], to: &mut [u16]) {
        for (from, to) in from.iter().zip(to) {
            *to = bf16_bits(*from) as u16;
        }
    }
}

/// Converts an even number of elements to the lanes of the bf16 path.
pub(crate) fn convert_to_bf16(from: &[f32], lanes: &mut [f32]) {
    match bf16_path() {
        Bf16Path::F32 => {
            assert!(from.len() == lanes.len() && from.len().is_multiple_of(2));
            swap_pairs_through_bf16(from, lanes);
        }
        Bf16Path::Amx | Bf16Path::DpBf16 => {
            assert_eq!(from.len(), 2 * lanes.len());
            // SAFETY: `lanes` holds all elements, two in each.
            unsafe { convert_run(from.as_ptr(), from.len(), lanes.as_mut_ptr().cast()) }
        }
    }
}

thread_local! {
    /// Scratchpad of the thread: fresh memory for each tile would take longer than converting the
    /// rows.
    static SCRATCHPAD: Cell<Vec<f32>> = const { Cell::new(Vec::new()) };
}

/// Some rows of A in bf16, in the lanes that the microkernel reads.
pub(crate) struct Bf16Rows {
    rows: Vec<f32>,
    first: [*const f32; 1],
    k: usize,
    path: Bf16Path,
    /// Lanes from one row to the next: an odd number of cache lines, so that rows do not map to the
    /// same cache sets.
    stride: usize,
}

impl Bf16Rows {
    /// Scratchpad for `rows` rows of `k` elements.
    pub(crate) fn new(k: usize, rows: usize) -> Bf16Rows {
        let stride = (Precision::Bf16.lanes(k).div_ceil(16) | 1) * 16;
        let mut scratchpad = SCRATCHPAD.take();
        if scratchpad.len() < rows * stride {
            scratchpad.resize(rows * stride, 0.0);
        }
        Bf16Rows { rows: scratchpad, first: [std::ptr::null()], k, path: bf16_path(), stride }
    }

    /// Converts `rows` rows of `runs` runs each. In the result each row is one run, padded with
    /// zeros.
    ///
    /// # Panics
    /// When the elements of a run are not contiguous, or there are too many rows.
    ///
    /// # Safety
    /// The pointers are valid for runs of `k / runs` elements.
    pub(crate) unsafe fn convert(&mut self, from: Source, runs: usize, rows: usize) -> Source {
        debug_assert!(self.k.is_multiple_of(runs));
        let len = self.k / runs;
        assert!(rows * self.stride <= self.rows.len());
        for row in 0..rows {
            for run in 0..runs {
                // SAFETY: the caller's promise; a row is its runs.
                unsafe {
                    let from = from.run(run, (row, rows));
                    self.convert_part(from, len, row, run * len);
                }
            }
            self.fill_up(row);
        }
        self.first = [self.rows.as_ptr()];
        Source::Strided(self.first.as_ptr(), Strides { row: self.stride, inner: 1 })
    }

    /// Converts elements of a row from element `at` on; writes zeros if the pointer is null.
    ///
    /// # Safety
    /// The pointer is null or valid for `len` elements.
    unsafe fn convert_part(&mut self, from: *const f32, len: usize, row: usize, at: usize) {
        let to = &mut self.rows[row * self.stride..][..self.stride];
        if self.path == Bf16Path::F32 {
            // SAFETY: the caller's promise.
            let from = (!from.is_null()).then(|| unsafe { std::slice::from_raw_parts(from, len) });
            return swap_part_through_bf16(from, len, to, at);
        }
        assert!(at + len <= 2 * to.len());
        // SAFETY: the caller's promise; `to` is the row, two elements in each lane.
        unsafe {
            let to = to.as_mut_ptr().cast::<u16>().add(at);
            if from.is_null() {
                to.write_bytes(0, len);
            } else {
                convert_run(from, len, to);
            }
        }
    }

    /// Writes the zero that pads a row of an odd number of elements.
    fn fill_up(&mut self, row: usize) {
        if self.k.is_multiple_of(2) {
            return;
        }
        let to = &mut self.rows[row * self.stride..][..self.stride];
        match self.path {
            Bf16Path::F32 => to[self.k - 1] = 0.0,
            // The second element of the last pair is in the upper half of its lane.
            Bf16Path::Amx | Bf16Path::DpBf16 => {
                let last = &mut to[self.k / 2];
                *last = f32::from_bits(last.to_bits() & 0xffff);
            }
        }
    }
}

/// Converts elements of a row from element `at` on, with those of each pair swapped.
fn swap_part_through_bf16(from: Option<&[f32]>, len: usize, to: &mut [f32], at: usize) {
    let Some(from) = from else {
        return (at..at + len).for_each(|i| to[i ^ 1] = 0.0);
    };
    let even = if at.is_multiple_of(2) { len / 2 * 2 } else { 0 };
    swap_pairs_through_bf16(&from[..even], &mut to[at..at + even]);
    (even..len).for_each(|i| to[(at + i) ^ 1] = through_bf16(from[i]));
}

impl Drop for Bf16Rows {
    fn drop(&mut self) {
        SCRATCHPAD.set(std::mem::take(&mut self.rows));
    }
}

/// Converts `len` elements to bf16.
///
/// # Safety
/// Both pointers are valid for `len` elements.
unsafe fn convert_run(from: *const f32, len: usize, to: *mut u16) {
    debug_assert!(from.is_aligned() && to.is_aligned() && !from.is_null() && !to.is_null());
    // SAFETY: the caller's promise; the slices are of memory that has been written.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        if has_dp_bf16() {
            return convert_natively(from, len, to);
        }
        to.write_bytes(0, len);
        convert_each(
            std::slice::from_raw_parts(from, len),
            std::slice::from_raw_parts_mut(to, len),
        );
    }
}

/// Converts `len` elements to bf16 by the instruction.
///
/// # Safety
/// The CPU has AVX512-BF16; the pointers are valid for `len` elements.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
unsafe fn convert_natively(from: *const f32, len: usize, to: *mut u16) {
    debug_assert!(is_x86_feature_detected!("avx512bf16"));
    // SAFETY: the caller's promise; what is beyond the elements is masked.
    unsafe {
        for i in (0..len).step_by(LANES) {
            store_bf16(from.add(i), to.add(i), LANES.min(len - i));
        }
    }
}

/// Elements that are converted at a time.
#[cfg(target_arch = "x86_64")]
const LANES: usize = 32;

/// Converts up to [`LANES`] elements, at least one.
///
/// # Safety
/// As [`convert_natively`], for `count` elements.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
pub(crate) unsafe fn store_bf16(from: *const f32, to: *mut u16, count: usize) {
    debug_assert!((1..=LANES).contains(&count));
    let mask = u32::MAX >> (LANES - count);
    // SAFETY: the caller's promise; what the masks leave out is neither read nor written.
    unsafe {
        let (low, high) = match count {
            LANES => (_mm512_loadu_ps(from), _mm512_loadu_ps(from.add(LANES / 2))),
            _ => (
                _mm512_maskz_loadu_ps(mask as u16, from),
                _mm512_maskz_loadu_ps((mask >> 16) as u16, from.wrapping_add(LANES / 2)),
            ),
        };
        let bf16s = transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(high, low));
        match count {
            LANES => _mm512_storeu_si512(to.cast(), bf16s),
            _ => _mm512_mask_storeu_epi16(to.cast(), mask, bf16s),
        }
    }
}

/// Converts two rows to pairs of bf16.
///
/// # Safety
/// As [`convert_natively`]; `to` holds all lanes.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
pub(crate) unsafe fn store_pairs(even: __m512, odd: __m512, to: *mut f32) {
    debug_assert!(has_dp_bf16() && !to.is_null());
    /// For each pair, the indices of its halves when one row follows the other.
    static HALVES: [u16; LANES] = {
        let mut halves = [0; LANES];
        let mut i = 0;
        while i < LANES {
            halves[i] = (i / 2 + i % 2 * LANES / 2) as u16;
            i += 1;
        }
        halves
    };
    // SAFETY: the caller's promise; a vector is as long as the table.
    unsafe {
        let halves = _mm512_loadu_si512(HALVES.as_ptr().cast());
        let bf16s = transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(odd, even));
        _mm512_storeu_si512(to.cast(), _mm512_permutexvar_epi16(halves, bf16s));
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn both_ways_to_bf16_are_the_same() {
        if !has_dp_bf16() {
            return;
        }
        for high in 0..=u16::MAX {
            let bits =
                [0, 1, 0x7fff, 0x8000, 0x8001, 0xffff].map(|low| u32::from(high) << 16 | low);
            let from = bits.map(f32::from_bits);
            let mut native = [0u16; 6];
            // SAFETY: `has_dp_bf16` has been asked, and both are of the same length.
            unsafe { convert_natively(from.as_ptr(), from.len(), native.as_mut_ptr()) };
            assert_eq!(native, from.map(|x| bf16_bits(x) as u16), "{from:?}");
        }
    }
}
