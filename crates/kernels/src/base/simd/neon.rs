//! Vectors of NEON.

use super::{Integral, Spread, Vector};
use crate::base::num::{f16, f16_to_f32};
use std::arch::aarch64::*;

/// Four lanes of NEON.
#[derive(Clone, Copy)]
pub(crate) struct Neon(float32x4_t);

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
        debug_assert!(!from.is_null());
        // SAFETY: the caller promises valid memory.
        Neon(unsafe { vld1q_f32(from) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        debug_assert!(!to.is_null());
        // SAFETY: the caller promises valid memory.
        unsafe { vst1q_f32(to, self.0) }
    }

    #[inline(always)]
    unsafe fn fma(self, a: Neon, b: Neon) -> Neon {
        // SAFETY: NEON is part of AArch64.
        Neon(unsafe { vfmaq_f32(b.0, self.0, a.0) })
    }

    #[inline(always)]
    unsafe fn load_masked(from: *const f32, count: usize) -> Neon {
        debug_assert!(count == 0 || !from.is_null());
        let mut lanes = [0f32; 4];
        // SAFETY: the caller's promise; the array has no fewer lanes.
        unsafe {
            from.cast::<[u8; 4]>().copy_to_nonoverlapping(lanes.as_mut_ptr().cast(), count.min(4));
            Neon::load(lanes.as_ptr())
        }
    }

    #[inline(always)]
    unsafe fn store_masked(self, to: *mut f32, count: usize) {
        debug_assert!(count == 0 || !to.is_null());
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
    unsafe fn mul(self, other: Neon) -> Neon {
        // SAFETY: NEON is part of AArch64.
        Neon(unsafe { vmulq_f32(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn max(self, other: Neon) -> Neon {
        // SAFETY: NEON is part of AArch64.
        Neon(unsafe { vbslq_f32(vcgtq_f32(self.0, other.0), self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn min(self, other: Neon) -> Neon {
        // SAFETY: NEON is part of AArch64.
        Neon(unsafe { vbslq_f32(vcltq_f32(self.0, other.0), self.0, other.0) })
    }
}

// SAFETY: NEON is part of AArch64.
unsafe impl Spread for Neon {
    #[inline(always)]
    unsafe fn spread(self, each: usize, i: usize) -> Neon {
        debug_assert!(each.is_power_of_two() && each <= Self::LANES && i < each);
        let (mut lanes, mut spread) = ([0f32; 4], [0f32; 4]);
        // SAFETY: NEON is part of AArch64, and the arrays have four lanes.
        unsafe {
            vst1q_f32(lanes.as_mut_ptr(), self.0);
            for lane in 0..4 {
                spread[lane] = lanes[((lane & !(each - 1)) + i) & 3];
            }
            Neon(vld1q_f32(spread.as_ptr()))
        }
    }
}

// SAFETY: NEON is part of AArch64.
unsafe impl Integral for Neon {
    #[inline(always)]
    unsafe fn divide(self, other: Neon) -> Neon {
        // SAFETY: NEON is part of AArch64.
        unsafe { Neon(vdivq_f32(self.0, other.0)) }
    }

    #[inline(always)]
    unsafe fn power(self) -> Neon {
        // SAFETY: NEON is part of AArch64.
        unsafe { Neon(vreinterpretq_f32_s32(vshlq_n_s32::<23>(vreinterpretq_s32_f32(self.0)))) }
    }

    #[inline(always)]
    unsafe fn load_differences(a: *const i32, b: *const i32) -> Neon {
        debug_assert!(!a.is_null() && !b.is_null());
        // SAFETY: NEON is part of AArch64, and the caller promises valid memory.
        unsafe { Neon(vcvtq_f32_s32(vsubq_s32(vld1q_s32(a), vld1q_s32(b)))) }
    }

    #[inline(always)]
    unsafe fn load_bytes(from: *const u8) -> Neon {
        debug_assert!(!from.is_null());
        // SAFETY: NEON is part of AArch64, and the caller promises valid memory.
        unsafe {
            let bytes = from.cast::<[u8; 4]>().read_unaligned().map(f32::from);
            Neon(vld1q_f32(bytes.as_ptr()))
        }
    }

    #[inline(always)]
    unsafe fn load_nibbles(from: *const u8) -> [Neon; 2] {
        debug_assert!(!from.is_null());
        // SAFETY: as above.
        unsafe {
            let bytes = from.cast::<[u8; 4]>().read_unaligned();
            let low = bytes.map(|byte| f32::from(byte & 15));
            let high = bytes.map(|byte| f32::from(byte >> 4));
            [Neon(vld1q_f32(low.as_ptr())), Neon(vld1q_f32(high.as_ptr()))]
        }
    }

    #[inline(always)]
    unsafe fn load_halves(from: *const u8) -> Neon {
        debug_assert!(!from.is_null());
        // SAFETY: as above.
        unsafe {
            let bits = from.cast::<[u16; 4]>().read_unaligned();
            let lanes = bits.map(|bits| f16_to_f32(f16::from_bits(bits)));
            Neon(vld1q_f32(lanes.as_ptr()))
        }
    }

    #[inline(always)]
    unsafe fn store_bytes(self, to: *mut u8) {
        debug_assert!(!to.is_null());
        // SAFETY: NEON is part of AArch64, and the caller promises valid memory and values that
        // fit.
        unsafe {
            let values = std::mem::transmute::<float32x4_t, [f32; 4]>(self.0);
            debug_assert!(values.iter().all(|x| (0.0..=255.0).contains(x)), "{values:?}");
            let mut lanes = [0u32; 4];
            vst1q_u32(lanes.as_mut_ptr(), vcvtnq_u32_f32(self.0));
            to.cast::<[u8; 4]>().write_unaligned(lanes.map(|x| x as u8));
        }
    }
}
