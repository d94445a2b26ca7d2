//! The sums of neighbouring outputs of a line, for the channels of a panel.

use super::lanes::{LINES, Lanes, Pairs};
#[cfg(target_arch = "x86_64")]
use super::lanes::{PairsAvx2, Quads};
#[cfg(target_arch = "x86_64")]
use crate::base::isa::Isa;
use crate::base::isa::isa;
use crate::conv::Convolution;
use crate::conv::depthwise::tile::{POSITIONS, pixel, positions};
use crate::quantized::pack::PackedFilters;
use crate::quantized::tile::{TILE_ROWS, WIDTH};
use std::ops::Range;

/// Whether the values of four lines are joined in a lane, and multiplied by VNNI; otherwise those
/// of two, as i16. Joining four takes a permutation of bytes that the first CPUs with VNNI have
/// not got.
pub(super) fn joins_four() -> bool {
    match isa() {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 | Isa::Amx => {
            is_x86_feature_detected!("avx512vnni") && is_x86_feature_detected!("avx512vbmi")
        }
        _ => false,
    }
}

/// Sums of up to [`TILE_ROWS`] outputs.
#[repr(C, align(64))]
pub(super) struct StripSums([[i32; WIDTH]; TILE_ROWS]);

impl StripSums {
    /// A row for each output.
    pub(super) fn rows(&self) -> &[[i32; WIDTH]; TILE_ROWS] {
        &self.0
    }
}

impl Default for StripSums {
    fn default() -> StripSums {
        StripSums([[0; WIDTH]; TILE_ROWS])
    }
}

/// Neighbouring outputs of a line, for the channels of a panel.
pub(super) struct Strip<'a> {
    pub(super) conv: &'a Convolution,
    /// The input lines under the taps, a multiple of [`LINES`].
    pub(super) lines: &'a [&'a [u8]],
    /// As long as a line, of zero points.
    pub(super) padding: &'a [u8],
    /// At most [`WIDTH`].
    pub(super) channels: Range<usize>,
    /// At most [`TILE_ROWS`].
    pub(super) outputs: Range<usize>,
}

