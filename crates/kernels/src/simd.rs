//! Vectors of f32 as each instruction set has them, for the kernels whose register blocking
//! matters. Everything else is plain loops that the compiler vectorises.
//!
//! All implementations compute the same function of each lane, rounded once, so that kernels
//! written over [`Vector`] give the same bits in each.

use crate::num::Loose;

/// A vector register of f32 lanes.
///
/// # Safety
/// Every method computes what it says, on any hardware that has the instruction set.
pub unsafe trait Vector: Copy {
    /// Number of lanes.
    const LANES: usize;
    /// All lanes 0.
    ///
    /// # Safety
    /// The instruction set must be available.
    unsafe fn zero() -> Self;
    /// All lanes the same.
    ///
    /// # Safety
    /// The instruction set must be available.
    unsafe fn splat(value: f32) -> Self;
    /// Lanes from memory, unaligned.
    ///
    /// # Safety
    /// The instruction set must be available, and the lanes be valid memory.
    unsafe fn load(from: *const f32) -> Self;
    /// Lanes to memory, unaligned.
    ///
    /// # Safety
    /// The instruction set must be available, and the lanes be valid memory.
    unsafe fn store(self, to: *mut f32);
    /// The first `count` lanes from memory, at most all; the others are 0.
    ///
    /// # Safety
    /// The instruction set must be available, and these lanes be valid memory.
    unsafe fn load_some(from: *const f32, count: usize) -> Self;
    /// The first `count` lanes to memory, at most all.
    ///
    /// # Safety
    /// The instruction set must be available, and these lanes be valid memory.
    unsafe fn store_some(self, to: *mut f32, count: usize);
    /// `self * a + b`, rounded once.
    ///
    /// # Safety
    /// The instruction set must be available.
    unsafe fn fma(self, a: Self, b: Self) -> Self;
    /// `self + other`.
    ///
    /// # Safety
    /// The instruction set must be available.
    unsafe fn add(self, other: Self) -> Self;
    /// `self` where it is the larger, else `other`.
    ///
    /// # Safety
    /// The instruction set must be available.
    unsafe fn larger(self, other: Self) -> Self;
    /// `self` where it is the smaller, else `other`.
    ///
    /// # Safety
    /// The instruction set must be available.
    unsafe fn smaller(self, other: Self) -> Self;
}

/// Lanes that integers become, and bytes that they become again.
///
/// # Safety
/// As [`Vector`].
pub unsafe trait Integral: Vector {
    /// Differences of integers in memory, `a - b`, each rounded to f32; unaligned.
    ///
    /// # Safety
    /// The instruction set must be available, and the lanes be valid memory.
    unsafe fn load_differences(a: *const i32, b: *const i32) -> Self;
    /// Lanes from bytes.
    ///
    /// # Safety
    /// The instruction set must be available, and the lanes be valid memory.
    unsafe fn load_bytes(from: *const u8) -> Self;
    /// Lanes to bytes.
    ///
    /// # Safety
    /// The instruction set must be available, the lanes be valid memory, and all be whole numbers
    /// between 0 and 255.
    unsafe fn store_bytes(self, to: *mut u8);
}

/// Asks for a cache line that will be read soon, but not yet. Any address will do.
#[inline(always)]
pub fn prefetch(line: *const f32) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: a hint, which reads nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(line.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}

