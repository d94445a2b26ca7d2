//! Operands rounded to bf16, two neighbours along k in the 32 bits of one lane of f32.
//!
//! What adds a pair to a sum is what VDPBF16PS does: `fma(a0, b0, fma(a1, b1, sum))`, each of the
//! two rounded once, to nearest even, with what is below the normal numbers taken for 0 of its
//! sign. Where the instruction is missing, the same is computed step by step. The bits differ in
//! two cases alone: which NaN comes out, and a sum below the least normal number that rounds to
//! it, which the instruction takes for 0.

use super::micro::{Block, Source, Steps, kernel, line, rows};
use super::precision::{Precision, Unit, has_pairs, unit};
use crate::isa::{Isa, isa};
use crate::multiversion;
use crate::simd::Vector;
use std::cell::Cell;
use std::marker::PhantomData;

/// The bits of a number as bf16.
#[inline(always)]
fn round(value: f32) -> u32 {
    let bits = value.to_bits();
    let nearest = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    let tiny = value.abs() < f32::MIN_POSITIVE;
    let number = if tiny { bits >> 16 & 0x8000 } else { nearest };
    if value.is_nan() { bits >> 16 | 0x40 } else { number }
}

multiversion! {
    /// Makes pairs of rows of `width` elements: one row of pairs for each two.
    pub(super) fn pair_rows(rows: &[f32], width: usize, pairs: &mut [f32]) {
        for (rows, pairs) in rows.chunks_exact(2 * width).zip(pairs.chunks_exact_mut(width)) {
            let (even, odd) = rows.split_at(width);
            for ((pair, even), odd) in pairs.iter_mut().zip(even).zip(odd) {
                *pair = f32::from_bits(round(*even) | round(*odd) << 16);
            }
        }
    }
}

multiversion! {
    /// Makes rows for products one by one: those of a pair change places.
    pub(super) fn widen_rows(rows: &[f32], width: usize, to: &mut [f32]) {
        for (rows, to) in rows.chunks_exact(2 * width).zip(to.chunks_exact_mut(2 * width)) {
            let ((even, odd), (first, second)) = (rows.split_at(width), to.split_at_mut(width));
            for i in 0..width {
                first[i] = widen(odd[i]);
                second[i] = widen(even[i]);
            }
        }
    }
}

multiversion! {
    /// The same for the elements of a row.
    fn widen_each(from: &[f32], to: &mut [f32]) {
        for (from, to) in from.chunks_exact(2).zip(to.chunks_exact_mut(2)) {
            (to[0], to[1]) = (widen(from[1]), widen(from[0]));
        }
    }
}

/// A number rounded to bf16.
#[inline(always)]
fn widen(value: f32) -> f32 {
    f32::from_bits(round(value) << 16)
}

multiversion! {
    fn round_each(from: &[f32], to: &mut [u16]) {
        for (from, to) in from.iter().zip(to) {
            *to = round(*from) as u16;
        }
    }
}

/// Rounds an even number of elements to as many lanes as they take.
pub(super) fn round_all(from: &[f32], lanes: &mut [f32]) {
    match unit() {
        Unit::Wide => {
            assert!(from.len() == lanes.len() && from.len().is_multiple_of(2));
            widen_each(from, lanes);
        }
        Unit::Tiles | Unit::Pairs => {
            assert_eq!(from.len(), 2 * lanes.len());
            // SAFETY: there is room for all, two in each lane.
            unsafe { round_run(from.as_ptr(), from.len(), lanes.as_mut_ptr().cast()) }
        }
    }
}

thread_local! {
    /// Room for the rows of a thread: fresh memory for each tile would take longer than the rows.
    static ROOM: Cell<Vec<f32>> = const { Cell::new(Vec::new()) };
}

/// Some rows of A in the lanes that are multiplied.
pub(super) struct Rounded {
    rows: Vec<f32>,
    first: [*const f32; 1],
    k: usize,
    unit: Unit,
    /// Lanes from one row to the next: an odd number of cache lines, so that rows do not compete
    /// for the same places of a cache.
    stride: usize,
}

impl Rounded {
    /// Room for `rows` rows of `k` elements.
    pub(super) fn new(k: usize, rows: usize) -> Rounded {
        let stride = (Precision::Bf16.lanes(k).div_ceil(16) | 1) * 16;
        let mut room = ROOM.take();
        if room.len() < rows * stride {
            room.resize(rows * stride, 0.0);
        }
        Rounded { rows: room, first: [std::ptr::null()], k, unit: unit(), stride }
    }

