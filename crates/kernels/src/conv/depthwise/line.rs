//! One line of the output of a convolution by channels.

use super::{Line, MOST_EACH};
use crate::gemm::{Absorbed, Out, Window, store};
#[cfg(target_arch = "x86_64")]
use crate::isa::Isa;
use crate::isa::isa;
use crate::simd::Spread;
use std::ops::Range;

/// One line of the output.
pub(super) struct Row<'a> {
    pub(super) lines: &'a [Line],
    pub(super) width: Window,
    pub(super) channels: usize,
    /// Channels of a group.
    pub(super) each: usize,
    /// The channels that are computed.
    pub(super) part: Range<usize>,
    /// The outputs whose taps all lie within the input.
    pub(super) inside: Range<usize>,
    pub(super) to: *mut f32,
    /// The first output, counted through all lines.
    pub(super) first: usize,
    pub(super) then: Absorbed<'a>,
}

/// Neighbouring outputs.
struct Pixels<'a> {
    /// The first.
    x: usize,
    /// For each tap which of them look through it at the input, where not all of them do.
    masks: &'a [u8],
}

/// Writes the body down for each position that neighbouring windows can look at: the compiler must
/// know which sums a position belongs to.
macro_rules! positions {
    ($i:ident => $body:block) => {
        positions!($i => $body; 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18)
    };
    ($i:ident => $body:block; $($n:literal)*) => {
        $({ const $i: usize = $n; $body })*
    };
}

/// How many those are.
const POSITIONS: usize = 19;

/// The window whose tap, `tap` positions behind its first, looks at a position, both counted from the
/// first of all.
#[inline(always)]
fn pixel(position: usize, tap: usize, stride: usize) -> Option<usize> {
    let start = position.checked_sub(tap)?;
    start.is_multiple_of(stride).then_some(start / stride)
}

