//! The bf16 microkernel: two neighbours along k in the 32 bits of one lane of f32.
//!
//! A pair is added to a sum as VDPBF16PS does it: `fma(a0, b0, fma(a1, b1, sum))`, each of the two
//! rounded once, to nearest even; subnormals count as 0 of the same sign. Without the instruction
//! the same is computed step by step. The bits differ in two cases only: which NaN comes out, and a
//! sum below the least normal number that rounds to it, which the instruction flushes to 0.

use crate::base::isa::{Isa, isa};
use crate::base::simd::Vector;
#[cfg(target_arch = "x86_64")]
use crate::gemm::microkernel::args::is_half;
use crate::gemm::microkernel::args::{MicrokernelArgs, mr, nr};
use crate::gemm::microkernel::generic::{indirect, rows, strided};
use crate::gemm::pack::bf16::bf16_bits;
#[cfg(target_arch = "x86_64")]
use crate::gemm::precision::has_dp_bf16;
use crate::gemm::source::Source;
use std::marker::PhantomData;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86::Native16;

/// Computes a block whose operands are pairs, as
/// [`microkernel::run`](crate::gemm::microkernel::run).
///
/// # Safety
/// The pointers of the block are valid for its size.
pub(crate) unsafe fn run(block: &MicrokernelArgs, rows: usize) {
    debug_assert!(rows <= mr() && block.out.columns <= nr());
    // SAFETY: the caller's promise; the CPU has the instruction where it is used.
    unsafe {
        match isa() {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 | Isa::Amx if has_dp_bf16() && is_half(Isa::Avx512, block.out.columns) => {
                x86::native_half(block, rows);
            }
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 | Isa::Amx if has_dp_bf16() => x86::native(block, rows),
            _ => portable(block, rows),
        }
    }
}

/// # Safety
/// As [`run`], with panels for [`Isa::Portable`].
unsafe fn portable(block: &MicrokernelArgs, rows: usize) {
    #[cfg(target_arch = "aarch64")]
    type Lanes = Pairs<crate::base::simd::Neon, Emulated>;
    #[cfg(not(target_arch = "aarch64"))]
    type Lanes = Pairs<crate::base::simd::Portable, Emulated>;
    debug_assert!(isa() == Isa::Portable);
    // SAFETY: the caller's promise; what every CPU has.
    unsafe {
        #[cfg(target_arch = "aarch64")]
        rows!(Lanes, 4 of 4, block, rows; 1 2 3 4 5 6);
        #[cfg(not(target_arch = "aarch64"))]
        rows!(Lanes, 2 of 2, block, rows; 1 2 3 4);
    }
}

/// How lanes of pairs are multiplied.
trait Multiply<V>: Copy {
    /// The sums, plus the products of both elements of each pair.
    ///
    /// # Safety
    /// The instruction set must be available.
    unsafe fn add_pairs(a: V, b: V, sums: V) -> V;

    /// Writes the first `count` sums to memory as bf16; `count` is at most the number of lanes.
    ///
    /// # Safety
    /// The instruction set must be available, and `to` be valid for `count` elements.
    unsafe fn store_bf16(sums: V, to: *mut u16, count: usize);

    /// Whether the instruction set is available.
    fn is_available() -> bool;
}

/// Lanes that hold pairs of bf16, or f32 sums of their products.
#[derive(Clone, Copy)]
pub(crate) struct Pairs<V, M>(V, PhantomData<M>);

// SAFETY: every method is that of the vector, except `fma` and `store_bf16`, which are `M`'s.
unsafe impl<V: Vector, M: Multiply<V>> Vector for Pairs<V, M> {
    const LANES: usize = V::LANES;
    const ROUNDS: bool = true;