impl Strip<'_> {
    /// Computes the sums; those of channels past the last are unspecified.
    ///
    /// # Panics
    /// When the strip is not within the convolution, or the lines have another length.
    pub(super) fn multiply(&self, filters: &PackedFilters, panel: usize, sums: &mut StripSums) {
        let [_, height, width] = self.conv.axes;
        let len = width.input * self.conv.inputs;
        let are_lines = self.lines.iter().all(|line| line.len() == len);
        assert!(are_lines && self.padding.len() == len, "the lines differ");
        assert!(self.lines.len() == height.taps.next_multiple_of(LINES));
        assert!(self.channels.len() <= WIDTH && self.channels.end <= self.conv.inputs);
        assert!(self.outputs.len() <= TILE_ROWS && self.outputs.end <= width.output);
        let weights = filters.i16_pairs(panel);
        let blocks = self.lines.len() / LINES * width.taps;
        assert!(weights.len() == blocks * WIDTH * if joins_four() { 1 } else { 2 });
        // SAFETY: lines, channels, outputs and weights have been checked; the CPU has the
        // instructions.
        unsafe {
            match isa() {
                #[cfg(target_arch = "x86_64")]
                _ if joins_four() => self.avx512(weights, sums),
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 | Isa::Avx512 | Isa::Amx => self.avx2(weights, sums),
                _ => self.all::<Pairs>(weights, sums),
            }
        }
    }

    /// # Safety
    /// As [`Strip::all`], with AVX-512, VNNI and VBMI.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx512vbmi")]
    unsafe fn avx512(&self, weights: &[u32], sums: &mut StripSums) {
        debug_assert!(joins_four());
        // SAFETY: the caller's promise.
        unsafe { self.all::<Quads>(weights, sums) }
    }

    /// # Safety
    /// As [`Strip::all`], with AVX2.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn avx2(&self, weights: &[u32], sums: &mut StripSums) {
        debug_assert!(Isa::Avx2.is_available());
        // SAFETY: the caller's promise.
        unsafe { self.all::<PairsAvx2>(weights, sums) }
    }

    /// Computes two vectors of channels after the other.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`; the strip and its weights have been checked as in
    /// [`Strip::multiply`].
    #[inline(always)]
    unsafe fn all<V: Lanes>(&self, weights: &[u32], sums: &mut StripSums) {
        let width = self.conv.axes[2];
        debug_assert!(self.channels.len() <= WIDTH);
        for first in (0..self.channels.len()).step_by(2 * V::LANES) {
            // SAFETY: the caller's promise.
            unsafe {
                match (width.taps, width.stride, width.dilation) {
                    // Unrolled windows would need large stack frames in unoptimised builds.
                    _ if cfg!(unoptimized) || !V::UNROLLED => {
                        self.each::<V>(self.outputs.clone(), first, weights, sums);
                    }
                    (3, 1, 1) => self.near::<V, 3, 1>(first, weights, sums),
                    (3, 2, 1) => self.near::<V, 3, 2>(first, weights, sums),
                    (5, 1, 1) => self.near::<V, 5, 1>(first, weights, sums),
                    (5, 2, 1) => self.near::<V, 5, 2>(first, weights, sums),
                    _ => self.each::<V>(self.outputs.clone(), first, weights, sums),
                }
            }
        }
    }

    /// All outputs: several at a time where all taps are within the input, the others one by one.
    /// The last of several are computed twice if their number is no multiple.
    ///
    /// # Safety
    /// As [`Strip::all`], from channel `first` of the panel on, for windows as in
    /// [`Strip::neighbours`].
    #[inline(always)]
    unsafe fn near<V: Lanes, const T: usize, const S: usize>(
        &self,
        first: usize,
        weights: &[u32],
        sums: &mut StripSums,
    ) {
        let Range { start, end } = self.outputs;
        debug_assert!(end - start <= TILE_ROWS && first < self.channels.len());
        let inside = self.conv.axes[2].inside();
        let inside = inside.start.clamp(start, end)..inside.end.clamp(start, end);
        // SAFETY: the caller's promise; these outputs have all their taps within the input.
        unsafe {
            match inside.len() {
                8.. if V::REGISTERS >= 32 => {
                    for x in inside.clone().step_by(8) {
                        self.neighbours::<V, 8, T, S>(x.min(inside.end - 8), first, weights, sums);
                    }
                }
                4.. => {
                    for x in inside.clone().step_by(4) {
                        self.neighbours::<V, 4, T, S>(x.min(inside.end - 4), first, weights, sums);
                    }
                }
                _ => return self.each::<V>(start..end, first, weights, sums),
            }
            self.each::<V>(start..inside.start, first, weights, sums);
            self.each::<V>(inside.end..end, first, weights, sums);
        }
    }

    /// `P` neighbours from `x` on, with `T` taps and stride `S` along the line, known to the
    /// compiler: each position is joined once for all windows over it.
    ///
    /// # Safety
    /// As [`Strip::near`]; the outputs are within the strip, and all their taps within the input.
    #[inline(always)]
    unsafe fn neighbours<V: Lanes, const P: usize, const T: usize, const S: usize>(
        &self,
        x: usize,
        first: usize,
        weights: &[u32],
        StripSums(sums): &mut StripSums,
    ) {
        const { assert!((P - 1) * S + T <= POSITIONS, "windows reach further") };
        let ([_, height, width], columns) = (self.conv.axes, self.channels.len() - first);
        debug_assert!((width.taps, width.stride) == (T, S) && x + P <= self.outputs.end);
        let position = (x * S).wrapping_add_signed(width.start);
        debug_assert!(position + (P - 1) * S + T <= width.input);
        let (channels, at) =
            (self.conv.inputs, position * self.conv.inputs + self.channels.start + first);
        // SAFETY: the caller's promise.
        unsafe {
            let mut own = [[V::zero(); 2]; P];
            for (i, lines) in self.lines.chunks_exact(V::LINES).enumerate() {
                if i * V::LINES >= height.taps {
                    break;
                }
                let mut taps = [[V::zero(); 2]; T];
                for t in 0..T {
                    taps[t] = V::weights(weights, block::<V>(i, t, T), first);
                }
                let mut from = pointers::<V>(lines, at);
                let room = self.padding.len() - at;
                positions!(I => {
                    if I < (P - 1) * S + T {
                        let data = V::join(from, room.wrapping_sub(I * channels), columns);
                        for t in 0..T {
                            if let Some(p) = pixel(I, t, S).filter(|p| *p < P) {
                                for v in 0..2 {
                                    own[p][v] = own[p][v].add_products(data[v], taps[t][v]);
                                }
                            }
                        }
                        for line in 0..V::LINES {
                            from[line] = from[line].wrapping_add(channels);
                        }
                    }
                });
            }
            for p in 0..P {
                V::store(own[p], &mut sums[x + p - self.outputs.start], first);
            }
        }
    }

    /// Some outputs, one by one, for any window.
    ///
    /// # Safety
    /// As [`Strip::all`], from channel `first` of the panel on.
    #[inline(always)]
    unsafe fn each<V: Lanes>(
        &self,
        outputs: Range<usize>,
        first: usize,
        weights: &[u32],
        StripSums(sums): &mut StripSums,
    ) {
        let ([_, height, width], columns) = (self.conv.axes, self.channels.len() - first);
        debug_assert!(outputs.end <= self.outputs.end && first < self.channels.len());
        let channel = self.channels.start + first;
        // SAFETY: the caller's promise; positions outside the input are not read.
        unsafe {
            for x in outputs {
                let mut own = [V::zero(); 2];
                for (i, lines) in self.lines.chunks_exact(V::LINES).enumerate() {
                    if i * V::LINES >= height.taps {
                        break;
                    }
                    for t in 0..width.taps {
                        let (from, at) = match width.position(x, t) {
                            Some(at) => (lines, at * self.conv.inputs + channel),
                            None => (&[self.padding; LINES][..], channel),
                        };
                        let room = self.padding.len() - at;
                        let data = V::join(pointers::<V>(from, at), room, columns);
                        let taps = V::weights(weights, block::<V>(i, t, width.taps), first);
                        for v in 0..2 {
                            own[v] = own[v].add_products(data[v], taps[v]);
                        }
                    }
                }
                V::store(own, &mut sums[x - self.outputs.start], first);
            }
        }
    }
}

/// Where the first lines are from an offset on.
#[inline(always)]
fn pointers<V: Lanes>(lines: &[&[u8]], at: usize) -> [*const u8; LINES] {
    let mut to = [std::ptr::null(); LINES];
    for (to, line) in to.iter_mut().zip(lines).take(V::LINES) {
        *to = line.as_ptr().wrapping_add(at);
    }
    to
}

/// The index of the weights under tap `t` of the `i`th lines that are joined, in rows of a panel.
#[inline(always)]
fn block<V: Lanes>(i: usize, t: usize, taps: usize) -> usize {
    let parts = LINES / V::LINES;
    (i / parts * taps + t) * parts + i % parts
}