/// The same pointer, of which the compiler does not know where it comes from.
#[inline(always)]
#[allow(clippy::pointers_in_nomem_asm_block, reason = "nothing is read through it")]
pub fn opaque(pointer: *const f32) -> *const f32 {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    {
        let mut same = pointer;
        // SAFETY: nothing is done.
        unsafe {
            std::arch::asm!("/* {0} */", inout(reg) same, options(pure, nomem, nostack, preserves_flags));
        }
        same
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    pointer
}

/// Four lanes in plain Rust.
#[derive(Clone, Copy)]
pub struct Portable([f32; 4]);

// SAFETY: plain Rust is available everywhere.
unsafe impl Vector for Portable {
    const LANES: usize = 4;

    #[inline(always)]
    unsafe fn zero() -> Portable {
        Portable([0.0; 4])
    }

    #[inline(always)]
    unsafe fn splat(value: f32) -> Portable {
        Portable([value; 4])
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Portable {
        // SAFETY: the caller's promise.
        Portable(unsafe { from.cast::<[f32; 4]>().read_unaligned() })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { to.cast::<[f32; 4]>().write_unaligned(self.0) }
    }

    #[inline(always)]
    unsafe fn fma(self, a: Portable, b: Portable) -> Portable {
        Portable(std::array::from_fn(|i| self.0[i].mul_add(a.0[i], b.0[i])))
    }

    #[inline(always)]
    unsafe fn load_some(from: *const f32, count: usize) -> Portable {
        let mut lanes = [0f32; 4];
        // SAFETY: the caller's promise; the array has no fewer lanes.
        unsafe { from.copy_to_nonoverlapping(lanes.as_mut_ptr(), count.min(4)) };
        Portable(lanes)
    }

    #[inline(always)]
    unsafe fn store_some(self, to: *mut f32, count: usize) {
        // SAFETY: the caller's promise; the array has no fewer lanes.
        unsafe { to.copy_from_nonoverlapping(self.0.as_ptr(), count.min(4)) };
    }

    #[inline(always)]
    unsafe fn add(self, other: Portable) -> Portable {
        Portable(std::array::from_fn(|i| self.0[i] + other.0[i]))
    }

    #[inline(always)]
    unsafe fn larger(self, other: Portable) -> Portable {
        let (a, b) = (self.0, other.0);
        Portable(std::array::from_fn(|i| if a[i] > b[i] { a[i] } else { b[i] }))
    }

    #[inline(always)]
    unsafe fn smaller(self, other: Portable) -> Portable {
        let (a, b) = (self.0, other.0);
        Portable(std::array::from_fn(|i| if a[i] < b[i] { a[i] } else { b[i] }))
    }
}

// SAFETY: plain Rust is available everywhere.
unsafe impl Integral for Portable {
    #[inline(always)]
    unsafe fn load_differences(a: *const i32, b: *const i32) -> Portable {
        // SAFETY: the caller's promise.
        let [a, b] = unsafe { [a, b].map(|from| from.cast::<[i32; 4]>().read_unaligned()) };
        Portable(std::array::from_fn(|i| a[i].wrapping_sub(b[i]) as f32))
    }

    #[inline(always)]
    unsafe fn load_bytes(from: *const u8) -> Portable {
        // SAFETY: the caller's promise.
        let bytes = unsafe { from.cast::<[u8; 4]>().read_unaligned() };
        Portable(bytes.map(f32::from))
    }

    #[inline(always)]
    unsafe fn store_bytes(self, to: *mut u8) {
        // SAFETY: the caller's promise: whole numbers that fit.
        unsafe {
            let bytes = self.0.map(|x| x.to_int_unchecked::<i32>() as u8);
            to.cast::<[u8; 4]>().write_unaligned(bytes);
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Integral, Vector};
    use std::arch::x86_64::*;

    /// Eight lanes of AVX2 with FMA.
    #[derive(Clone, Copy)]
    pub struct Avx2(__m256);

    // SAFETY: every intrinsic is of AVX or FMA.
    unsafe impl Vector for Avx2 {
        const LANES: usize = 8;

        #[inline(always)]
        unsafe fn zero() -> Avx2 {
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
            // SAFETY: the caller has AVX and promises valid memory.
            Avx2(unsafe { _mm256_loadu_ps(from) })
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            // SAFETY: the caller has AVX and promises valid memory.
            unsafe { _mm256_storeu_ps(to, self.0) }
        }

        #[inline(always)]
        unsafe fn fma(self, a: Avx2, b: Avx2) -> Avx2 {
            // SAFETY: the caller has FMA.
            Avx2(unsafe { _mm256_fmadd_ps(self.0, a.0, b.0) })
        }

        #[inline(always)]
        unsafe fn load_some(from: *const f32, count: usize) -> Avx2 {
            // SAFETY: the caller has AVX2; lanes that are masked out are not read.
            Avx2(unsafe { _mm256_maskload_ps(from, first_lanes(count)) })
        }

        #[inline(always)]
        unsafe fn store_some(self, to: *mut f32, count: usize) {
            // SAFETY: the caller has AVX2; lanes that are masked out are not written.
            unsafe { _mm256_maskstore_ps(to, first_lanes(count), self.0) }
        }

        #[inline(always)]
        unsafe fn add(self, other: Avx2) -> Avx2 {
            // SAFETY: the caller has AVX.
            Avx2(unsafe { _mm256_add_ps(self.0, other.0) })
        }

        #[inline(always)]
        unsafe fn larger(self, other: Avx2) -> Avx2 {
            // SAFETY: the caller has AVX.
            Avx2(unsafe { _mm256_max_ps(self.0, other.0) })
        }

        #[inline(always)]
        unsafe fn smaller(self, other: Avx2) -> Avx2 {
            // SAFETY: the caller has AVX.
            Avx2(unsafe { _mm256_min_ps(self.0, other.0) })
        }
    }

    // SAFETY: `isa` hands it out where the machine has AVX2.
    unsafe impl Integral for Avx2 {
        #[inline(always)]
        unsafe fn load_differences(a: *const i32, b: *const i32) -> Avx2 {
            // SAFETY: the caller has AVX2 and promises valid memory.
            unsafe {
                let (a, b) = (_mm256_loadu_si256(a.cast()), _mm256_loadu_si256(b.cast()));
                Avx2(_mm256_cvtepi32_ps(_mm256_sub_epi32(a, b)))
            }
        }

        #[inline(always)]
        unsafe fn load_bytes(from: *const u8) -> Avx2 {
            // SAFETY: the caller has AVX2 and promises valid memory.
            unsafe {
                let bytes = _mm_loadl_epi64(from.cast());
                Avx2(_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes)))
            }
        }

        #[inline(always)]
        unsafe fn store_bytes(self, to: *mut u8) {
            // SAFETY: the caller has AVX2 and promises valid memory.
            unsafe {
                let whole = _mm256_cvtps_epi32(self.0);
                let (low, high) =
                    (_mm256_castsi256_si128(whole), _mm256_extracti128_si256::<1>(whole));
                let words = _mm_packus_epi32(low, high);
                _mm_storel_epi64(to.cast(), _mm_packus_epi16(words, words));
            }
        }
    }

    /// Ones in the first lanes.
    ///
    /// # Safety
    /// The machine has AVX2.
    #[inline(always)]
    unsafe fn first_lanes(count: usize) -> __m256i {
        let count = count.min(8) as i32;
        // SAFETY: the caller's promise.
        unsafe {
            _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))
        }
    }

    /// Sixteen lanes of AVX-512.
    #[derive(Clone, Copy)]
    pub struct Avx512(pub(crate) __m512);

    // SAFETY: every intrinsic is of AVX-512 F.
    unsafe impl Vector for Avx512 {
        const LANES: usize = 16;

        #[inline(always)]
        unsafe fn zero() -> Avx512 {
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
            // SAFETY: the caller has AVX-512 and promises valid memory.
            Avx512(unsafe { _mm512_loadu_ps(from) })
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            // SAFETY: the caller has AVX-512 and promises valid memory.
            unsafe { _mm512_storeu_ps(to, self.0) }
        }

        #[inline(always)]
        unsafe fn fma(self, a: Avx512, b: Avx512) -> Avx512 {
            // SAFETY: the caller has AVX-512.
            Avx512(unsafe { _mm512_fmadd_ps(self.0, a.0, b.0) })
        }

        #[inline(always)]
        unsafe fn load_some(from: *const f32, count: usize) -> Avx512 {
            let mask = (1u32 << count.min(16)).wrapping_sub(1) as u16;
            // SAFETY: the caller has AVX-512; lanes that are masked out are not read.
            Avx512(unsafe { _mm512_maskz_loadu_ps(mask, from) })
        }

        #[inline(always)]
        unsafe fn store_some(self, to: *mut f32, count: usize) {
            let mask = (1u32 << count.min(16)).wrapping_sub(1) as u16;
            // SAFETY: the caller has AVX-512; lanes that are masked out are not written.
            unsafe { _mm512_mask_storeu_ps(to, mask, self.0) }
        }

        #[inline(always)]
        unsafe fn add(self, other: Avx512) -> Avx512 {
            // SAFETY: the caller has AVX-512.
            Avx512(unsafe { _mm512_add_ps(self.0, other.0) })
        }

        #[inline(always)]
        unsafe fn larger(self, other: Avx512) -> Avx512 {
            // SAFETY: the caller has AVX-512.
            Avx512(unsafe { _mm512_max_ps(self.0, other.0) })
        }

        #[inline(always)]
        unsafe fn smaller(self, other: Avx512) -> Avx512 {
            // SAFETY: the caller has AVX-512.
            Avx512(unsafe { _mm512_min_ps(self.0, other.0) })
        }
    }

    // SAFETY: `isa` hands it out where the machine has AVX-512.
    unsafe impl Integral for Avx512 {
        #[inline(always)]
        unsafe fn load_differences(a: *const i32, b: *const i32) -> Avx512 {
            // SAFETY: the caller has AVX-512 and promises valid memory.
            unsafe {
                let (a, b) = (_mm512_loadu_si512(a.cast()), _mm512_loadu_si512(b.cast()));
                Avx512(_mm512_cvtepi32_ps(_mm512_sub_epi32(a, b)))
            }
        }

        #[inline(always)]
        unsafe fn load_bytes(from: *const u8) -> Avx512 {
            // SAFETY: the caller has AVX-512 and promises valid memory.
            unsafe {
                let bytes = _mm_loadu_si128(from.cast());
                Avx512(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes)))
            }
        }

        #[inline(always)]
        unsafe fn store_bytes(self, to: *mut u8) {
            // SAFETY: the caller has AVX-512 and promises valid memory.
            unsafe { _mm_storeu_si128(to.cast(), _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(self.0))) }
        }
    }

    /// Transposes sixteen rows of sixteen elements: neighbours, pairs, quarters, halves.
    ///
    /// # Safety
    /// The machine has AVX-512, and the rows are valid memory.
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn turn(from: *const f32, stride: usize) -> [[f32; 16]; 16] {
        // SAFETY: the caller's promise; the array has room for all rows.
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
}

