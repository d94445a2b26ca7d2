//! Integer dot products of four bytes (dot4) on each instruction set. All are exact.

use crate::base::simd::Integral;
#[cfg(target_arch = "x86_64")]
use crate::base::simd::{Avx2, Avx512};
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;
use std::marker::PhantomData;

/// Lanes of i32, to each of which a dot product of four bytes is added.
///
/// As with [`Vector`](crate::base::simd::Vector), what makes lanes of nothing or of others asserts
/// the instruction set; what loads them, that the memory is not null.
///
/// # Safety
/// Every method computes what it says, on any hardware that has the instruction set.
pub(super) unsafe trait Dot4 {
    /// The same number of lanes of f32.
    type Floats: Integral;
    /// Sums of i32.
    type Sums: Copy;
    /// Four unsigned bytes in each lane.
    type Weights: Copy;

    /// All lanes 0.
    ///
    /// # Safety
    /// The instruction set must be available.
    unsafe fn zero() -> Self::Sums;
    /// Four bytes for each lane.
    ///
    /// # Safety
    /// The instruction set must be available, and the bytes be valid memory.
    unsafe fn load(from: *const u8) -> Self::Weights;
    /// Four low and four high nibbles for each lane.
    ///
    /// # Safety
    /// The instruction set must be available, and the bytes be valid memory.
    unsafe fn load_nibbles(from: *const u8) -> [Self::Weights; 2];
    /// Adds to each lane the dot product of its weights and the four bytes at `a`.
    ///
    /// # Safety
    /// The instruction set must be available, and the bytes be valid memory.
    unsafe fn add(sums: Self::Sums, weights: Self::Weights, a: *const i8) -> Self::Sums;
    /// The sums, converted to f32.
    ///
    /// # Safety
    /// The instruction set must be available.
    unsafe fn floats(sums: Self::Sums) -> Self::Floats;
}

/// Four bytes as one lane.
///
/// # Safety
/// They are valid memory.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn four(a: *const i8) -> i32 {
    debug_assert!(!a.is_null());
    // SAFETY: the caller's promise.
    unsafe { a.cast::<i32>().read_unaligned() }
}

/// AVX512-VNNI.
#[cfg(target_arch = "x86_64")]
pub(super) struct Vnni512;

// SAFETY: it is used only if the CPU has AVX512-VNNI.
#[cfg(target_arch = "x86_64")]
unsafe impl Dot4 for Vnni512 {
    type Floats = Avx512;
    type Sums = __m512i;
    type Weights = __m512i;

    #[inline(always)]
    unsafe fn zero() -> __m512i {
        debug_assert!(is_x86_feature_detected!("avx512vnni"));
        // SAFETY: the caller has AVX-512.
        unsafe { _mm512_setzero_si512() }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> __m512i {
        debug_assert!(!from.is_null());
        // SAFETY: the caller has AVX-512 and promises valid memory.
        unsafe { _mm512_loadu_si512(from.cast()) }
    }

    #[inline(always)]
    unsafe fn load_nibbles(from: *const u8) -> [__m512i; 2] {
        debug_assert!(!from.is_null());
        // SAFETY: the caller has AVX-512 and promises valid memory.
        unsafe {
            let (bytes, low) = (_mm512_loadu_si512(from.cast()), _mm512_set1_epi8(15));
            let high = _mm512_srli_epi16::<4>(bytes);
            [_mm512_and_si512(bytes, low), _mm512_and_si512(high, low)]
        }
    }

    #[inline(always)]
    unsafe fn add(sums: __m512i, weights: __m512i, a: *const i8) -> __m512i {
        debug_assert!(!a.is_null());
        // SAFETY: the caller has AVX512-VNNI and promises valid memory.
        unsafe { _mm512_dpbusd_epi32(sums, weights, _mm512_set1_epi32(four(a))) }
    }

    #[inline(always)]
    unsafe fn floats(sums: __m512i) -> Avx512 {
        debug_assert!(is_x86_feature_detected!("avx512f"));
        // SAFETY: the caller has AVX-512.
        Avx512(unsafe { _mm512_cvtepi32_ps(sums) })
    }
}

/// AVX-VNNI.
#[cfg(target_arch = "x86_64")]
pub(super) struct Vnni256;

// SAFETY: it is used only if the CPU has AVX-VNNI.
#[cfg(target_arch = "x86_64")]
unsafe impl Dot4 for Vnni256 {
    type Floats = Avx2;
    type Sums = __m256i;
    type Weights = __m256i;