impl Row<'_> {
    /// Computes the line; `masks` is room for one of each tap.
    ///
    /// # Safety
    /// The lines are as long as the width and the channels tell, and so is the output.
    pub(super) unsafe fn run(&self, masks: &mut [u8]) {
        // SAFETY: the caller's promise; `isa` is what the machine has.
        unsafe {
            match isa() {
                #[cfg(target_arch = "x86_64")]
                Isa::Avx512 | Isa::Amx => avx512(self, masks),
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 => avx2(self, masks),
                // A path that few machines take is not worth much code.
                _ => self.lines::<Narrow, { cfg!(target_arch = "aarch64") }>(masks),
            }
        }
    }

    /// The line, for groups of one channel or of some.
    ///
    /// # Safety
    /// As [`Row::run`], where the instruction set of `V` is available.
    #[inline(always)]
    unsafe fn lines<V: Spread, const NEAR: bool>(&self, masks: &mut [u8]) {
        // SAFETY: the caller's promise.
        unsafe {
            match self.each {
                1 => self.line::<V, NEAR>(masks),
                _ => self.line_of_groups::<V, NEAR>(masks),
            }
        }
    }

    /// The line, where groups have some channels: seven neighbours at a time, where the usual windows
    /// have code of their own.
    ///
    /// # Safety
    /// As [`Row::line`].
    #[inline(always)]
    unsafe fn line_of_groups<V: Spread, const NEAR: bool>(&self, masks: &mut [u8]) {
        let mut x = 0;
        while x < self.width.output {
            let near = (self.width.taps, self.width.stride, self.width.dilation);
            // SAFETY: the caller's promise; the pixels are within the line.
            unsafe {
                x += match (near, self.width.output - x) {
                    ((3, 1, 1), 7..) if NEAR => self.near::<V, 7, 3, 1, 1, true>(x),
                    ((3, 2, 1), 7..) if NEAR => self.near::<V, 7, 3, 2, 1, true>(x),
                    (_, 4..) => self.pixels::<V, 4, 2, true>(x, masks),
                    _ => self.pixels::<V, 1, 4, true>(x, masks),
                };
            }
        }
    }

    /// The line, some neighbours at a time: seven where that makes equal parts, as the maps of most
    /// networks do, else eight. `NEAR` tells whether the usual windows have code of their own; else
    /// there is little code for all.
    ///
    /// # Safety
    /// As [`Row::run`], where the instruction set of `V` is available.
    #[inline(always)]
    unsafe fn line<V: Spread, const NEAR: bool>(&self, masks: &mut [u8]) {
        let most = if self.width.output.is_multiple_of(7) { 7 } else { 8 };
        let mut x = 0;
        let near = (self.width.taps, self.width.stride, self.width.dilation);
        while NEAR && x + most <= self.width.output {
            // SAFETY: the caller's promise; the pixels are within the line.
            unsafe {
                x += match (near, most) {
                    ((3, 1, 1), 7) => self.near::<V, 7, 3, 1, 1, false>(x),
                    ((3, 1, 1), _) => self.near::<V, 8, 3, 1, 1, false>(x),
                    ((3, 2, 1), 7) => self.near::<V, 7, 3, 2, 1, false>(x),
                    ((3, 2, 1), _) => self.near::<V, 8, 3, 2, 1, false>(x),
                    ((5, 1, 1), 7) => self.near::<V, 7, 5, 1, 1, false>(x),
                    ((5, 1, 1), _) => self.near::<V, 8, 5, 1, 1, false>(x),
                    ((5, 2, 1), 7) => self.near::<V, 7, 5, 2, 1, false>(x),
                    ((5, 2, 1), _) => self.near::<V, 8, 5, 2, 1, false>(x),
                    ((5, 1, 2), 7) => self.near::<V, 7, 5, 1, 2, false>(x),
                    ((5, 1, 2), _) => self.near::<V, 8, 5, 1, 2, false>(x),
                    _ => break,
                };
            }
        }
        while x < self.width.output {
            // SAFETY: the caller's promise; the pixels are within the line.
            unsafe {
                x += match (self.width.output - x).min(most) {
                    4.. if !NEAR => self.pixels::<V, 4, 2, false>(x, masks),
                    _ if !NEAR => self.pixels::<V, 1, 4, false>(x, masks),
                    8 => self.pixels::<V, 8, 1, false>(x, masks),
                    7 => self.pixels::<V, 7, 1, false>(x, masks),
                    4.. => self.pixels::<V, 4, 2, false>(x, masks),
                    2.. => self.pixels::<V, 2, 4, false>(x, masks),
                    _ => self.pixels::<V, 1, 4, false>(x, masks),
                };
            }
        }
    }

    /// `P` neighbours from `x` on, `L` vectors of channels at a time; returns `P`.
    ///
    /// # Safety
    /// As [`Row::line`].
    #[inline(always)]
    unsafe fn pixels<V: Spread, const P: usize, const L: usize, const GROUPED: bool>(
        &self,
        x: usize,
        masks: &mut [u8],
    ) -> usize {
        let are_inside = self.inside.contains(&x) && x + P <= self.inside.end;
        // SAFETY: the caller's promise.
        unsafe {
            if are_inside {
                self.channels::<V, P, L, false, GROUPED>(&Pixels { x, masks: &[] });
            } else {
                for (tap, mask) in masks.iter_mut().enumerate() {
                    let bit = |p: usize| u8::from(self.width.position(x + p, tap).is_some()) << p;
                    *mask = (0..P).fold(0, |mask, p| mask | bit(p));
                }
                self.channels::<V, P, L, true, GROUPED>(&Pixels { x, masks });
            }
        }
        P
    }

    /// `P` neighbours from `x` on, whose `T` taps have a stride `S` and a dilation `D` that the compiler
    /// knows: each position of the input is read once for all windows that look at it. Returns `P`.
    ///
    /// # Safety
    /// As [`Row::line`].
    #[inline(always)]
    unsafe fn near<
        V: Spread,
        const P: usize,
        const T: usize,
        const S: usize,
        const D: usize,
        const GROUPED: bool,
    >(
        &self,
        x: usize,
    ) -> usize {
        let (mut c, end) = (self.part.start, self.part.end);
        // SAFETY: the caller's promise.
        unsafe {
            while c + V::LANES <= end {
                let load = |from| V::load(from);
                self.near_block::<V, P, T, S, D, GROUPED>(x, (c, V::LANES), load);
                c += V::LANES;
            }
            if c < end {
                let count = end - c;
                let load = |from| V::load_some(from, count);
                self.near_block::<V, P, T, S, D, GROUPED>(x, (c, count), load);
            }
        }
        P
    }

    /// `count` channels of them, from `c` on.
    ///
    /// # Safety
    /// As [`Row::line`].
    #[inline(always)]
    unsafe fn near_block<
        V: Spread,
        const P: usize,
        const T: usize,
        const S: usize,
        const D: usize,
        const GROUPED: bool,
    >(
        &self,
        x: usize,
        (c, count): (usize, usize),
        load: impl Fn(*const f32) -> V,
    ) {
        const { assert!((P - 1) * S + (T - 1) * D < POSITIONS, "windows reach further") };
        // The first position, before the line if negative.
        let start = (x * S) as isize + self.width.start;
        let first = start * self.channels as isize + c as isize;
        // SAFETY: the caller's promise; positions outside the input are not read.
        unsafe {
            let mut sums = [[V::zero(); 1]; P];
            for &(line, weights) in self.lines {
                for i in 0..if GROUPED { self.each } else { 1 } {
                    let mut taps = [V::zero(); T];
                    for t in 0..T {
                        taps[t] = load(weights.add((i * T + t) * self.channels + c));
                    }
                    let mut from = line.wrapping_offset(first);
                    positions!(I => {
                        if I < (P - 1) * S + (T - 1) * D + 1 {
                            let position = start.wrapping_add_unsigned(I).cast_unsigned();
                            if position < self.width.input {
                                let value = self.read::<V, GROUPED>(from, (c, i), &load);
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
            }
            let out = Out {
                to: self.to.add(x * self.channels + c),
                stride: self.channels,
                columns: count,
                then: self.then.at(self.first + x, c),
            };
            store(&out, sums);
        }
    }

    /// What the channels from `c` on are multiplied with: their own inputs, or number `i` of their groups.
    ///
    /// # Safety
    /// As [`Row::line`]; `from` is where the channels lie at a position of the input.
    #[inline(always)]
    unsafe fn read<V: Spread, const GROUPED: bool>(
        &self,
        from: *const f32,
        (c, i): (usize, usize),
        load: impl Fn(*const f32) -> V,
    ) -> V {
        // SAFETY: the caller's promise; a group begins at a multiple of its size.
        unsafe {
            match GROUPED {
                false => load(from),
                true if V::LANES < MOST_EACH && V::LANES < self.each => {
                    V::splat(*from.sub(c % self.each).add(i))
                }
                true => load(from).spread(self.each, i),
            }
        }
    }

    /// The channels of some pixels, whether all of them look through all taps or not.
    ///
    /// # Safety
    /// As [`Row::line`].
    #[inline(always)]
    unsafe fn channels<
        V: Spread,
        const P: usize,
        const L: usize,
        const MASKED: bool,
        const GROUPED: bool,
    >(
        &self,
        pixels: &Pixels<'_>,
    ) {
        let (mut c, end) = (self.part.start, self.part.end);
        // SAFETY: the caller's promise.
        unsafe {
            while c + L * V::LANES <= end {
                let load = |from: *const f32, l: usize| V::load(from.add(l * V::LANES));
                self.block::<V, P, L, MASKED, GROUPED>(pixels, (c, L * V::LANES), load);
                c += L * V::LANES;
            }
            while c < end {
                let count = V::LANES.min(end - c);
                let load = |from, _| V::load_some(from, count);
                self.block::<V, P, 1, MASKED, GROUPED>(pixels, (c, count), load);
                c += count;
            }
        }
    }

    /// `count` channels from `c` on.
    ///
    /// # Safety
    /// As [`Row::line`].
    #[inline(always)]
    unsafe fn block<
        V: Spread,
        const P: usize,
        const L: usize,
        const MASKED: bool,
        const GROUPED: bool,
    >(
        &self,
        pixels: &Pixels<'_>,
        (c, count): (usize, usize),
        load: impl Fn(*const f32, usize) -> V,
    ) {
        let next = self.width.stride * self.channels;
        let step = self.width.dilation * self.channels;
        // Before the line, if the first tap of the first pixel lies there.
        let first = (pixels.x * self.width.stride) as isize + self.width.start;
        let first = first * self.channels as isize + c as isize;
        // SAFETY: the caller's promise; taps outside the input are masked.
        unsafe {
            // Loops over indices, not iterators: what is not inlined here is not compiled for the
            // instruction set.
            let mut sums = [[V::zero(); L]; P];
            let all = u8::MAX >> (8 - P);
            for &(line, weights) in self.lines {
                let mut weights = weights.wrapping_add(c);
                for i in 0..if GROUPED { self.each } else { 1 } {
                    let mut from = line.wrapping_offset(first);
                    for tap in 0..self.width.taps {
                        let mask = if MASKED { pixels.masks[tap] } else { all };
                        for l in 0..L {
                            let weight = load(weights, l);
                            let value = |p: usize| {
                                let at = from.wrapping_add(p * next + l * V::LANES);
                                self.read::<V, GROUPED>(at, (c + l * V::LANES, i), |at| load(at, 0))
                            };
                            if mask == all {
                                for p in 0..P {
                                    sums[p][l] = value(p).fma(weight, sums[p][l]);
                                }
                                continue;
                            }
                            for p in 0..P {
                                if mask >> p & 1 == 1 {
                                    sums[p][l] = value(p).fma(weight, sums[p][l]);
                                }
                            }
                        }
                        // Not beyond the end, even behind the last tap.
                        (from, weights) =
                            (from.wrapping_add(step), weights.wrapping_add(self.channels));
                    }
                }
            }
            let out = Out {
                to: self.to.add(pixels.x * self.channels + c),
                stride: self.channels,
                columns: count,
                then: self.then.at(self.first + pixels.x, c),
            };
            store(&out, sums);
        }
    }
}

/// # Safety
/// As [`Row::run`], with AVX-512.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
unsafe fn avx512(row: &Row<'_>, masks: &mut [u8]) {
    // SAFETY: the caller's promise.
    unsafe { row.lines::<crate::simd::Avx512, true>(masks) }
}

/// # Safety
/// As [`Row::run`], with AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn avx2(row: &Row<'_>, masks: &mut [u8]) {
    // SAFETY: the caller's promise.
    unsafe { row.lines::<crate::simd::Avx2, true>(masks) }
}

#[cfg(target_arch = "aarch64")]
use crate::simd::Neon as Narrow;
#[cfg(not(target_arch = "aarch64"))]
use crate::simd::Portable as Narrow;