#[cfg(target_arch = "x86_64")]
pub use x86::{Avx2, Avx512};

#[cfg(target_arch = "aarch64")]
mod neon {
    use super::{Integral, Vector};
    use std::arch::aarch64::*;

    /// Four lanes of NEON.
    #[derive(Clone, Copy)]
    pub struct Neon(float32x4_t);

    // SAFETY: NEON is part of AArch64.
    unsafe impl Vector for Neon {
        const LANES: usize = 4;

        #[inline(always)]
        unsafe fn zero() -> Neon {
            // SAFETY: NEON is part of AArch64.
            Neon(unsafe { vdupq_n_f32(0.0) })
        }

        #[inline(always)]
        unsafe fn splat(value: f32) -> Neon {
            // SAFETY: NEON is part of AArch64.
            Neon(unsafe { vdupq_n_f32(value) })
        }

        #[inline(always)]
        unsafe fn load(from: *const f32) -> Neon {
            // SAFETY: the caller promises valid memory.
            Neon(unsafe { vld1q_f32(from) })
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            // SAFETY: the caller promises valid memory.
            unsafe { vst1q_f32(to, self.0) }
        }

        #[inline(always)]
        unsafe fn fma(self, a: Neon, b: Neon) -> Neon {
            // SAFETY: NEON is part of AArch64.
            Neon(unsafe { vfmaq_f32(b.0, self.0, a.0) })
        }