    #[inline(always)]
    unsafe fn zero() -> __m256i {
        debug_assert!(is_x86_feature_detected!("avxvnni"));
        // SAFETY: the caller has AVX2.
        unsafe { _mm256_setzero_si256() }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> __m256i {
        debug_assert!(!from.is_null());
        // SAFETY: the caller has AVX2 and promises valid memory.
        unsafe { _mm256_loadu_si256(from.cast()) }
    }

    #[inline(always)]
    unsafe fn load_nibbles(from: *const u8) -> [__m256i; 2] {
        debug_assert!(!from.is_null());
        // SAFETY: the caller has AVX2 and promises valid memory.
        unsafe {
            let (bytes, low) = (_mm256_loadu_si256(from.cast()), _mm256_set1_epi8(15));
            let high = _mm256_srli_epi16::<4>(bytes);
            [_mm256_and_si256(bytes, low), _mm256_and_si256(high, low)]
        }
    }

    #[inline(always)]
    unsafe fn add(sums: __m256i, weights: __m256i, a: *const i8) -> __m256i {
        debug_assert!(!a.is_null());
        // SAFETY: the caller has AVX-VNNI and promises valid memory.
        unsafe { _mm256_dpbusd_avx_epi32(sums, weights, _mm256_set1_epi32(four(a))) }
    }

    #[inline(always)]
    unsafe fn floats(sums: __m256i) -> Avx2 {
        debug_assert!(is_x86_feature_detected!("avx2"));
        // SAFETY: the caller has AVX2.
        Avx2(unsafe { _mm256_cvtepi32_ps(sums) })
    }
}

/// AVX2. Bytes are widened to i16, since `vpmaddubsw` would saturate.
#[cfg(target_arch = "x86_64")]
pub(super) struct Madd256;

// SAFETY: it is used only if the CPU has AVX2.
#[cfg(target_arch = "x86_64")]
unsafe impl Dot4 for Madd256 {
    type Floats = Avx2;
    type Sums = __m256i;
    /// The even bytes and the odd ones, as i16.
    type Weights = [__m256i; 2];

    #[inline(always)]
    unsafe fn zero() -> __m256i {
        debug_assert!(is_x86_feature_detected!("avx2"));
        // SAFETY: the caller has AVX2.
        unsafe { _mm256_setzero_si256() }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> [__m256i; 2] {
        debug_assert!(!from.is_null());
        // SAFETY: the caller has AVX2 and promises valid memory.
        unsafe { even_and_odd(_mm256_loadu_si256(from.cast())) }
    }

    #[inline(always)]
    unsafe fn load_nibbles(from: *const u8) -> [[__m256i; 2]; 2] {
        debug_assert!(!from.is_null());
        // SAFETY: the caller has AVX2 and promises valid memory.
        unsafe { Vnni256::load_nibbles(from).map(|bytes| even_and_odd(bytes)) }
    }

    #[inline(always)]
    unsafe fn add(sums: __m256i, [even, odd]: [__m256i; 2], a: *const i8) -> __m256i {
        debug_assert!(!a.is_null());
        // SAFETY: the caller has AVX2 and promises valid memory.
        unsafe {
            let a = _mm256_set1_epi32(four(a));
            let even_a = _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(a));
            let of_even = _mm256_madd_epi16(even, even_a);
            let of_odd = _mm256_madd_epi16(odd, _mm256_srai_epi16::<8>(a));
            _mm256_add_epi32(sums, _mm256_add_epi32(of_even, of_odd))
        }
    }

    #[inline(always)]
    unsafe fn floats(sums: __m256i) -> Avx2 {
        debug_assert!(is_x86_feature_detected!("avx2"));
        // SAFETY: the caller has AVX2.
        Avx2(unsafe { _mm256_cvtepi32_ps(sums) })
    }
}

/// The unsigned bytes at even and at odd positions, as i16.
///
/// # Safety
/// AVX2.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn even_and_odd(bytes: __m256i) -> [__m256i; 2] {
    debug_assert!(is_x86_feature_detected!("avx2"));
    // SAFETY: the caller has AVX2.
    unsafe { [_mm256_and_si256(bytes, _mm256_set1_epi16(0xff)), _mm256_srli_epi16::<8>(bytes)] }
}

/// Portable: four lanes.
pub(super) struct Plain<V>(PhantomData<V>);

/// Lanes of [`Plain`].
const LANES: usize = 4;

// SAFETY: it is portable Rust, and used only if the CPU has the instruction set of `V`.
unsafe impl<V: Integral> Dot4 for Plain<V> {
    type Floats = V;
    type Sums = [i32; LANES];
    type Weights = [[u8; 4]; LANES];

    #[inline(always)]
    unsafe fn zero() -> [i32; LANES] {
        const { assert!(V::LANES == LANES) };
        [0; LANES]
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> [[u8; 4]; LANES] {
        debug_assert!(!from.is_null());
        // SAFETY: the caller's promise.
        unsafe { from.cast::<[[u8; 4]; LANES]>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn load_nibbles(from: *const u8) -> [[[u8; 4]; LANES]; 2] {
        debug_assert!(!from.is_null());
        // SAFETY: the caller's promise.
        let lanes = unsafe { Self::load(from) };
        [0, 4].map(|shift| lanes.map(|bytes| bytes.map(|byte| byte >> shift & 15)))
    }

    #[inline(always)]
    unsafe fn add(sums: [i32; LANES], weights: [[u8; 4]; LANES], a: *const i8) -> [i32; LANES] {
        debug_assert!(!a.is_null());
        // SAFETY: the caller's promise.
        let a = unsafe { a.cast::<[i8; 4]>().read_unaligned() };
        let dot = |weights: [u8; 4]| -> i32 {
            weights.iter().zip(a).map(|(w, a)| i32::from(*w) * i32::from(a)).sum()
        };
        std::array::from_fn(|i| sums[i] + dot(weights[i]))
    }

    #[inline(always)]
    unsafe fn floats(sums: [i32; LANES]) -> V {
        const { assert!(V::LANES == LANES) };
        // SAFETY: there are as many lanes.
        unsafe { V::load(sums.map(|sum| sum as f32).as_ptr()) }
    }
}
