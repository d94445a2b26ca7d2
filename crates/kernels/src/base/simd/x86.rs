//! Vectors of AVX2 and AVX-512.

use super::{Integral, Lookup, Spread, Vector};
use crate::base::isa::Isa;
use std::arch::x86_64::*;

/// Eight lanes of AVX2 with FMA.
#[derive(Clone, Copy)]
pub(crate) struct Avx2(pub(crate) __m256);

// SAFETY: every intrinsic is of AVX or FMA.
unsafe impl Vector for Avx2 {
    const LANES: usize = 8;

    #[inline(always)]
    unsafe fn zero() -> Avx2 {
        debug_assert!(is_x86_feature_detected!("fma"));
        // SAFETY: the caller has AVX.
        Avx2(unsafe { _mm256_setzero_ps() })
    }

    #[inline(always)]
    unsafe fn splat(value: f32) -> Avx2 {
        // SAFETY: the caller has AVX.
        Avx2(unsafe { _mm256_set1_ps(value) })
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Avx2 {
        debug_assert!(!from.is_null());
        // SAFETY: the caller has AVX and promises valid memory.
        Avx2(unsafe { _mm256_loadu_ps(from) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        debug_assert!(!to.is_null());
        // SAFETY: the caller has AVX and promises valid memory.
        unsafe { _mm256_storeu_ps(to, self.0) }
    }

    #[inline(always)]
    unsafe fn fma(self, a: Avx2, b: Avx2) -> Avx2 {
        // SAFETY: the caller has FMA.
        Avx2(unsafe { _mm256_fmadd_ps(self.0, a.0, b.0) })
    }

    #[inline(always)]
    unsafe fn load_masked(from: *const f32, count: usize) -> Avx2 {
        debug_assert!(count == 0 || !from.is_null());
        // SAFETY: the caller has AVX2; lanes that are masked out are not read.
        Avx2(unsafe { _mm256_maskload_ps(from, first_lanes(count)) })
    }

    #[inline(always)]
    unsafe fn store_masked(self, to: *mut f32, count: usize) {
        debug_assert!(count == 0 || !to.is_null());
        // SAFETY: the caller has AVX2 and promises that so many lanes are valid.
        unsafe { store_first(to, count, self.0) }
    }

    #[inline(always)]
    unsafe fn add(self, other: Avx2) -> Avx2 {
        // SAFETY: the caller has AVX.
        Avx2(unsafe { _mm256_add_ps(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn mul(self, other: Avx2) -> Avx2 {
        // SAFETY: the caller has AVX.
        Avx2(unsafe { _mm256_mul_ps(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn max(self, other: Avx2) -> Avx2 {
        // SAFETY: the caller has AVX.
        Avx2(unsafe { _mm256_max_ps(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn min(self, other: Avx2) -> Avx2 {
        // SAFETY: the caller has AVX.
        Avx2(unsafe { _mm256_min_ps(self.0, other.0) })
    }
}

// SAFETY: `isa` returns it only if the CPU has AVX2.
unsafe impl Spread for Avx2 {
    #[inline(always)]
    unsafe fn spread(self, each: usize, i: usize) -> Avx2 {
        debug_assert!(each.is_power_of_two() && each <= Self::LANES && i < each);
        // SAFETY: the caller has AVX2.
        unsafe {
            let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
            let first = _mm256_andnot_si256(_mm256_set1_epi32(each as i32 - 1), lanes);
            let from = _mm256_add_epi32(first, _mm256_set1_epi32(i as i32));
            Avx2(_mm256_permutevar8x32_ps(self.0, from))
        }
    }
}

// SAFETY: `isa` returns it only if the CPU has AVX2.
unsafe impl Lookup for Avx2 {
    #[inline(always)]
    unsafe fn lookup(self, next: Avx2, indices: *const i32, first: i32) -> Avx2 {
        debug_assert!(!indices.is_null());
        // SAFETY: the caller has AVX2 and promises valid memory.
        unsafe {
            let indices = _mm256_loadu_si256(indices.cast());
            let at = _mm256_sub_epi32(indices, _mm256_set1_epi32(first));
            let low = _mm256_permutevar8x32_ps(self.0, at);
            let high = _mm256_permutevar8x32_ps(next.0, at);
            // Bit 3 says which of both; a blend takes the sign.
            let is_high = _mm256_castsi256_ps(_mm256_slli_epi32::<28>(at));
            Avx2(_mm256_blendv_ps(low, high, is_high))
        }
    }
}

// SAFETY: `isa` returns it only if the CPU has AVX2.
unsafe impl Integral for Avx2 {
    #[inline(always)]
    unsafe fn divide(self, other: Avx2) -> Avx2 {
        // SAFETY: the caller has AVX2.
        unsafe { Avx2(_mm256_div_ps(self.0, other.0)) }
    }

    #[inline(always)]
    unsafe fn power(self) -> Avx2 {
        // SAFETY: the caller has AVX2.
        unsafe { Avx2(_mm256_castsi256_ps(_mm256_slli_epi32::<23>(_mm256_castps_si256(self.0)))) }
    }

    #[inline(always)]
    unsafe fn load_differences(a: *const i32, b: *const i32) -> Avx2 {
        debug_assert!(!a.is_null() && !b.is_null());
        // SAFETY: the caller has AVX2 and promises valid memory.
        unsafe {
            let (a, b) = (_mm256_loadu_si256(a.cast()), _mm256_loadu_si256(b.cast()));
            Avx2(_mm256_cvtepi32_ps(_mm256_sub_epi32(a, b)))
        }
    }

    #[inline(always)]
    unsafe fn load_bytes(from: *const u8) -> Avx2 {
        debug_assert!(!from.is_null());
        // SAFETY: the caller has AVX2 and promises valid memory.
        unsafe {
            let bytes = _mm_loadl_epi64(from.cast());
            Avx2(_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes)))
        }
    }

    #[inline(always)]
    unsafe fn load_nibbles(from: *const u8) -> [Avx2; 2] {
        debug_assert!(!from.is_null());
        // SAFETY: the caller has AVX2 and promises valid memory.
        unsafe {
            let bytes = _mm256_cvtepu8_epi32(_mm_loadl_epi64(from.cast()));
            let low = _mm256_and_si256(bytes, _mm256_set1_epi32(15));
            let high = _mm256_srli_epi32::<4>(bytes);
            [Avx2(_mm256_cvtepi32_ps(low)), Avx2(_mm256_cvtepi32_ps(high))]
        }
    }

    #[inline(always)]
    unsafe fn load_halves(from: *const u8) -> Avx2 {
        debug_assert!(!from.is_null());
        // SAFETY: the caller has AVX2, with F16C, and promises valid memory.
        unsafe { Avx2(_mm256_cvtph_ps(_mm_loadu_si128(from.cast()))) }
    }

    #[inline(always)]
    unsafe fn store_bytes(self, to: *mut u8) {
        debug_assert!(!to.is_null());
        // SAFETY: the caller has AVX2 and promises valid memory.
        unsafe {
            debug_assert!(are_bytes(self.0));
            let whole = _mm256_cvtps_epi32(self.0);
            let (low, high) = (_mm256_castsi256_si128(whole), _mm256_extracti128_si256::<1>(whole));
            let words = _mm_packus_epi32(low, high);
            _mm_storel_epi64(to.cast(), _mm_packus_epi16(words, words));
        }
    }

    #[inline(always)]
    unsafe fn store_all_bytes<const P: usize>(all: [Avx2; P], to: *mut u8) {
        debug_assert!(!to.is_null());
        let mut p = 0;
        // SAFETY: the caller has AVX2 and promises valid memory.
        unsafe {
            while p + 4 <= P {
                store_four(&[all[p], all[p + 1], all[p + 2], all[p + 3]], to.wrapping_add(p * 8));
                p += 4;
            }
            while p < P {
                all[p].store_bytes(to.wrapping_add(p * 8));
                p += 1;
            }
        }
    }
}

/// Stores the lanes of four vectors as bytes: with half of the instructions that each by itself
/// would take.
///
/// # Safety
/// As [`Integral::store_bytes`], for all lanes.
#[inline(always)]
unsafe fn store_four(all: &[Avx2; 4], to: *mut u8) {
    // SAFETY: the caller has AVX2 and promises valid memory.
    unsafe {
        debug_assert!(all.iter().all(|x| are_bytes(x.0)));
        let [a, b, c, d] = [0, 1, 2, 3].map(|p| _mm256_cvtps_epi32(all[p].0));
        let (low, high) = (_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
        let bytes = _mm256_packus_epi16(low, high);
        // Each half has four bytes of every vector.
        let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
        _mm256_storeu_si256(to.cast(), _mm256_permutevar8x32_epi32(bytes, order));
    }
}

/// A mask of the first lanes.
///
/// # Safety
/// The CPU has AVX2.
#[inline(always)]
unsafe fn first_lanes(count: usize) -> __m256i {
    debug_assert!(is_x86_feature_detected!("avx2"));
    let count = count.min(8) as i32;
    // SAFETY: the caller's promise.
    unsafe {
        _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))
    }
}

/// Stores the first lanes, four, two and one at a time: a masked store takes some twenty cycles on
/// AMD's CPUs.
///
/// # Safety
/// The CPU has AVX2; the first `count` lanes are valid memory.
#[inline(always)]
unsafe fn store_first(to: *mut f32, count: usize, lanes: __m256) {
    debug_assert!(count == 0 || !to.is_null());
    // SAFETY: the caller's promise.
    unsafe {
        if count >= 8 {
            return _mm256_storeu_ps(to, lanes);
        }
        let (mut to, mut left) = (to, _mm256_castps256_ps128(lanes));
        if count & 4 != 0 {
            _mm_storeu_ps(to, left);
            to = to.add(4);
            left = _mm256_extractf128_ps::<1>(lanes);
        }
        if count & 2 != 0 {
            _mm_storel_pd(to.cast(), _mm_castps_pd(left));
            to = to.add(2);
            left = _mm_movehl_ps(left, left);
        }
        if count & 1 != 0 {
            _mm_store_ss(to, left);
        }
    }
}

/// Whether all lanes are between 0 and 255.
#[target_feature(enable = "avx")]
fn are_bytes(lanes: __m256) -> bool {
    let above = _mm256_cmp_ps::<_CMP_GE_OQ>(lanes, _mm256_setzero_ps());
    let below = _mm256_cmp_ps::<_CMP_LE_OQ>(lanes, _mm256_set1_ps(255.0));
    _mm256_movemask_ps(_mm256_and_ps(above, below)) == 0xff
}

/// The values of a nibble.
const NIBBLES: [f32; 16] = [0., 1., 2., 3., 4., 5., 6., 7., 8., 9., 10., 11., 12., 13., 14., 15.];

/// Sixteen lanes of AVX-512.
#[derive(Clone, Copy)]
pub(crate) struct Avx512(pub(crate) __m512);

// SAFETY: every intrinsic is of AVX-512 F.
unsafe impl Vector for Avx512 {
    const LANES: usize = 16;

    #[inline(always)]
    unsafe fn zero() -> Avx512 {
        debug_assert!(is_x86_feature_detected!("avx512f"));
        // SAFETY: the caller has AVX-512.
        Avx512(unsafe { _mm512_setzero_ps() })
    }

    #[inline(always)]
    unsafe fn splat(value: f32) -> Avx512 {
        // SAFETY: the caller has AVX-512.
        Avx512(unsafe { _mm512_set1_ps(value) })
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Avx512 {
        debug_assert!(!from.is_null());
        // SAFETY: the caller has AVX-512 and promises valid memory.
        Avx512(unsafe { _mm512_loadu_ps(from) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        debug_assert!(!to.is_null());
        // SAFETY: the caller has AVX-512 and promises valid memory.
        unsafe { _mm512_storeu_ps(to, self.0) }
    }

    #[inline(always)]
    unsafe fn fma(self, a: Avx512, b: Avx512) -> Avx512 {
        // SAFETY: the caller has AVX-512.
        Avx512(unsafe { _mm512_fmadd_ps(self.0, a.0, b.0) })
    }

    #[inline(always)]
    unsafe fn load_masked(from: *const f32, count: usize) -> Avx512 {
        debug_assert!(count == 0 || !from.is_null());
        let mask = first_of_16(count);
        // SAFETY: the caller has AVX-512; lanes that are masked out are not read.
        Avx512(unsafe { _mm512_maskz_loadu_ps(mask, from) })
    }

    #[inline(always)]
    unsafe fn store_masked(self, to: *mut f32, count: usize) {
        debug_assert!(count == 0 || !to.is_null());
        let mask = first_of_16(count);
        // SAFETY: the caller has AVX-512; lanes that are masked out are not written.
        unsafe { _mm512_mask_storeu_ps(to, mask, self.0) }
    }

    #[inline(always)]
    unsafe fn add(self, other: Avx512) -> Avx512 {
        // SAFETY: the caller has AVX-512.
        Avx512(unsafe { _mm512_add_ps(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn mul(self, other: Avx512) -> Avx512 {
        // SAFETY: the caller has AVX-512.
        Avx512(unsafe { _mm512_mul_ps(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn max(self, other: Avx512) -> Avx512 {
        // SAFETY: the caller has AVX-512.
        Avx512(unsafe { _mm512_max_ps(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn min(self, other: Avx512) -> Avx512 {
        // SAFETY: the caller has AVX-512.
        Avx512(unsafe { _mm512_min_ps(self.0, other.0) })
    }
}

// SAFETY: `isa` returns it only if the CPU has AVX-512.
unsafe impl Spread for Avx512 {
    #[inline(always)]
    unsafe fn spread(self, each: usize, i: usize) -> Avx512 {
        debug_assert!(each.is_power_of_two() && each <= Self::LANES && i < each);
        // SAFETY: the caller has AVX-512.
        unsafe {
            let lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
            let first = _mm512_andnot_si512(_mm512_set1_epi32(each as i32 - 1), lanes);
            let from = _mm512_add_epi32(first, _mm512_set1_epi32(i as i32));
            Avx512(_mm512_permutexvar_ps(from, self.0))
        }
    }
}

// SAFETY: `isa` returns it only if the CPU has AVX-512.
unsafe impl Lookup for Avx512 {
    #[inline(always)]
    unsafe fn lookup(self, next: Avx512, indices: *const i32, first: i32) -> Avx512 {
        debug_assert!(!indices.is_null());
        // SAFETY: the caller has AVX-512 and promises valid memory.
        unsafe {
            let indices = _mm512_loadu_si512(indices.cast());
            let at = _mm512_sub_epi32(indices, _mm512_set1_epi32(first));
            Avx512(_mm512_permutex2var_ps(self.0, at, next.0))
        }
    }
}

// SAFETY: `isa` returns it only if the CPU has AVX-512.
unsafe impl Integral for Avx512 {
    #[inline(always)]
    unsafe fn divide(self, other: Avx512) -> Avx512 {
        // SAFETY: the caller has AVX-512.
        unsafe { Avx512(_mm512_div_ps(self.0, other.0)) }
    }

    #[inline(always)]
    unsafe fn power(self) -> Avx512 {
        // SAFETY: the caller has AVX-512.
        unsafe { Avx512(_mm512_castsi512_ps(_mm512_slli_epi32::<23>(_mm512_castps_si512(self.0)))) }
    }

    #[inline(always)]
    unsafe fn load_differences(a: *const i32, b: *const i32) -> Avx512 {
        debug_assert!(!a.is_null() && !b.is_null());
        // SAFETY: the caller has AVX-512 and promises valid memory.
        unsafe {
            let (a, b) = (_mm512_loadu_si512(a.cast()), _mm512_loadu_si512(b.cast()));
            Avx512(_mm512_cvtepi32_ps(_mm512_sub_epi32(a, b)))
        }
    }

    #[inline(always)]
    unsafe fn load_bytes(from: *const u8) -> Avx512 {
        debug_assert!(!from.is_null());
        // SAFETY: the caller has AVX-512 and promises valid memory.
        unsafe {
            let bytes = _mm_loadu_si128(from.cast());
            Avx512(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes)))
        }
    }

    #[inline(always)]
    unsafe fn load_nibbles(from: *const u8) -> [Avx512; 2] {
        debug_assert!(!from.is_null());
        // SAFETY: the caller has AVX-512 and promises valid memory.
        unsafe {
            let bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128(from.cast()));
            let high = _mm512_srli_epi32::<4>(bytes);
            // A table lookup by the low four bits of each lane.
            let values = _mm512_loadu_ps(NIBBLES.as_ptr());
            let [low, high] =
                [_mm512_permutexvar_ps(bytes, values), _mm512_permutexvar_ps(high, values)];
            [Avx512(low), Avx512(high)]
        }
    }

    #[inline(always)]
    unsafe fn load_halves(from: *const u8) -> Avx512 {
        debug_assert!(!from.is_null());
        // SAFETY: the caller has AVX-512 and promises valid memory.
        unsafe { Avx512(_mm512_cvtph_ps(_mm256_loadu_si256(from.cast()))) }
    }

    #[inline(always)]
    unsafe fn store_bytes(self, to: *mut u8) {
        debug_assert!(!to.is_null());
        // SAFETY: the caller has AVX-512 and promises valid memory.
        unsafe {
            debug_assert!(bytes_of(self.0) == u16::MAX);
            _mm_storeu_si128(to.cast(), _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(self.0)));
        }
    }

    #[inline(always)]
    unsafe fn load_masked_bytes(from: *const u8, count: usize) -> Avx512 {
        debug_assert!(count == 0 || !from.is_null());
        // SAFETY: the caller has AVX-512 and promises valid memory; masked bytes are not read.
        unsafe {
            let bytes = _mm_maskz_loadu_epi8(first_of_16(count), from.cast());
            Avx512(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes)))
        }
    }

    #[inline(always)]
    unsafe fn store_masked_bytes(self, to: *mut u8, count: usize) {
        debug_assert!(count == 0 || !to.is_null());
        // SAFETY: the caller has AVX-512 and promises valid memory; masked bytes are not written.
        unsafe {
            debug_assert!(!bytes_of(self.0) & first_of_16(count) == 0);
            let whole = _mm512_cvtps_epi32(self.0);
            _mm512_mask_cvtepi32_storeu_epi8(to.cast(), first_of_16(count), whole);
        }
    }
}

/// The lanes that are between 0 and 255.
#[target_feature(enable = "avx512f")]
fn bytes_of(lanes: __m512) -> __mmask16 {
    let above = _mm512_cmp_ps_mask::<_CMP_GE_OQ>(lanes, _mm512_setzero_ps());
    above & _mm512_cmp_ps_mask::<_CMP_LE_OQ>(lanes, _mm512_set1_ps(255.0))
}

/// A mask of the first lanes.
#[inline(always)]
fn first_of_16(count: usize) -> __mmask16 {
    (1u32 << count.min(16)).wrapping_sub(1) as u16
}

/// Transposes eight rows of eight elements. Both sides are the first element and the distance
/// between rows.
///
/// # Safety
/// The CPU has AVX2, and the rows are valid memory.
#[target_feature(enable = "avx2")]
pub(crate) unsafe fn transpose_8x8(from: (*const f32, isize), to: (*mut f32, isize)) {
    debug_assert!(Isa::Avx2.is_available() && !from.0.is_null() && !to.0.is_null());
    // SAFETY: the caller's promise.
    unsafe {
        // Four columns of all rows: the halves of a register are four rows apart.
        for first in [0, 4] {
            let half = |row: isize| _mm_loadu_ps(from.0.offset(row * from.1 + first));
            let rows = |row: isize| _mm256_set_m128(half(row + 4), half(row));
            let [a, b, c, d] = [rows(0), rows(1), rows(2), rows(3)];
            let (ab, cd) = (_mm256_unpacklo_ps(a, b), _mm256_unpacklo_ps(c, d));
            let (ab_high, cd_high) = (_mm256_unpackhi_ps(a, b), _mm256_unpackhi_ps(c, d));
            let columns = [
                _mm256_shuffle_ps::<0x44>(ab, cd),
                _mm256_shuffle_ps::<0xee>(ab, cd),
                _mm256_shuffle_ps::<0x44>(ab_high, cd_high),
                _mm256_shuffle_ps::<0xee>(ab_high, cd_high),
            ];
            for (i, column) in (first..).zip(columns) {
                _mm256_storeu_ps(to.0.offset(i * to.1), column);
            }
        }
    }
}

/// Transposes sixteen rows of sixteen elements, as [`transpose_8x8`] does eight. If `stream`, with
/// non-temporal stores: each row of `to` is a cache line, and [`store_fence`](super::store_fence)
/// comes before another thread reads it.
///
/// # Safety
/// The CPU has AVX-512, and the rows are valid memory.
#[target_feature(enable = "avx512f")]
pub(crate) unsafe fn transpose_16x16_to(
    from: (*const f32, usize),
    to: (*mut f32, usize),
    stream: bool,
) {
    debug_assert!(!to.0.is_null());
    debug_assert!(!stream || to.0.addr().is_multiple_of(64) && to.1.is_multiple_of(16));
    // SAFETY: the caller's promise.
    unsafe {
        for (i, row) in transpose_16x16(from.0, from.1).iter().enumerate() {
            let (row, to) = (_mm512_loadu_ps(row.as_ptr()), to.0.add(i * to.1));
            if stream {
                _mm512_stream_ps(to, row);
            } else {
                _mm512_storeu_ps(to, row);
            }
        }
    }
}

/// Transposes sixteen rows of sixteen elements: elements, pairs, quarters, halves.
///
/// # Safety
/// The CPU has AVX-512, and the rows are valid memory.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn transpose_16x16(from: *const f32, stride: usize) -> [[f32; 16]; 16] {
    debug_assert!(Isa::Avx512.is_available() && !from.is_null());
    // SAFETY: the caller's promise; the array holds all rows.
    unsafe {
        let mut a = [_mm512_setzero_ps(); 16];
        for (i, row) in a.iter_mut().enumerate() {
            *row = _mm512_loadu_ps(from.add(i * stride));
        }
        let mut b = a;
        for i in 0..8 {
            b[2 * i] = _mm512_unpacklo_ps(a[2 * i], a[2 * i + 1]);
            b[2 * i + 1] = _mm512_unpackhi_ps(a[2 * i], a[2 * i + 1]);
        }
        for i in (0..16).step_by(4) {
            let wide = |v| _mm512_castps_pd(v);
            let low = |x, y| _mm512_castpd_ps(_mm512_unpacklo_pd(wide(x), wide(y)));
            let high = |x, y| _mm512_castpd_ps(_mm512_unpackhi_pd(wide(x), wide(y)));
            a[i] = low(b[i], b[i + 2]);
            a[i + 1] = high(b[i], b[i + 2]);
            a[i + 2] = low(b[i + 1], b[i + 3]);
            a[i + 3] = high(b[i + 1], b[i + 3]);
        }
        for i in 0..4 {
            b[i] = _mm512_shuffle_f32x4::<0x88>(a[i], a[i + 4]);
            b[i + 4] = _mm512_shuffle_f32x4::<0xdd>(a[i], a[i + 4]);
            b[i + 8] = _mm512_shuffle_f32x4::<0x88>(a[i + 8], a[i + 12]);
            b[i + 12] = _mm512_shuffle_f32x4::<0xdd>(a[i + 8], a[i + 12]);
        }
        let mut out = [[0f32; 16]; 16];
        for i in 0..8 {
            let (low, high) = (b[i], b[i + 8]);
            let to = out.as_mut_ptr().cast::<f32>();
            _mm512_storeu_ps(to.add(i * 16), _mm512_shuffle_f32x4::<0x88>(low, high));
            _mm512_storeu_ps(to.add((i + 8) * 16), _mm512_shuffle_f32x4::<0xdd>(low, high));
        }
        out
    }
}