    /// Rounds `rows` rows that consist of `runs` runs; the result is one run, with zeros behind the
    /// last element.
    ///
    /// # Panics
    /// When neighbours of a run are apart, or there are too many rows.
    ///
    /// # Safety
    /// The pointers are valid for runs of `k / runs` elements.
    pub(super) unsafe fn round(&mut self, from: Source, runs: usize, rows: usize) -> Source {
        let len = self.k / runs;
        assert!(rows * self.stride <= self.rows.len());
        for row in 0..rows {
            for run in 0..runs {
                // SAFETY: the caller's promise.
                let from = unsafe {
                    match from {
                        // The first is null where all are 0.
                        Source::Rows(runs) if (*runs.add(run * rows)).is_null() => std::ptr::null(),
                        Source::Rows(runs) => *runs.add(run * rows + row),
                        Source::Line(runs, steps) => {
                            assert!(steps.inner == 1, "neighbours are apart");
                            let first = *runs.add(run);
                            if first.is_null() { first } else { first.add(row * steps.row) }
                        }
                    }
                };
                // SAFETY: the caller's promise; a row is its runs.
                unsafe { self.round_part(from, len, row, run * len) };
            }
            self.fill_up(row);
        }
        self.first = [self.rows.as_ptr()];
        Source::Line(self.first.as_ptr(), Steps { row: self.stride, inner: 1 })
    }

    /// Rounds elements of a row from element `at` on; they are 0 if there is no pointer to them.
    ///
    /// # Safety
    /// The pointer is valid for so many elements.
    unsafe fn round_part(&mut self, from: *const f32, len: usize, row: usize, at: usize) {
        let to = &mut self.rows[row * self.stride..][..self.stride];
        if self.unit == Unit::Wide {
            // SAFETY: the caller's promise.
            let from = (!from.is_null()).then(|| unsafe { std::slice::from_raw_parts(from, len) });
            return widen_part(from, len, to, at);
        }
        assert!(at + len <= 2 * to.len());
        // SAFETY: the caller's promise; there is room for the row, two elements in each lane.
        unsafe {
            let to = to.as_mut_ptr().cast::<u16>().add(at);
            if from.is_null() {
                to.write_bytes(0, len);
            } else {
                round_run(from, len, to);
            }
        }
    }

    /// Writes the zeros behind a row, up to a whole tile.
    fn fill_up(&mut self, row: usize) {
        let to = &mut self.rows[row * self.stride..][..self.stride];
        match self.unit {
            Unit::Wide if self.k.is_multiple_of(2) => {}
            Unit::Wide => to[self.k - 1] = 0.0,
            Unit::Tiles | Unit::Pairs => {
                let end = self.k.next_multiple_of(32);
                assert!(end <= 2 * to.len());
                // SAFETY: there is room for it, two elements in each lane.
                unsafe { to.as_mut_ptr().cast::<u16>().add(self.k).write_bytes(0, end - self.k) }
            }
        }
    }
}

/// Rounds elements from element `at` of a row on, where those of a pair change places.
fn widen_part(from: Option<&[f32]>, len: usize, to: &mut [f32], at: usize) {
    let Some(from) = from else {
        return (at..at + len).for_each(|i| to[i ^ 1] = 0.0);
    };
    let even = if at.is_multiple_of(2) { len / 2 * 2 } else { 0 };
    widen_each(&from[..even], &mut to[at..at + even]);
    (even..len).for_each(|i| to[(at + i) ^ 1] = widen(from[i]));
}

impl Drop for Rounded {
    fn drop(&mut self) {
        ROOM.set(std::mem::take(&mut self.rows));
    }
}

/// Rounds `len` elements.
///
/// # Safety
/// Both pointers are valid for so many.
unsafe fn round_run(from: *const f32, len: usize, to: *mut u16) {
    // SAFETY: the caller's promise; what is referred to has been written.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        if has_pairs() {
            return x86::round(from, len, to);
        }
        to.write_bytes(0, len);
        round_each(std::slice::from_raw_parts(from, len), std::slice::from_raw_parts_mut(to, len));
    }
}

/// Computes a block whose operands are pairs, as [`micro::run`](super::micro::run).
///
/// # Safety
/// The pointers of the block are valid for its size.
pub(super) unsafe fn run(block: Block, rows: usize) {
    // SAFETY: the caller's promise; the machine has the instruction where it is used.
    unsafe {
        match isa() {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 | Isa::Amx if has_pairs() && block.out.columns <= 16 => {
                x86::native_half(block, rows);
            }
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 | Isa::Amx if has_pairs() => x86::native(block, rows),
            _ => portable(block, rows),
        }
    }
}

