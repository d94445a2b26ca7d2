//! The sums of neighbouring outputs of a line, for the channels of a panel.

use super::layout::LINES;
#[cfg(target_arch = "x86_64")]
use super::layout::interleaves_lines;
#[cfg(target_arch = "x86_64")]
use super::quads::Quads;
#[cfg(target_arch = "x86_64")]
use crate::base::par::Slice;
use crate::conv::Convolution;
#[cfg(target_arch = "x86_64")]
use crate::conv::depthwise::tile::{POSITIONS, pixel, positions};
use crate::quantized::affine::AffineRows;
#[cfg(target_arch = "x86_64")]
use crate::quantized::epilogue::{Epilogue, ToSums};
use crate::quantized::pack::PackedFilters;
#[cfg(target_arch = "x86_64")]
use crate::quantized::tile::DOT4_BYTES;
use crate::quantized::tile::{TILE_ROWS, WIDTH};
use std::ops::Range;

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
    /// Checks that the strip is within the convolution.
    ///
    /// # Panics
    /// When it is not, or the lines have another length.
    fn check(&self) {
        let [_, height, width] = self.conv.axes;
        let len = width.input * self.conv.inputs;
        let are_lines = self.lines.iter().all(|line| line.len() == len);
        assert!(are_lines && self.padding.len() == len, "the lines differ");
        assert!(self.lines.len() == height.taps.next_multiple_of(LINES));
        assert!(self.channels.len() <= WIDTH && self.channels.end <= self.conv.inputs);
        assert!(self.outputs.len() <= TILE_ROWS && self.outputs.end <= width.output);
    }

    /// Computes the sums; those of channels past the last are unspecified.
    ///
    /// # Panics
    /// When the strip is not within the convolution, or the lines have another length.
    #[cfg_attr(not(target_arch = "x86_64"), expect(unused_variables))]
    pub(super) fn multiply(&self, filters: &PackedFilters, panel: usize, sums: &mut StripSums) {
        self.check();
        #[cfg(target_arch = "x86_64")]
        {
            let weights = self.weights(filters, panel);
            let to = ToSums(Slice::new(sums.0.as_flattened_mut()));
            // SAFETY: the strip and its weights have been checked; the CPU has the instructions,
            // and the sums take a row for each output.
            unsafe { self.avx512(weights, to) }
        }
        #[cfg(not(target_arch = "x86_64"))]
        unreachable!("lines are interleaved on x86-64 only");
    }

    /// Computes the sums and requantizes them in registers. `to` is where the first goes.
    ///
    /// # Safety
    /// Nobody else uses the rows of the output, which has one for each output of the strip.
    ///
    /// # Panics
    /// As [`Strip::multiply`].
    #[cfg_attr(not(target_arch = "x86_64"), expect(unused_variables))]
    pub(super) unsafe fn requantize(
        &self,
        filters: &PackedFilters,
        panel: usize,
        to: AffineRows<'_>,
    ) {
        debug_assert!(self.channels.len() == to.columns.scales.len());
        self.check();
        #[cfg(target_arch = "x86_64")]
        {
            let weights = self.weights(filters, panel);
            // SAFETY: the strip and its weights have been checked; the CPU has the instructions;
            // the caller's promise.
            unsafe { self.avx512(weights, to) }
        }
        #[cfg(not(target_arch = "x86_64"))]
        unreachable!("lines are interleaved on x86-64 only");
    }
}

