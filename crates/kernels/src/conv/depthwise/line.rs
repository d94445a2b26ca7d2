//! One output line of a depthwise convolution.

use crate::base::isa::{Isa, isa};
#[cfg(target_arch = "x86_64")]
use crate::base::simd::{Avx2, Avx512};
use crate::base::simd::{Spread, Vector};
use crate::conv::depthwise::tile::{InputLine, MAX_GROUP_CHANNELS, POSITIONS, pixel, positions};
use crate::gemm::{Out, RegisterPostOps, Window, store};
use std::ops::Range;

/// One output line.
pub(super) struct Row<'a> {
    pub(super) lines: &'a [InputLine],
    pub(super) width: Window,
    pub(super) channels: usize,
    /// Channels of a group.
    pub(super) each: usize,
    /// The channels that are computed.
    pub(super) part: Range<usize>,
    /// The outputs with all taps within the input.
    pub(super) inside: Range<usize>,
    pub(super) to: *mut f32,
    /// The index of the first output, counted over all lines.
    pub(super) first: usize,
    pub(super) absorbed: RegisterPostOps<'a>,
}

/// `count` channels from `first` on.
#[derive(Clone, Copy)]
struct ChannelRange {
    first: usize,
    count: usize,
}

/// Neighbouring outputs.
struct Pixels<'a> {
    /// The first output.
    x: usize,
    /// For each tap, a mask of the outputs whose tap is within the input; empty if all are.
    masks: &'a [u8],
}

/// Neighbouring outputs that are computed at a time if groups have several channels.
const GROUP_PIXELS: usize = 7;

