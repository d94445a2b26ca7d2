//! Vectors of f32 for each instruction set, for kernels with register blocking. Everything else is
//! plain loops that the compiler vectorises.
//!
//! All implementations compute the same function of each lane, rounded once. So kernels written
//! over [`Vector`] give the same bits on each instruction set.

#[cfg(not(target_arch = "aarch64"))]
use crate::base::num::{f16, f16_to_f32};

/// A vector register of f32 lanes.
///
/// A vector is proof of its instruction set, so what takes vectors asserts nothing of it. Kernels
/// assert it where they begin, and again by [`Vector::zero`], which makes most of their vectors.
/// [`Vector::splat`] does not: the kernels of development builds would take twice the time. Loads
/// and stores assert what they are told of the memory: that it is not null.
///
/// # Safety
/// Every method does what its documentation says, on any CPU with the instruction set.
pub(crate) unsafe trait Vector: Copy {
    /// Number of lanes.
    const LANES: usize;
    /// Whether lanes can be stored as bf16.
    const ROUNDS: bool = false;
    /// All lanes 0.
    ///
    /// # Safety
    /// The instruction set must be available.
    unsafe fn zero() -> Self;
    /// All lanes equal.
    ///
    /// # Safety
    /// The instruction set must be available.
    unsafe fn splat(value: f32) -> Self;
    /// Loads all lanes; unaligned.
    ///
    /// # Safety
    /// The instruction set must be available, and the lanes be valid memory.
    unsafe fn load(from: *const f32) -> Self;
    /// Stores all lanes; unaligned.
    ///
    /// # Safety
    /// The instruction set must be available, and the lanes be valid memory.
    unsafe fn store(self, to: *mut f32);
    /// Loads the first `count` lanes, at most all; the others are 0. Unaligned.
    ///
    /// # Safety
    /// The instruction set must be available, and these lanes be valid memory.
    unsafe fn load_masked(from: *const f32, count: usize) -> Self;
    /// Stores the first `count` lanes, at most all.
    ///
    /// # Safety
    /// The instruction set must be available, and these lanes be valid memory.
    unsafe fn store_masked(self, to: *mut f32, count: usize);
    /// Stores the first `count` lanes, at most all, as bf16.
    ///
    /// # Panics
    /// Unless [`Self::ROUNDS`].
    ///
    /// # Safety
    /// The instruction set must be available, and these lanes be valid memory.
    #[inline(always)]
    unsafe fn store_bf16(self, _to: *mut u16, _count: usize) {
        unreachable!("these lanes are stored as they are");
    }
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
    /// `self * other`.
    ///
    /// # Safety
    /// The instruction set must be available.
    unsafe fn mul(self, other: Self) -> Self;
    /// `self` if it is larger, else `other`.
    ///
    /// # Safety
    /// The instruction set must be available.
    unsafe fn max(self, other: Self) -> Self;
    /// `self` if it is smaller, else `other`.
    ///
    /// # Safety
    /// The instruction set must be available.
    unsafe fn min(self, other: Self) -> Self;
}

/// Broadcasts within groups of lanes.
///
/// # Safety
/// As [`Vector`].
pub(crate) unsafe trait Spread: Vector {
    /// In each group of `each` neighbouring lanes, lane `i` of the group in all lanes.
    ///
    /// # Safety
    /// The instruction set must be available; `each` must be a power of two that divides the number
    /// of lanes, and `i` be below it.
    unsafe fn spread(self, each: usize, i: usize) -> Self;
}

/// Lookups in two registers.
///
/// # Safety
/// As [`Vector`].
#[cfg(target_arch = "x86_64")]
pub(crate) unsafe trait Lookup: Vector {
    /// For each lane, the lane of `self` and `next`, one behind the other, that its index names;
    /// indices are counted from `first` on.
    ///
    /// # Safety
    /// The instruction set must be available, the indices be valid memory, and each lie within
    /// `first` and the number of lanes of both.
    unsafe fn lookup(self, next: Self, indices: *const i32, first: i32) -> Self;
}

/// Conversions between lanes and integers or f16 in memory.
///
/// # Safety
/// As [`Vector`].
pub(crate) unsafe trait Integral: Vector {
    /// `self / other`.
    ///
    /// # Safety
    /// The instruction set must be available.
    unsafe fn divide(self, other: Self) -> Self;
    /// The lanes' bits 23 places higher: the low bits of a number become the exponent.
    ///
    /// # Safety
    /// The instruction set must be available.
    unsafe fn power(self) -> Self;
    /// Differences of i32 in memory, `a - b`, each rounded to f32; unaligned.
    ///
    /// # Safety
    /// The instruction set must be available, and the lanes be valid memory.
    unsafe fn load_differences(a: *const i32, b: *const i32) -> Self;
    /// Lanes from u8.
    ///
    /// # Safety
    /// The instruction set must be available, and the lanes be valid memory.
    unsafe fn load_bytes(from: *const u8) -> Self;
    /// Lanes from the low nibbles of bytes, and from the high ones.
    ///
    /// # Safety
    /// The instruction set must be available, and the lanes be valid memory.
    unsafe fn load_nibbles(from: *const u8) -> [Self; 2];
    /// Lanes from f16, unaligned.
    ///
    /// # Safety
    /// The instruction set must be available, and the lanes be valid memory.
    unsafe fn load_halves(from: *const u8) -> Self;
    /// Stores lanes as u8, rounded to nearest, ties to even.
    ///
    /// # Safety
    /// The instruction set must be available, the lanes be valid memory, and all values be between
    /// 0 and 255.
    unsafe fn store_bytes(self, to: *mut u8);