#[cfg(target_arch = "x86_64")]
impl Strip<'_> {
    /// The weights of a panel.
    ///
    /// # Panics
    /// When there are others, or the CPU lacks the instructions.
    fn weights<'f>(&self, filters: &'f PackedFilters, panel: usize) -> &'f [i8] {
        let weights = filters.dot4(panel);
        let blocks = self.lines.len() / LINES * self.conv.axes[2].taps;
        assert!(interleaves_lines() && weights.len() == blocks * DOT4_BYTES);
        weights
    }

    /// # Safety
    /// The CPU has AVX-512, VNNI and VBMI; the weights are those of [`Strip::weights`]; `to` takes
    /// a row for each output.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx2,fma")]
    unsafe fn avx512<E: Epilogue>(&self, weights: &[i8], to: E) {
        debug_assert!(interleaves_lines());
        let width = self.conv.axes[2];
        // SAFETY: the caller's promise.
        unsafe {
            match (width.taps, width.stride, width.dilation) {
                // Unrolled windows would need large stack frames in unoptimised builds.
                _ if cfg!(unoptimized) => self.each(self.outputs.clone(), weights, to),
                (3, 1, 1) => self.near::<E, 3, 1>(weights, to),
                (3, 2, 1) => self.near::<E, 3, 2>(weights, to),
                (5, 1, 1) => self.near::<E, 5, 1>(weights, to),
                (5, 2, 1) => self.near::<E, 5, 2>(weights, to),
                _ => self.each(self.outputs.clone(), weights, to),
            }
        }
    }

    /// All outputs: several at a time where all taps are within the input, the others one by one.
    /// The last of several are computed twice if their number is no multiple.
    ///
    /// # Safety
    /// As [`Strip::avx512`], for windows as in [`Strip::neighbours`].
    #[inline(always)]
    unsafe fn near<E: Epilogue, const T: usize, const S: usize>(&self, weights: &[i8], to: E) {
        let Range { start, end } = self.outputs;
        debug_assert!(end - start <= TILE_ROWS);
        let inside = self.conv.axes[2].inside();
        let inside = inside.start.clamp(start, end)..inside.end.clamp(start, end);
        // SAFETY: the caller's promise; these outputs have all their taps within the input.
        unsafe {
            match inside.len() {
                8.. => {
                    for x in inside.clone().step_by(8) {
                        self.neighbours::<E, 8, T, S>(x.min(inside.end - 8), weights, to);
                    }
                }
                4.. => {
                    for x in inside.clone().step_by(4) {
                        self.neighbours::<E, 4, T, S>(x.min(inside.end - 4), weights, to);
                    }
                }
                _ => return self.each(start..end, weights, to),
            }
            self.each(start..inside.start, weights, to);
            self.each(inside.end..end, weights, to);
        }
    }

    /// `P` neighbours from `x` on, with `T` taps and stride `S` along the line, known to the
    /// compiler: each position is interleaved once for all windows over it.
    ///
    /// # Safety
    /// As [`Strip::near`]; the outputs are within the strip, and all their taps within the input.
    #[inline(always)]
    unsafe fn neighbours<E: Epilogue, const P: usize, const T: usize, const S: usize>(
        &self,
        x: usize,
        weights: &[i8],
        to: E,
    ) {
        const { assert!((P - 1) * S + T <= POSITIONS, "windows reach further") };
        let ([_, _, width], columns) = (self.conv.axes, self.channels.len());
        debug_assert!((width.taps, width.stride) == (T, S) && x + P <= self.outputs.end);
        let position = (x * S).wrapping_add_signed(width.start);
        debug_assert!(position + (P - 1) * S + T <= width.input);
        let (channels, at) = (self.conv.inputs, position * self.conv.inputs + self.channels.start);
        // SAFETY: the caller's promise.
        unsafe {
            let mut own = [to.start().map(Quads::of_sums); P];
            for (i, lines) in self.lines.chunks_exact(LINES).enumerate() {
                let mut taps = [[Quads::zero(); 2]; T];
                for t in 0..T {
                    taps[t] = Quads::weights(weights, i * T + t);
                }
                let mut from = pointers(lines, at);
                positions!(I => {
                    if I < (P - 1) * S + T {
                        let data = Quads::interleave(from, columns);
                        for t in 0..T {
                            if let Some(p) = pixel(I, t, S).filter(|p| *p < P) {
                                for v in 0..2 {
                                    own[p][v] = own[p][v].add_products(data[v], taps[t][v]);
                                }
                            }
                        }
                        for line in 0..LINES {
                            from[line] = from[line].wrapping_add(channels);
                        }
                    }
                });
            }
            to.apply(x - self.outputs.start, &own.map(Quads::sums));
        }
    }

    /// Some outputs, one by one, for any window.
    ///
    /// # Safety
    /// As [`Strip::avx512`].
    #[inline(always)]
    unsafe fn each<E: Epilogue>(&self, outputs: Range<usize>, weights: &[i8], to: E) {
        let ([_, _, width], columns) = (self.conv.axes, self.channels.len());
        debug_assert!(outputs.end <= self.outputs.end);
        let channel = self.channels.start;
        // SAFETY: the caller's promise; positions outside the input are not read.
        unsafe {
            for x in outputs {
                let mut own = to.start().map(Quads::of_sums);
                for (i, lines) in self.lines.chunks_exact(LINES).enumerate() {
                    for t in 0..width.taps {
                        let (from, at) = match width.position(x, t) {
                            Some(at) => (lines, at * self.conv.inputs + channel),
                            None => (&[self.padding; LINES][..], channel),
                        };
                        let data = Quads::interleave(pointers(from, at), columns);
                        let taps = Quads::weights(weights, i * width.taps + t);
                        for v in 0..2 {
                            own[v] = own[v].add_products(data[v], taps[v]);
                        }
                    }
                }
                to.apply(x - self.outputs.start, &[Quads::sums(own)]);
            }
        }
    }
}

/// Where four lines are from an offset on.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn pointers(lines: &[&[u8]], at: usize) -> [*const u8; LINES] {
    let mut to = [std::ptr::null(); LINES];
    for (to, line) in to.iter_mut().zip(lines) {
        *to = line.as_ptr().wrapping_add(at);
    }
    to
}