/// # Safety
/// As [`run`].
unsafe fn portable(block: Block, rows: usize) {
    #[cfg(target_arch = "aarch64")]
    type Lanes = Pairs<crate::simd::Neon, Emulated>;
    #[cfg(not(target_arch = "aarch64"))]
    type Lanes = Pairs<crate::simd::Portable, Emulated>;
    // SAFETY: the caller's promise; what every machine has.
    unsafe {
        #[cfg(target_arch = "aarch64")]
        rows!(Lanes, 4 of 4, block, rows; 1 2 3 4 5 6);
        #[cfg(not(target_arch = "aarch64"))]
        rows!(Lanes, 2 of 2, block, rows; 1 2 3 4);
    }
}

/// How lanes of pairs are multiplied.
trait Multiply<V>: Copy {
    /// The sums, and the products of the pairs.
    ///
    /// # Safety
    /// The instruction set must be available.
    unsafe fn add_pairs(a: V, b: V, sums: V) -> V;
}

/// Lanes that are pairs, or sums of their products.
#[derive(Clone, Copy)]
struct Pairs<V, M>(V, PhantomData<M>);

// SAFETY: every method is that of the vector, but for `fma`, which is that of pairs.
unsafe impl<V: Vector, M: Multiply<V>> Vector for Pairs<V, M> {
    const LANES: usize = V::LANES;

    #[inline(always)]
    unsafe fn zero() -> Self {
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
    unsafe fn load_some(from: *const f32, count: usize) -> Self {
        // SAFETY: the caller's promise.
        Pairs(unsafe { V::load_some(from, count) }, PhantomData)
    }

    #[inline(always)]
    unsafe fn store_some(self, to: *mut f32, count: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.0.store_some(to, count) }
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
    unsafe fn larger(self, other: Self) -> Self {
        // SAFETY: the caller's promise.
        Pairs(unsafe { self.0.larger(other.0) }, PhantomData)
    }

    #[inline(always)]
    unsafe fn smaller(self, other: Self) -> Self {
        // SAFETY: the caller's promise.
        Pairs(unsafe { self.0.smaller(other.0) }, PhantomData)
    }
}

/// Lane by lane.
#[derive(Clone, Copy)]
struct Emulated;

impl<V: Vector> Multiply<V> for Emulated {
    #[inline(always)]
    unsafe fn add_pairs(a: V, b: V, sums: V) -> V {
        let [mut x, mut y, mut to] = [[0f32; 16]; 3];
        assert!(V::LANES <= 16);
        // SAFETY: the caller's promise; there is room for the lanes.
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
}

/// A sum and the products of two pairs.
#[inline(always)]
fn add_pair(a: u32, b: u32, sum: f32) -> f32 {
    let second = |x: u32| f32::from_bits(x & 0xffff_0000);
    let first = |x: u32| f32::from_bits(x << 16);
    let sum = flushed(second(a).mul_add(second(b), sum));
    flushed(first(a).mul_add(first(b), sum))
}

/// A number, or 0 of its sign if it is below the normal ones.
#[inline(always)]
fn flushed(x: f32) -> f32 {
    if x.abs() < f32::MIN_POSITIVE { 0f32.copysign(x) } else { x }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Block, Multiply, Pairs, Source, kernel, line, rows};
    use crate::simd::Avx512;
    use std::arch::x86_64::*;
    use std::mem::transmute;

    /// By the instruction for it.
    #[derive(Clone, Copy)]
    pub(super) struct Native;

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
    }