    /// As [`Self::store_bytes`], for the lanes of several vectors, one after the other.
    ///
    /// # Safety
    /// As [`Self::store_bytes`], for all lanes.
    #[inline(always)]
    unsafe fn store_all_bytes<const P: usize>(all: [Self; P], to: *mut u8) {
        debug_assert!(!to.is_null());
        for p in 0..P {
            // SAFETY: the caller's promise.
            unsafe { all[p].store_bytes(to.wrapping_add(p * Self::LANES)) };
        }
    }

    /// As [`Self::load_bytes`] for the first `count` lanes, from as many bytes; the others are 0.
    ///
    /// # Safety
    /// As [`Self::load_bytes`], for `count` lanes.
    #[inline(always)]
    unsafe fn load_masked_bytes(from: *const u8, count: usize) -> Self {
        let mut bytes = [0u8; MOST_LANES];
        assert!(count <= Self::LANES && Self::LANES <= MOST_LANES);
        debug_assert!(count == 0 || !from.is_null());
        // SAFETY: the caller's promise; the array has no fewer lanes than a vector.
        unsafe {
            if count == Self::LANES {
                return Self::load_bytes(from);
            }
            from.copy_to_nonoverlapping(bytes.as_mut_ptr(), count);
            Self::load_bytes(bytes.as_ptr())
        }
    }

    /// As [`Self::store_bytes`] for the first `count` lanes.
    ///
    /// # Safety
    /// As [`Self::store_bytes`], for `count` lanes of memory. All values are between 0 and 255,
    /// also those that are not stored.
    #[inline(always)]
    unsafe fn store_masked_bytes(self, to: *mut u8, count: usize) {
        let mut bytes = [0u8; MOST_LANES];
        assert!(count <= Self::LANES && Self::LANES <= MOST_LANES);
        debug_assert!(count == 0 || !to.is_null());
        // SAFETY: the caller's promise; the array has no fewer lanes than a vector.
        unsafe {
            if count == Self::LANES {
                return self.store_bytes(to);
            }
            self.store_bytes(bytes.as_mut_ptr());
            to.copy_from_nonoverlapping(bytes.as_ptr(), count);
        }
    }
}

/// Lanes of the widest vector.
const MOST_LANES: usize = 16;

/// Makes non-temporal stores visible before other threads are told of them.
pub(crate) fn store_fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is part of x86-64.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

/// Prefetches a cache line that is read later, but not at once (to L2). Any address is allowed.
#[inline(always)]
pub(crate) fn prefetch(line: *const f32) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: a hint, which reads nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(line.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}