impl Row<'_> {
    /// Computes the line; `masks` has one element per tap.
    ///
    /// # Safety
    /// The input lines and the output are as long as width and channels say.
    pub(super) unsafe fn run(&self, masks: &mut [u8]) {
        debug_assert!(masks.len() == self.width.taps && self.part.end <= self.channels);
        debug_assert!(self.each.is_power_of_two() && self.each <= MAX_GROUP_CHANNELS);
        debug_assert!(self.inside.end <= self.width.output && self.width.is_countable());
        // SAFETY: the caller's promise; `isa` is what the CPU has.
        unsafe {
            match isa() {
                // Unrolled windows would need a stack frame of megabytes in unoptimised builds.
                _ if cfg!(unoptimized) => self.all::<Fallback, false>(masks),
                #[cfg(target_arch = "x86_64")]
                Isa::Avx512 | Isa::Amx => avx512(self, masks),
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 => avx2(self, masks),
                // Few CPUs take this path, so less code is compiled for it.
                _ => self.all::<Fallback, { cfg!(target_arch = "aarch64") }>(masks),
            }
        }
    }

    /// The line, for groups of one channel or of several.
    ///
    /// # Safety
    /// As [`Row::run`], where the instruction set of `V` is available.
    #[inline(always)]
    unsafe fn all<V: Compiled, const UNROLLED: bool>(&self, masks: &mut [u8]) {
        debug_assert!(self.each > 0);
        // SAFETY: the caller's promise.
        unsafe {
            match self.each {
                1 => self.line::<V, UNROLLED>(masks),
                _ if UNROLLED => V::line_of_groups(self),
                _ => self.line_of_groups::<V, false>(),
            }
        }
    }

    /// The line for groups of one channel, seven or eight neighbours at a time. Seven if it divides
    /// the line, as in the feature maps of most networks. `UNROLLED`: common windows have unrolled
    /// code; otherwise one generic loop keeps the code small.
    ///
    /// # Safety
    /// As [`Row::run`], where the instruction set of `V` is available.
    #[inline(always)]
    unsafe fn line<V: Compiled, const UNROLLED: bool>(&self, masks: &mut [u8]) {
        debug_assert!(self.each == 1 && masks.len() == self.width.taps);
        let most = if self.width.output.is_multiple_of(7) { 7 } else { 8 };
        let near = (self.width.taps, self.width.stride, self.width.dilation);
        // SAFETY: the caller's promise.
        let mut x = unsafe {
            match (near, most) {
                _ if !UNROLLED => 0,
                ((3, 1, 1), 7) => V::near_line::<7, 3, 1, 1>(self),
                ((3, 1, 1), _) => V::near_line::<8, 3, 1, 1>(self),
                ((3, 2, 1), 7) => V::near_line::<7, 3, 2, 1>(self),
                ((3, 2, 1), _) => V::near_line::<8, 3, 2, 1>(self),
                ((5, 1, 1), 7) => V::near_line::<7, 5, 1, 1>(self),
                ((5, 1, 1), _) => V::near_line::<8, 5, 1, 1>(self),
                ((5, 2, 1), 7) => V::near_line::<7, 5, 2, 1>(self),
                ((5, 2, 1), _) => V::near_line::<8, 5, 2, 1>(self),
                ((5, 1, 2), 7) => V::near_line::<7, 5, 1, 2>(self),
                ((5, 1, 2), _) => V::near_line::<8, 5, 1, 2>(self),
                _ => 0,
            }
        };
        while x < self.width.output {
            // SAFETY: the caller's promise; the pixels are within the line.
            unsafe {
                x += match (self.width.output - x).min(most) {
                    4.. if !UNROLLED => self.pixels::<V, 4, 2>(x, masks),
                    _ if !UNROLLED => self.pixels::<V, 1, 4>(x, masks),
                    8 => self.pixels::<V, 8, 1>(x, masks),
                    7 => self.pixels::<V, 7, 1>(x, masks),
                    4.. => self.pixels::<V, 4, 2>(x, masks),
                    2.. => self.pixels::<V, 2, 4>(x, masks),
                    _ => self.pixels::<V, 1, 4>(x, masks),
                };
            }
        }
    }

    /// `P` neighbours from `x` on, `L` vectors of channels at a time; returns `P`.
    ///
    /// # Safety
    /// As [`Row::line`].
    #[inline(always)]
    unsafe fn pixels<V: Vector, const P: usize, const L: usize>(
        &self,
        x: usize,
        masks: &mut [u8],
    ) -> usize {
        debug_assert!(x + P <= self.width.output);
        let are_inside = self.inside.contains(&x) && x + P <= self.inside.end;
        // SAFETY: the caller's promise.
        unsafe {
            if are_inside {
                self.channels::<V, P, L, false>(&Pixels { x, masks: &[] });
            } else {
                for (tap, mask) in masks.iter_mut().enumerate() {
                    let bit = |p: usize| u8::from(self.width.position(x + p, tap).is_some()) << p;
                    *mask = (0..P).fold(0, |mask, p| mask | bit(p));
                }
                self.channels::<V, P, L, true>(&Pixels { x, masks });
            }
        }
        P
    }

    /// The line, `P` neighbours at a time, for windows as in [`Row::near`]; returns how many
    /// outputs are computed.
    ///
    /// # Safety
    /// As [`Row::line`].
    #[inline(always)]
    unsafe fn near_line<
        V: Vector,
        const P: usize,
        const T: usize,
        const S: usize,
        const D: usize,
    >(
        &self,
    ) -> usize {
        let Window { taps, stride, dilation, .. } = self.width;
        debug_assert!(self.each == 1 && (taps, stride, dilation) == (T, S, D));
        let mut x = 0;
        while x + P <= self.width.output {
            // SAFETY: the caller's promise; the pixels are within the line.
            unsafe { self.near::<V, P, T, S, D>(x) };
            x += P;
        }
        x
    }

    /// `P` neighbours from `x` on, with `T` taps, stride `S` and dilation `D` known to the
    /// compiler: each input position is read once for all windows over it.
    ///
    /// # Safety
    /// As [`Row::line`].
    #[inline(always)]
    unsafe fn near<V: Vector, const P: usize, const T: usize, const S: usize, const D: usize>(
        &self,
        x: usize,
    ) {
        debug_assert!(x + P <= self.width.output);
        let (mut c, end) = (self.part.start, self.part.end);
        // SAFETY: the caller's promise.
        unsafe {
            while c + V::LANES <= end {
                let channels = ChannelRange { first: c, count: V::LANES };
                self.near_block::<V, P, T, S, D>(x, channels, |from| V::load(from));
                c += V::LANES;
            }
            if c < end {
                let count = end - c;
                let load = |from| V::load_masked(from, count);
                self.near_block::<V, P, T, S, D>(x, ChannelRange { first: c, count }, load);
            }
        }
    }

    /// Some channels of these neighbours.
    ///
    /// # Safety
    /// As [`Row::line`].
    #[inline(always)]
    unsafe fn near_block<
        V: Vector,
        const P: usize,
        const T: usize,
        const S: usize,
        const D: usize,
    >(
        &self,
        x: usize,
        ChannelRange { first: c, count }: ChannelRange,
        load: impl Fn(*const f32) -> V,
    ) {
        const { assert!((P - 1) * S + (T - 1) * D < POSITIONS, "windows reach further") };
        // The first position; negative if it lies before the line.
        let start = (x * S) as isize + self.width.start;
        let first = start * self.channels as isize + c as isize;
        // SAFETY: the caller's promise; positions outside the input are not read.
        unsafe {
            let mut sums = [[V::zero(); 1]; P];
            for &InputLine { values: line, weights } in self.lines {
                let mut taps = [V::zero(); T];
                for t in 0..T {
                    taps[t] = load(weights.add(t * self.channels + c));
                }
                let mut from = line.wrapping_offset(first);
                positions!(I => {
                    if I < (P - 1) * S + (T - 1) * D + 1 {
                        let position = start.wrapping_add_unsigned(I).cast_unsigned();
                        if position < self.width.input {
                            let value = load(from);
                            for t in 0..T {
                                if let Some(p) = pixel(I, t * D, S).filter(|p| *p < P) {
                                    sums[p][0] = value.fma(taps[t], sums[p][0]);
                                }
                            }
                        }
                        from = from.wrapping_add(self.channels);
                    }
                });
            }
            store(&self.out(x, ChannelRange { first: c, count }), sums);
        }
    }

    /// The channels of some outputs, masked or not.
    ///
    /// # Safety
    /// As [`Row::line`].
    #[inline(always)]
    unsafe fn channels<V: Vector, const P: usize, const L: usize, const MASKED: bool>(
        &self,
        pixels: &Pixels<'_>,
    ) {
        debug_assert!(!MASKED || pixels.masks.len() == self.width.taps);
        let (mut c, end) = (self.part.start, self.part.end);
        // SAFETY: the caller's promise.
        unsafe {
            while c + L * V::LANES <= end {
                let load = |from: *const f32, l: usize| V::load(from.add(l * V::LANES));
                let channels = ChannelRange { first: c, count: L * V::LANES };
                self.block::<V, P, L, MASKED>(pixels, channels, load);
                c += L * V::LANES;
            }
            while c < end {
                let count = V::LANES.min(end - c);
                let load = |from, _| V::load_masked(from, count);
                self.block::<V, P, 1, MASKED>(pixels, ChannelRange { first: c, count }, load);
                c += count;
            }
        }
    }

    /// Some channels.
    ///
    /// # Safety
    /// As [`Row::line`].
    #[inline(always)]
    unsafe fn block<V: Vector, const P: usize, const L: usize, const MASKED: bool>(
        &self,
        pixels: &Pixels<'_>,
        ChannelRange { first: c, count }: ChannelRange,
        load: impl Fn(*const f32, usize) -> V,
    ) {
        debug_assert!(count <= L * V::LANES && c + count <= self.channels);
        let next = self.width.stride * self.channels;
        let step = self.width.dilation * self.channels;
        // Before the line, if the first tap of the first output lies there.
        let first = (pixels.x * self.width.stride) as isize + self.width.start;
        let first = first * self.channels as isize + c as isize;
        // SAFETY: the caller's promise; taps outside the input are masked.
        unsafe {
            // Loops over indices, not iterators: what is not inlined here is not compiled for the
            // instruction set.
            let mut sums = [[V::zero(); L]; P];
            let all = u8::MAX >> (8 - P);
            for &InputLine { values: line, weights } in self.lines {
                let mut from = line.wrapping_offset(first);
                let mut weights = weights.wrapping_add(c);
                for tap in 0..self.width.taps {
                    let mask = if MASKED { pixels.masks[tap] } else { all };
                    for l in 0..L {
                        let weight = load(weights, l);
                        if mask == all {
                            for p in 0..P {
                                let value = load(from.wrapping_add(p * next), l);
                                sums[p][l] = value.fma(weight, sums[p][l]);
                            }
                            continue;
                        }
                        for p in 0..P {
                            if mask >> p & 1 == 1 {
                                let value = load(from.wrapping_add(p * next), l);
                                sums[p][l] = value.fma(weight, sums[p][l]);
                            }
                        }
                    }
                    // Wrapping, since after the last tap these point past the end.
                    (from, weights) =
                        (from.wrapping_add(step), weights.wrapping_add(self.channels));
                }
            }
            store(&self.out(pixels.x, ChannelRange { first: c, count }), sums);
        }
    }

    /// The line for groups of several channels: seven neighbours at a time if the window has
    /// unrolled code; the rest one by one.
    ///
    /// # Safety
    /// As [`Row::line`].
    #[inline(always)]
    unsafe fn line_of_groups<V: Spread, const UNROLLED: bool>(&self) {
        debug_assert!(self.each > 1);
        let near = (self.width.taps, self.width.stride, self.width.dilation);
        let mut x = 0;
        while x < self.width.output {
            // SAFETY: the caller's promise; the pixels are within the line.
            unsafe {
                x += match (near, self.width.output - x) {
                    ((3, 1, 1), GROUP_PIXELS..) if UNROLLED => self.near_of_groups::<V, 1>(x),
                    ((3, 2, 1), GROUP_PIXELS..) if UNROLLED => self.near_of_groups::<V, 2>(x),
                    _ => self.one_of_groups::<V>(x),
                };
            }
        }
    }

    /// Seven neighbours from `x` on, with three taps, stride `S` and no dilation: each input
    /// position is read once for all windows over it.
    ///
    /// # Safety
    /// As [`Row::line`].
    #[inline(always)]
    unsafe fn near_of_groups<V: Spread, const S: usize>(&self, x: usize) -> usize {
        debug_assert!(x + GROUP_PIXELS <= self.width.output);
        let start = (x * S) as isize + self.width.start;
        for c in self.part.clone().step_by(V::LANES) {
            let count = V::LANES.min(self.part.end - c);
            let channels = ChannelRange { first: c, count };
            let first = start * self.channels as isize + c as isize;
            // SAFETY: the caller's promise; positions outside the input are not read.
            unsafe {
                let mut sums = [[V::zero(); 1]; GROUP_PIXELS];
                for &InputLine { values: line, weights } in self.lines {
                    for i in 0..self.each {
                        let mut taps = [V::zero(); 3];
                        for t in 0..3 {
                            let own = weights.add((i * 3 + t) * self.channels + c);
                            taps[t] = V::load_masked(own, count);
                        }
                        let mut from = line.wrapping_offset(first);
                        positions!(I => {
                            if I < (GROUP_PIXELS - 1) * S + 3 {
                                let position = start.wrapping_add_unsigned(I).cast_unsigned();
                                if position < self.width.input {
                                    let value = self.input_of_groups::<V>(from, channels, i);
                                    for t in 0..3 {
                                        let p = pixel(I, t, S);
                                        if let Some(p) = p.filter(|p| *p < GROUP_PIXELS) {
                                            sums[p][0] = value.fma(taps[t], sums[p][0]);
                                        }
                                    }
                                }
                                from = from.wrapping_add(self.channels);
                            }
                        });
                    }
                }
                store(&self.out(x, channels), sums);
            }
        }
        GROUP_PIXELS
    }

    /// One output, four vectors of channels at a time.
    ///
    /// # Safety
    /// As [`Row::line`].
    #[inline(always)]
    unsafe fn one_of_groups<V: Spread>(&self, x: usize) -> usize {
        const VECTORS: usize = 4;
        debug_assert!(x < self.width.output);
        for c in self.part.clone().step_by(VECTORS * V::LANES) {
            let end = self.part.end.min(c + VECTORS * V::LANES);
            // SAFETY: the caller's promise; taps outside the input are skipped.
            unsafe {
                let mut sums = [[V::zero(); VECTORS]; 1];
                for &InputLine { values: line, weights } in self.lines {
                    for i in 0..self.each {
                        for t in 0..self.width.taps {
                            let Some(at) = self.width.position(x, t) else { continue };
                            let from = line.add(at * self.channels);
                            let weights = weights.add((i * self.width.taps + t) * self.channels);
                            for l in 0..VECTORS {
                                let own = c + l * V::LANES;
                                if own < end {
                                    let count = V::LANES.min(end - own);
                                    let weight = V::load_masked(weights.add(own), count);
                                    let from = from.add(own);
                                    let value = self.input_of_groups::<V>(
                                        from,
                                        ChannelRange { first: own, count },
                                        i,
                                    );
                                    sums[0][l] = value.fma(weight, sums[0][l]);
                                }
                            }
                        }
                    }
                }
                store(&self.out(x, ChannelRange { first: c, count: end - c }), sums);
            }
        }
        1
    }

    /// Input `i` of each group among some channels, which are at `from`.
    ///
    /// # Safety
    /// As [`Row::line`].
    #[inline(always)]
    unsafe fn input_of_groups<V: Spread>(
        &self,
        from: *const f32,
        ChannelRange { first: c, count }: ChannelRange,
        i: usize,
    ) -> V {
        debug_assert!(i < self.each && count <= V::LANES && c + count <= self.channels);
        debug_assert!(c.is_multiple_of(self.each.min(V::LANES)));
        // SAFETY: the caller's promise; a group begins at a multiple of its size.
        unsafe {
            if V::LANES < MAX_GROUP_CHANNELS && V::LANES < self.each {
                return V::splat(*from.sub(c % self.each).add(i));
            }
            V::load_masked(from, count).spread(self.each, i)
        }
    }

    /// The destination of some channels of the outputs from `x` on.
    ///
    /// # Safety
    /// As [`Row::line`].
    #[inline(always)]
    unsafe fn out(&self, x: usize, channels: ChannelRange) -> Out {
        let ChannelRange { first: c, count: columns } = channels;
        debug_assert!(x < self.width.output && c + columns <= self.channels);
        Out {
            // SAFETY: the caller's promise.
            to: unsafe { self.to.add(x * self.channels + c) },
            is_bf16: false,
            stride: self.channels,
            columns,
            earlier: std::ptr::null(),
            absorbed: self.absorbed.at(self.first + x, c),
        }
    }
}