    /// Rounds `len` elements.
    ///
    /// # Safety
    /// The machine has AVX512-BF16; the pointers are valid.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    pub(super) unsafe fn round(from: *const f32, len: usize, to: *mut u16) {
        // SAFETY: the caller's promise; what is beyond the elements is masked.
        unsafe {
            let mut i = 0;
            while i + 32 <= len {
                let (low, high) = (_mm512_loadu_ps(from.add(i)), _mm512_loadu_ps(from.add(i + 16)));
                let both = transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(high, low));
                _mm512_storeu_si512(to.add(i).cast(), both);
                i += 32;
            }
            while i < len {
                let mask = u16::MAX >> 16usize.saturating_sub(len - i);
                let some = _mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(mask, from.add(i)));
                let some = transmute::<__m256bh, __m256i>(some);
                _mm256_mask_storeu_epi16(to.add(i).cast(), mask, some);
                i += 16;
            }
        }
    }

    /// # Safety
    /// As [`run`](super::run).
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma")]
    pub(super) unsafe fn native(block: Block, rows: usize) {
        type Lanes = Pairs<Avx512, Native>;
        // SAFETY: the caller's promise, with AVX512-BF16.
        unsafe { rows!(Lanes, 2 of 2, block, rows; 1 2 3 4 5 6 7 8 9 10 11 12 13 14) }
    }

    /// # Safety
    /// As [`run`](super::run).
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma")]
    pub(super) unsafe fn native_half(block: Block, rows: usize) {
        type Lanes = Pairs<Avx512, Native>;
        // SAFETY: the caller's promise, with AVX512-BF16.
        unsafe { rows!(Lanes, 1 of 2, block, rows; 1 2 3 4 5 6 7 8 9 10 11 12 13 14) }
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::simd::Avx512;

    /// Sixteen lanes and their sums: the instruction on one side, what stands in for it on the
    /// other.
    fn both(a: [u32; 16], b: [u32; 16], sums: [f32; 16]) -> ([f32; 16], [f32; 16]) {
        #[target_feature(enable = "avx512f,avx512bf16")]
        unsafe fn native(a: &[u32; 16], b: &[u32; 16], sums: &mut [f32; 16]) {
            // SAFETY: there are sixteen lanes.
            unsafe {
                let load = |from: *const u32| Avx512::load(from.cast());
                let to = sums.as_mut_ptr();
                x86::Native::add_pairs(load(a.as_ptr()), load(b.as_ptr()), Avx512::load(to))
                    .store(to);
            }
        }
        let mut found = sums;
        // SAFETY: `has_pairs` has been asked.
        unsafe { native(&a, &b, &mut found) };
        (found, std::array::from_fn(|i| add_pair(a[i], b[i], sums[i])))
    }

    /// Any bits, and bits around given exponents, where products and sums leave the normal numbers.
    #[test]
    fn the_emulation_gives_the_bits_of_the_instruction() {
        if !has_pairs() {
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
                    round(half()) | round(half()) << 16
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

    /// Also where products are computed in another way because that is faster.
    #[test]
    fn blocks_are_chains_of_pairs() {
        use super::super::micro::{Ahead, Out, Then};
        if !has_pairs() {
            return;
        }
        let (rows, lanes, width) = (3, 7, 32);
        let pair = |i: usize| round(0.3 * i as f32 - 2.0) | round(1.7 - 0.2 * i as f32) << 16;
        let a: Vec<f32> = (0..rows * lanes).map(|i| f32::from_bits(pair(i))).collect();
        let b: Vec<f32> = (0..lanes * width).map(|i| f32::from_bits(pair(i * 5 % 23))).collect();
        for (columns, run) in [(32, x86::native as unsafe fn(Block, usize)), (16, x86::native_half)]
        {
            let mut found = vec![0f32; rows * columns];
            let first = [a.as_ptr()];
            let nothing = Ahead { from: a.as_ptr(), step: 0 };
            let block = Block {
                a: Source::Line(first.as_ptr(), Steps { row: lanes, inner: 1 }),
                runs: 1,
                k: lanes,
                b: b.as_ptr(),
                ahead: [nothing; 2],
                out: Out { to: found.as_mut_ptr(), stride: columns, columns, then: Then::NOTHING },
            };
            // SAFETY: the operands are as large as the block says, and `has_pairs` has been asked.
            unsafe { run(block, rows) };
            for (at, found) in found.iter().enumerate() {
                let (i, j) = (at / columns, at % columns);
                let bits = |x: &[f32], i: usize| x[i].to_bits();
                let chain =
                    |sum, k| add_pair(bits(&a, i * lanes + k), bits(&b, k * width + j), sum);
                assert_eq!(*found, (0..lanes).fold(0.0, chain), "{i} {j}");
            }
        }
    }

    #[test]
    fn both_ways_of_rounding_are_the_same() {
        if !has_pairs() {
            return;
        }
        for high in 0..=u16::MAX {
            let bits =
                [0, 1, 0x7fff, 0x8000, 0x8001, 0xffff].map(|low| u32::from(high) << 16 | low);
            let from = bits.map(f32::from_bits);
            let mut native = [0u16; 6];
            // SAFETY: `has_pairs` has been asked, and both are of the same length.
            unsafe { x86::round(from.as_ptr(), from.len(), native.as_mut_ptr()) };
            assert_eq!(native, from.map(|x| round(x) as u16), "{from:?}");
        }
    }
}