/// The same pointer, with its origin hidden from the compiler.
#[inline(always)]
#[allow(clippy::pointers_in_nomem_asm_block, reason = "nothing is read through it here")]
pub(crate) fn opaque(pointer: *const f32) -> *const f32 {
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

/// The same index, with its origin hidden from the compiler. In a loop over groups of lanes it
/// keeps the compiler from joining groups, for which it would gather elements one by one.
#[inline(always)]
pub(crate) fn opaque_index(at: usize) -> usize {
    opaque(std::ptr::without_provenance(at)).addr()
}

/// The same value, in memory. It keeps the compiler from computing sums of lanes in another layout,
/// for which it would gather the elements that are added.
#[inline(always)]
pub(crate) fn opaque_ref<T>(value: &T) -> &T {
    // SAFETY: the pointer is that of the reference.
    unsafe { &*opaque(std::ptr::from_ref(value).cast()).cast() }
}

/// Four lanes in portable Rust.
#[cfg(not(target_arch = "aarch64"))]
#[derive(Clone, Copy)]
pub(crate) struct Portable([f32; 4]);

// SAFETY: portable Rust is available everywhere.
#[cfg(not(target_arch = "aarch64"))]
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
        debug_assert!(!from.is_null());
        // SAFETY: the caller's promise.
        Portable(unsafe { from.cast::<[f32; 4]>().read_unaligned() })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        debug_assert!(!to.is_null());
        // SAFETY: the caller's promise.
        unsafe { to.cast::<[f32; 4]>().write_unaligned(self.0) }
    }

    #[inline(always)]
    unsafe fn fma(self, a: Portable, b: Portable) -> Portable {
        Portable(std::array::from_fn(|i| self.0[i].mul_add(a.0[i], b.0[i])))
    }

    #[inline(always)]
    unsafe fn load_masked(from: *const f32, count: usize) -> Portable {
        debug_assert!(count == 0 || !from.is_null());
        let mut lanes = [0f32; 4];
        // SAFETY: the caller's promise; the array has no fewer lanes.
        unsafe {
            from.cast::<[u8; 4]>().copy_to_nonoverlapping(lanes.as_mut_ptr().cast(), count.min(4))
        };
        Portable(lanes)
    }

    #[inline(always)]
    unsafe fn store_masked(self, to: *mut f32, count: usize) {
        debug_assert!(count == 0 || !to.is_null());
        // SAFETY: the caller's promise; the array has no fewer lanes.
        unsafe { to.copy_from_nonoverlapping(self.0.as_ptr(), count.min(4)) };
    }

    #[inline(always)]
    unsafe fn add(self, other: Portable) -> Portable {
        Portable(std::array::from_fn(|i| self.0[i] + other.0[i]))
    }

    #[inline(always)]
    unsafe fn mul(self, other: Portable) -> Portable {
        Portable(std::array::from_fn(|i| self.0[i] * other.0[i]))
    }

    #[inline(always)]
    unsafe fn max(self, other: Portable) -> Portable {
        let (a, b) = (self.0, other.0);
        Portable(std::array::from_fn(|i| if a[i] > b[i] { a[i] } else { b[i] }))
    }

    #[inline(always)]
    unsafe fn min(self, other: Portable) -> Portable {
        let (a, b) = (self.0, other.0);
        Portable(std::array::from_fn(|i| if a[i] < b[i] { a[i] } else { b[i] }))
    }
}

// SAFETY: portable Rust is available everywhere.
#[cfg(not(target_arch = "aarch64"))]
unsafe impl Spread for Portable {
    #[inline(always)]
    unsafe fn spread(self, each: usize, i: usize) -> Portable {
        debug_assert!(each.is_power_of_two() && each <= Self::LANES && i < each);
        Portable(std::array::from_fn(|lane| self.0[(lane & !(each - 1)) + i]))
    }
}

// SAFETY: portable Rust is available everywhere.
#[cfg(not(target_arch = "aarch64"))]
unsafe impl Integral for Portable {
    #[inline(always)]
    unsafe fn divide(self, other: Portable) -> Portable {
        Portable(std::array::from_fn(|i| self.0[i] / other.0[i]))
    }

    #[inline(always)]
    unsafe fn power(self) -> Portable {
        Portable(self.0.map(|x| f32::from_bits(x.to_bits() << 23)))
    }

    #[inline(always)]
    unsafe fn load_differences(a: *const i32, b: *const i32) -> Portable {
        debug_assert!(!a.is_null() && !b.is_null());
        // SAFETY: the caller's promise.
        let [a, b] = unsafe { [a, b].map(|from| from.cast::<[i32; 4]>().read_unaligned()) };
        Portable(std::array::from_fn(|i| a[i].wrapping_sub(b[i]) as f32))
    }

    #[inline(always)]
    unsafe fn load_bytes(from: *const u8) -> Portable {
        debug_assert!(!from.is_null());
        // SAFETY: the caller's promise.
        let bytes = unsafe { from.cast::<[u8; 4]>().read_unaligned() };
        Portable(bytes.map(f32::from))
    }

    #[inline(always)]
    unsafe fn load_nibbles(from: *const u8) -> [Portable; 2] {
        debug_assert!(!from.is_null());
        // SAFETY: the caller's promise.
        let bytes = unsafe { from.cast::<[u8; 4]>().read_unaligned() };
        [0, 4].map(|shift| Portable(bytes.map(|byte| f32::from(byte >> shift & 15))))
    }

    #[inline(always)]
    unsafe fn load_halves(from: *const u8) -> Portable {
        debug_assert!(!from.is_null());
        // SAFETY: the caller's promise.
        let bits = unsafe { from.cast::<[u16; 4]>().read_unaligned() };
        Portable(bits.map(|bits| f16_to_f32(f16::from_bits(bits))))
    }

    #[inline(always)]
    unsafe fn store_bytes(self, to: *mut u8) {
        debug_assert!(!to.is_null());
        debug_assert!(self.0.iter().all(|x| (0.0..=255.0).contains(x)), "{:?}", self.0);
        // SAFETY: the caller promises valid memory and values that fit.
        unsafe {
            let bytes = self.0.map(|x| x.round_ties_even().to_int_unchecked::<i32>() as u8);
            to.cast::<[u8; 4]>().write_unaligned(bytes);
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{Avx2, Avx512, transpose_8x8, transpose_16x16_to};

#[cfg(target_arch = "aarch64")]
mod neon;

#[cfg(target_arch = "aarch64")]
pub(crate) use neon::Neon;

mod transpose;

pub(crate) use transpose::{TRANSPOSE_DIM, transpose_16x16};