    #[inline(always)]
    unsafe fn zero() -> Self {
        debug_assert!(M::is_available());
        // SAFETY: the caller's promise.
        Pairs(unsafe { V::zero() }, PhantomData)
    }

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        // SAFETY: the caller's promise.
        Pairs(unsafe { V::splat(value) }, PhantomData)
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller's promise.
        Pairs(unsafe { V::load(from) }, PhantomData)
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { self.0.store(to) }
    }

    #[inline(always)]
    unsafe fn load_masked(from: *const f32, count: usize) -> Self {
        // SAFETY: the caller's promise.
        Pairs(unsafe { V::load_masked(from, count) }, PhantomData)
    }

    #[inline(always)]
    unsafe fn store_masked(self, to: *mut f32, count: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.0.store_masked(to, count) }
    }

    #[inline(always)]
    unsafe fn store_bf16(self, to: *mut u16, count: usize) {
        // SAFETY: the caller's promise.
        unsafe { M::store_bf16(self.0, to, count) }
    }

    #[inline(always)]
    unsafe fn fma(self, a: Self, b: Self) -> Self {
        // SAFETY: the caller's promise.
        Pairs(unsafe { M::add_pairs(self.0, a.0, b.0) }, PhantomData)
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: the caller's promise.
        Pairs(unsafe { self.0.add(other.0) }, PhantomData)
    }

    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        // SAFETY: the caller's promise.
        Pairs(unsafe { self.0.mul(other.0) }, PhantomData)
    }

    #[inline(always)]
    unsafe fn max(self, other: Self) -> Self {
        // SAFETY: the caller's promise.
        Pairs(unsafe { self.0.max(other.0) }, PhantomData)
    }

    #[inline(always)]
    unsafe fn min(self, other: Self) -> Self {
        // SAFETY: the caller's promise.
        Pairs(unsafe { self.0.min(other.0) }, PhantomData)
    }
}

/// Emulates VDPBF16PS lane by lane.
#[derive(Clone, Copy)]
struct Emulated;

impl<V: Vector> Multiply<V> for Emulated {
    // Not inlined: it is slow in any case, and would only add code at every call.
    #[inline(never)]
    unsafe fn add_pairs(a: V, b: V, sums: V) -> V {
        let [mut x, mut y, mut to] = [[0f32; 16]; 3];
        assert!(V::LANES <= 16);
        // SAFETY: the caller's promise; the arrays hold all lanes.
        unsafe {
            a.store(x.as_mut_ptr());
            b.store(y.as_mut_ptr());
            sums.store(to.as_mut_ptr());
            for i in 0..V::LANES {
                to[i] = add_pair(x[i].to_bits(), y[i].to_bits(), to[i]);
            }
            V::load(to.as_ptr())
        }
    }

    #[inline(never)]
    unsafe fn store_bf16(sums: V, to: *mut u16, count: usize) {
        let mut values = [0f32; 16];
        assert!(count <= V::LANES && V::LANES <= 16);
        // SAFETY: the caller's promise; the array holds all lanes.
        unsafe {
            sums.store(values.as_mut_ptr());
            for (i, value) in values[..count].iter().enumerate() {
                to.add(i).write(bf16_bits(*value) as u16);
            }
        }
    }

    #[inline(always)]
    fn is_available() -> bool {
        true
    }
}

/// A sum plus the products of two pairs.
#[inline(always)]
fn add_pair(a: u32, b: u32, sum: f32) -> f32 {
    let second = |x: u32| f32::from_bits(x & 0xffff_0000);
    let first = |x: u32| f32::from_bits(x << 16);
    let sum = flushed(second(a).mul_add(second(b), sum));
    flushed(first(a).mul_add(first(b), sum))
}