        #[inline(always)]
        unsafe fn load_some(from: *const f32, count: usize) -> Neon {
            let mut lanes = [0f32; 4];
            // SAFETY: the caller's promise; the array has no fewer lanes.
            unsafe {
                from.copy_to_nonoverlapping(lanes.as_mut_ptr(), count.min(4));
                Neon::load(lanes.as_ptr())
            }
        }

        #[inline(always)]
        unsafe fn store_some(self, to: *mut f32, count: usize) {
            let mut lanes = [0f32; 4];
            // SAFETY: the caller's promise; the array has no fewer lanes.
            unsafe {
                self.store(lanes.as_mut_ptr());
                to.copy_from_nonoverlapping(lanes.as_ptr(), count.min(4));
            }
        }

        #[inline(always)]
        unsafe fn add(self, other: Neon) -> Neon {
            // SAFETY: NEON is part of AArch64.
            Neon(unsafe { vaddq_f32(self.0, other.0) })
        }

        #[inline(always)]
        unsafe fn larger(self, other: Neon) -> Neon {
            // SAFETY: NEON is part of AArch64.
            Neon(unsafe { vbslq_f32(vcgtq_f32(self.0, other.0), self.0, other.0) })
        }

        #[inline(always)]
        unsafe fn smaller(self, other: Neon) -> Neon {
            // SAFETY: NEON is part of AArch64.
            Neon(unsafe { vbslq_f32(vcltq_f32(self.0, other.0), self.0, other.0) })
        }
    }