/// Vectors with functions of their own for lines that are unrolled. As parts of one function they
/// took the compiler a third of the time that all kernels take.
///
/// # Safety
/// The functions only use the instruction set of the vectors.
unsafe trait Compiled: Spread {
    /// [`Row::near_line`].
    ///
    /// # Safety
    /// As there.
    unsafe fn near_line<const P: usize, const T: usize, const S: usize, const D: usize>(
        row: &Row<'_>,
    ) -> usize;

    /// [`Row::line_of_groups`].
    ///
    /// # Safety
    /// As there.
    unsafe fn line_of_groups(row: &Row<'_>);
}

macro_rules! compiled {
    ($(#[$meta:meta])* $vector:ty, $isa:ident, $(#[$feature:meta])*) => {
        $(#[$meta])*
        // SAFETY: what they call is compiled with them.
        unsafe impl Compiled for $vector {
            $(#[$feature])*
            #[inline(never)]
            unsafe fn near_line<const P: usize, const T: usize, const S: usize, const D: usize>(
                row: &Row<'_>,
            ) -> usize {
                debug_assert!(Isa::$isa.is_available());
                // SAFETY: the caller's promise.
                unsafe { row.near_line::<$vector, P, T, S, D>() }
            }

            $(#[$feature])*
            #[inline(never)]
            unsafe fn line_of_groups(row: &Row<'_>) {
                debug_assert!(Isa::$isa.is_available());
                // SAFETY: the caller's promise.
                unsafe { row.line_of_groups::<$vector, true>() }
            }
        }
    };
}

compiled!(Fallback, Portable,);
compiled! {
    #[cfg(target_arch = "x86_64")]
    Avx2, Avx2, #[target_feature(enable = "avx2,fma")]
}
compiled! {
    #[cfg(target_arch = "x86_64")]
    Avx512, Avx512, #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
}

/// # Safety
/// As [`Row::run`], with AVX-512.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
unsafe fn avx512(row: &Row<'_>, masks: &mut [u8]) {
    debug_assert!(Isa::Avx512.is_available());
    // SAFETY: the caller's promise.
    unsafe { row.all::<Avx512, true>(masks) }
}

/// # Safety
/// As [`Row::run`], with AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn avx2(row: &Row<'_>, masks: &mut [u8]) {
    debug_assert!(Isa::Avx2.is_available());
    // SAFETY: the caller's promise.
    unsafe { row.all::<Avx2, true>(masks) }
}

#[cfg(target_arch = "aarch64")]
use crate::base::simd::Neon as Fallback;
#[cfg(not(target_arch = "aarch64"))]
use crate::base::simd::Portable as Fallback;