/// The number, or 0 of its sign if it is subnormal.
#[inline(always)]
fn flushed(x: f32) -> f32 {
    if x.abs() < f32::MIN_POSITIVE { 0f32.copysign(x) } else { x }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use crate::base::simd::{Avx512, Vector};
    use crate::gemm::microkernel::args::MicrokernelArgs;
    use crate::gemm::microkernel::bf16_dp::{Multiply, Pairs};
    use crate::gemm::microkernel::generic::{indirect, rows, strided};
    use crate::gemm::precision::has_dp_bf16;
    use crate::gemm::source::Source;
    use std::arch::x86_64::*;
    use std::mem::transmute;

    /// By VDPBF16PS.
    #[derive(Clone, Copy)]
    pub(crate) struct Native;

    impl Multiply<Avx512> for Native {
        #[inline(always)]
        unsafe fn add_pairs(a: Avx512, b: Avx512, sums: Avx512) -> Avx512 {
            // SAFETY: the caller has AVX512-BF16; the types have the same bits.
            unsafe {
                let a = transmute::<__m512, __m512bh>(a.0);
                let b = transmute::<__m512, __m512bh>(b.0);
                Avx512(_mm512_dpbf16_ps(sums.0, a, b))
            }
        }

        #[inline(always)]
        unsafe fn store_bf16(sums: Avx512, to: *mut u16, count: usize) {
            debug_assert!(count <= Avx512::LANES && (count == 0 || !to.is_null()));
            // SAFETY: the caller has AVX512-BF16; what the mask leaves out is not written.
            unsafe {
                let bf16s = transmute::<__m256bh, __m256i>(_mm512_cvtneps_pbh(sums.0));
                let mask = u16::MAX.checked_shr((Avx512::LANES - count) as u32);
                _mm256_mask_storeu_epi16(to.cast(), mask.unwrap_or(0), bf16s);
            }
        }

        #[inline(always)]
        fn is_available() -> bool {
            is_x86_feature_detected!("avx512bf16")
        }
    }

    /// AVX-512 lanes with sums that can be stored as bf16.
    pub(crate) type Native16 = Pairs<Avx512, Native>;

    /// # Safety
    /// As [`run`](super::run).
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma")]
    pub(super) unsafe fn native(block: &MicrokernelArgs, rows: usize) {
        debug_assert!(has_dp_bf16());
        type Lanes = Pairs<Avx512, Native>;
        // SAFETY: the caller's promise, with AVX512-BF16.
        unsafe {
            rows!(
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma")]
                Lanes, 2 of 2, block, rows; 1 2 3 4 5 6 7 8 9 10 11 12 13 14
            )
        }
    }

    /// # Safety
    /// As [`run`](super::run).
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma")]
    pub(super) unsafe fn native_half(block: &MicrokernelArgs, rows: usize) {
        debug_assert!(has_dp_bf16());
        type Lanes = Pairs<Avx512, Native>;
        // SAFETY: the caller's promise, with AVX512-BF16.
        unsafe {
            rows!(
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma")]
                Lanes, 1 of 2, block, rows; 1 2 3 4 5 6 7 8 9 10 11 12 13 14
            )
        }
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::base::simd::Avx512;
    use crate::gemm::source::Strides;

    /// Sixteen lanes of pairs added to sums: by the instruction, and by its emulation.
    fn both(a: [u32; 16], b: [u32; 16], sums: [f32; 16]) -> ([f32; 16], [f32; 16]) {
        #[target_feature(enable = "avx512f,avx512bf16")]
        fn native(a: &[u32; 16], b: &[u32; 16], sums: &mut [f32; 16]) {
            // SAFETY: there are sixteen lanes.
            unsafe {
                let load = |from: *const u32| Avx512::load(from.cast());
                let to = sums.as_mut_ptr();
                x86::Native::add_pairs(load(a.as_ptr()), load(b.as_ptr()), Avx512::load(to))
                    .store(to);
            }
        }
        let mut found = sums;
        // SAFETY: `has_dp_bf16` has been asked.
        unsafe { native(&a, &b, &mut found) };
        (found, std::array::from_fn(|i| add_pair(a[i], b[i], sums[i])))
    }

    /// Any bits, and exponents near the ends of the normal range, so that products and sums leave
    /// it.
    #[test]
    fn the_emulation_gives_the_bits_of_the_instruction() {
        if !has_dp_bf16() {
            return;
        }
        let mut state = 1u64;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 32) as u32
        };
        for (factor, sum) in [(120, 118), (55, 1), (62, 2), (187, 250), (0, 0)] {
            let near = |bits: u32, exponent: u32| match exponent {
                0 => bits,
                _ => bits & 0x807f_ffff | (exponent + (bits >> 23 & 7)) << 23,
            };
            for _ in 0..20_000 {
                let mut pair = || {
                    let mut half = || f32::from_bits(near(next(), factor));
                    bf16_bits(half()) | bf16_bits(half()) << 16
                };
                let (a, b) = (std::array::from_fn(|_| pair()), std::array::from_fn(|_| pair()));
                let sums = std::array::from_fn(|_| flushed(f32::from_bits(near(next(), sum))));
                let (native, emulated) = both(a, b, sums);
                for (x, y) in native.iter().zip(&emulated) {
                    assert!(x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan(), "{x:e} {y:e}");
                }
            }
        }
    }

    #[test]
    fn sums_are_converted_as_operands_are() {
        #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
        fn store(sums: &[f32; 16], to: &mut [u16; 16], count: usize) {
            // SAFETY: there are sixteen lanes.
            unsafe {
                x86::Native::store_bf16(Avx512::load(sums.as_ptr()), to.as_mut_ptr(), count);
            }
        }
        if !has_dp_bf16() {
            return;
        }
        for (high, count) in (0..=u16::MAX).zip((0..=16).cycle()) {
            let low = |i: usize| [0, 1, 0x7fff, 0x8000, 0x8001, 0xffff][i % 6];
            let sums = std::array::from_fn(|i| f32::from_bits(u32::from(high) << 16 | low(i)));
            let mut found = [7; 16];
            // SAFETY: `has_dp_bf16` has been asked.
            unsafe { store(&sums, &mut found, count) };
            let expected = |i: usize| if i < count { bf16_bits(sums[i]) as u16 } else { 7 };
            assert_eq!(found, std::array::from_fn(expected), "{high:x}");
        }
    }

    /// Also on the path that computes in f32.
    #[test]
    fn blocks_are_chains_of_pairs() {
        use crate::gemm::output::Out;
        use crate::gemm::post_ops::BlockPostOps;
        use crate::gemm::prefetch::Prefetch;
        if !has_dp_bf16() {
            return;
        }
        let (rows, lanes, width) = (3, 7, 32);
        let pair =
            |i: usize| bf16_bits(0.3 * i as f32 - 2.0) | bf16_bits(1.7 - 0.2 * i as f32) << 16;
        let a: Vec<f32> = (0..rows * lanes).map(|i| f32::from_bits(pair(i))).collect();
        let b: Vec<f32> = (0..lanes * width).map(|i| f32::from_bits(pair(i * 5 % 23))).collect();
        for (columns, run) in
            [(32, x86::native as unsafe fn(&MicrokernelArgs, usize)), (16, x86::native_half)]
        {
            let mut found = vec![0f32; rows * columns];
            let first = [a.as_ptr()];
            let block = MicrokernelArgs {
                a: Source::Strided(first.as_ptr(), Strides { row: lanes, inner: 1 }),
                runs: 1,
                k: lanes,
                b: b.as_ptr(),
                ahead: Prefetch::nothing(a.as_ptr()),
                out: Out {
                    to: found.as_mut_ptr(),
                    is_bf16: false,
                    stride: columns,
                    columns,
                    earlier: std::ptr::null(),
                    absorbed: BlockPostOps::NOTHING,
                },
            };
            // SAFETY: the operands are as large as the block says, and `has_dp_bf16` has been
            // asked.
            unsafe { run(&block, rows) };
            for (at, found) in found.iter().enumerate() {
                let (i, j) = (at / columns, at % columns);
                let bits = |x: &[f32], i: usize| x[i].to_bits();
                let chain =
                    |sum, k| add_pair(bits(&a, i * lanes + k), bits(&b, k * width + j), sum);
                assert_eq!(*found, (0..lanes).fold(0.0, chain), "{i} {j}");
            }
        }
    }
}