    // SAFETY: NEON is part of AArch64.
    unsafe impl Integral for Neon {
        #[inline(always)]
        unsafe fn load_differences(a: *const i32, b: *const i32) -> Neon {
            // SAFETY: NEON is part of AArch64, and the caller promises valid memory.
            unsafe { Neon(vcvtq_f32_s32(vsubq_s32(vld1q_s32(a), vld1q_s32(b)))) }
        }

        #[inline(always)]
        unsafe fn load_bytes(from: *const u8) -> Neon {
            // SAFETY: NEON is part of AArch64, and the caller promises valid memory.
            unsafe {
                let bytes = from.cast::<[u8; 4]>().read_unaligned().map(f32::from);
                Neon(vld1q_f32(bytes.as_ptr()))
            }
        }

        #[inline(always)]
        unsafe fn store_bytes(self, to: *mut u8) {
            // SAFETY: as above: whole numbers that fit.
            unsafe {
                let mut lanes = [0f32; 4];
                vst1q_f32(lanes.as_mut_ptr(), self.0);
                let bytes = lanes.map(|x| x.to_int_unchecked::<i32>() as u8);
                to.cast::<[u8; 4]>().write_unaligned(bytes);
            }
        }
    }
}

#[cfg(target_arch = "aarch64")]
pub use neon::Neon;

/// Elements of the square blocks that [`turn`] transposes, along each side.
pub const SIDE: usize = 16;

/// Sixteen rows of sixteen elements, `stride` apart, transposed.
///
/// # Panics
/// When the rows are not within `from`.
#[inline(always)]
pub fn turn(from: &[Loose], stride: usize) -> [[f32; SIDE]; SIDE] {
    assert!(from.len() >= (SIDE - 1) * stride + SIDE, "a row is not within the slice");
    #[cfg(target_arch = "x86_64")]
    if crate::isa::isa() >= crate::isa::Isa::Avx512 {
        // SAFETY: the instruction set is there, and the rows have been shown to be within.
        return unsafe { x86::turn(from.as_ptr().cast(), stride) };
    }
    let mut turned = [[0f32; SIDE]; SIDE];
    for (j, row) in from.chunks(stride.max(1)).take(SIDE).enumerate() {
        for (i, x) in row.iter().take(SIDE).enumerate() {
            turned[i][j] = x.get();
        }
    }
    turned
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_transposed() {
        let from: Vec<f32> = (0..16 * 19).map(|i| i as f32).collect();
        let turned = turn(Loose::of(&from), 19);
        for (i, row) in turned.iter().enumerate() {
            for (j, x) in row.iter().enumerate() {
                assert_eq!(*x, from[j * 19 + i]);
            }
        }
    }
}
