//! Convolutions of few output channels in f32: the lanes of a vector are neighbouring outputs of a
//! line. Of a product they would be channels, of which there are too few.
//!
//! Each thread keeps the lines of the input that its windows read, each channel on its own and with
//! the padding around it, so that a tap of neighbouring windows is a run of neighbours. Where
//! windows are further apart, so are the neighbours: a channel is then written in as many phases.

use super::problem::{Convolution, Input};
use crate::base::aligned_buf::{AlignedBuf, WeightArena};
use crate::base::isa::{Isa, isa};
use crate::base::num::UnalignedF32;
use crate::base::par::{Slice, Threads};
use crate::base::scratch::ScratchPool;
#[cfg(target_arch = "aarch64")]
use crate::base::simd::Neon;
#[cfg(not(target_arch = "aarch64"))]
use crate::base::simd::Portable;
#[cfg(target_arch = "x86_64")]
use crate::base::simd::{Avx2, Avx512};
use crate::base::simd::{TRANSPOSE_DIM, Vector, transpose_16x16};
use crate::conv::tuning::{
    SMALL_OC_GRAIN, SMALL_OC_LINES, SMALL_OC_MAX_PADDED, SMALL_OC_MAX_STRIDE, SMALL_OC_MIN_LINE,
    SMALL_OC_ROOM,
};
use crate::gemm::{BlockPostOps, PostOp, Precision, RegisterPostOps, Window, finish};
use std::mem::MaybeUninit;

/// Lanes of the widest vector: what may be read behind a line.
const SLACK: usize = 16;

/// Numbers of output channels that there is code for.
const COLUMNS: [usize; 6] = [1, 2, 3, 4, 6, 8];

/// Outputs of a block in all channels, at most.
const MAX_BLOCK: usize = 24 * SLACK;

/// A convolution of few output channels.
pub(super) struct SmallOc<'a> {
    conv: &'a Convolution,
    /// Channels that are computed: those of the output, and some of weight 0.
    columns: usize,
}

/// The convolution, if it has few output channels for the instruction set in use, and lines of
/// which enough fit the cache.
pub(super) fn small_oc(conv: &Convolution) -> Option<SmallOc<'_>> {
    let [depth, height, width] = conv.axes;
    let most = match isa() {
        Isa::Portable => 2,
        Isa::Avx2 => 4,
        Isa::Avx512 | Isa::Amx => 8,
    };
    let is_plane = conv.groups == 1 && depth == Window::NONE && conv.inputs > 0;
    let is_small = (1..=most).contains(&conv.outputs) && conv.taps() > 1;
    let is_f32 = conv.product_precision() == Precision::F32;
    if !(is_plane && is_small && is_f32 && height.is_countable() && width.is_countable()) {
        return None;
    }
    let fits = width.output >= SMALL_OC_MIN_LINE
        && width.stride <= SMALL_OC_MAX_STRIDE
        && width.reach() <= SMALL_OC_MAX_PADDED * width.input
        && height.taps.checked_mul(height.dilation).is_some_and(|lines| lines <= SMALL_OC_LINES);
    let columns = *COLUMNS.iter().find(|columns| **columns >= conv.outputs)?;
    let small = SmallOc { conv, columns };
    (fits && small.room() <= SMALL_OC_ROOM).then_some(small)
}

impl SmallOc<'_> {
    /// Lines of the input that windows read together.
    fn lines(&self) -> usize {
        let height = self.conv.axes[1];
        (height.taps - 1) * height.dilation + 1
    }

    /// Elements of a phase of a channel.
    fn phase(&self) -> usize {
        let width = self.conv.axes[2];
        width.reach().div_ceil(width.stride) + SLACK
    }

    /// Elements of a channel.
    fn plane(&self) -> usize {
        self.phase() * self.conv.axes[2].stride
    }

    /// Elements of the lines that a thread keeps.
    fn room(&self) -> usize {
        self.lines().saturating_mul(self.conv.inputs).saturating_mul(self.plane())
    }

    /// Elements of scratch memory on so many threads.
    pub(super) fn scratch_len(&self, threads: usize) -> usize {
        self.room() * threads
    }

    /// Elements of packed filters.
    pub(super) fn packed_len(&self) -> usize {
        self.conv.taps() * self.conv.inputs * self.columns
    }

    /// Packs filters: for each tap and input channel, one element for each column.
    ///
    /// # Panics
    /// When there are too few.
    pub(super) fn filters(&self, to: &WeightArena, filters: &[f32]) -> AlignedBuf {
        let (taps, inputs) = (self.conv.taps(), self.conv.inputs);
        let mut packed = to.alloc(self.packed_len() * size_of::<f32>());
        let rows = packed.elements_mut::<f32>().chunks_exact_mut(self.columns);
        for (i, row) in rows.enumerate() {
            let (tap, input) = (i / inputs, i % inputs);
            for (o, to) in row.iter_mut().enumerate() {
                let is_there = o < self.conv.outputs;
                *to = if is_there { filters[(o * inputs + input) * taps + tap] } else { 0.0 };
            }
        }
        packed
    }

    /// Convolves as [`Convolution::run`] does.
    pub(super) fn run(
        &self,
        (threads, scratch): (&Threads, &ScratchPool),
        (input, weights): (Input<'_>, &[f32]),
        post_ops: &[PostOp<'_>],
        output: &mut [f32],
    ) {
        let conv = self.conv;
        let [_, height, width] = conv.axes;
        assert!(input.is_alone() && !input.is_bf16, "channels are alone");
        assert_eq!(input.values.len(), conv.batch * conv.inside() * conv.inputs);
        assert_eq!(weights.len(), self.packed_len());
        let (absorbed, rest) = RegisterPostOps::of(post_ops);
        let rows = conv.batch * height.output;
        absorbed.check(rows * width.output, conv.outputs);
        // A matrix lies like the output, and is added to it there.
        let has_matrix = !absorbed.at(0, 0).add.0.is_null();
        let (in_registers, rest) =
            if has_matrix { (RegisterPostOps::of(&[]).0, post_ops) } else { (absorbed, rest) };
        let row_work = width.output * self.columns * conv.taps() * conv.inputs;
        let grain = SMALL_OC_GRAIN.div_ceil(row_work).max(self.lines());
        let mut room = scratch.take::<f32>(self.scratch_len(threads.count()));
        let (room, output) = (Slice::new(&mut room), Slice::new(output));
        threads.par_ranges_with(rows, grain, |rows, worker| {
            // SAFETY: no two threads are the same worker at a time.
            let room = unsafe { room.part(worker * self.room(), self.room()) };
            let mut ring = Ring::new(self, input, room);
            for row in rows {
                let first = row * width.output;
                let line = Line {
                    taps: ring.line(row / height.output, row % height.output, weights),
                    offsets: self.offsets(),
                    plane: self.plane(),
                    inputs: conv.inputs,
                    post_ops: in_registers.at(0, 0),
                    outputs: conv.outputs,
                };
                // SAFETY: the lines have room for all taps of all windows and for the slack behind
                // them; rows are disjoint parts of the output.
                unsafe {
                    let to = output.part(first * conv.outputs, width.output * conv.outputs);
                    line.run(self.columns, to);
                    let own = first..first + width.output;
                    finish(rest, own, 0..conv.outputs, conv.outputs, output);
                }
            }
        });
    }

    /// Where each tap of a line begins in a channel.
    fn offsets(&self) -> Vec<usize> {
        let Window { taps, stride, dilation, .. } = self.conv.axes[2];
        let offset = |at: usize| at % stride * self.phase() + at / stride;
        (0..taps).map(|tap| offset(tap * dilation)).collect()
    }
}

/// The lines of the input that a thread keeps, each in the place of the one that windows have left.
struct Ring<'a> {
    small: &'a SmallOc<'a>,
    input: Input<'a>,
    room: &'a mut [f32],
    /// The line in each place, counted over the whole batch.
    kept: Vec<Option<usize>>,
}

impl<'a> Ring<'a> {
    fn new(small: &'a SmallOc<'a>, input: Input<'a>, room: &'a mut [f32]) -> Ring<'a> {
        // What is beside the input stays 0.
        room.fill(0.0);
        Ring { small, input, kept: vec![None; small.lines()], room }
    }

    /// The lines under the taps of an output line that lie within the input, with their weights.
    fn line<'r>(&'r mut self, batch: usize, y: usize, weights: &'r [f32]) -> Vec<Tapped<'r>> {
        let height = self.small.conv.axes[1];
        let lines =
            || height.taps_within(y).filter_map(|tap| Some((tap, height.position(y, tap)?)));
        for (_, line) in lines() {
            let place = line % self.kept.len();
            let whole = batch * height.input + line;
            if self.kept[place] != Some(whole) {
                self.kept[place] = Some(whole);
                self.write(place, whole);
            }
        }
        let each = self.small.conv.inputs * self.small.plane();
        let of_tap = weights.len() / height.taps;
        let tapped = |(tap, line): (usize, usize)| Tapped {
            values: &self.room[line % self.kept.len() * each..][..each],
            weights: &weights[tap * of_tap..][..of_tap],
        };
        lines().map(tapped).collect()
    }

    /// Writes a line to a place, as far as windows reach.
    fn write(&mut self, place: usize, line: usize) {
        let conv = self.small.conv;
        let width = conv.axes[2];
        let skipped = width.start.max(0).unsigned_abs();
        let before = width.start.min(0).unsigned_abs();
        let count = width.input.saturating_sub(skipped);
        let count = count.min(width.reach().saturating_sub(before));
        let (stride, phase) = (width.stride, self.small.phase());
        let (plane, inputs) = (self.small.plane(), conv.inputs);
        let to = &mut self.room[place * inputs * plane..][..inputs * plane];
        let (batch, y) = (line / conv.axes[1].input, line % conv.axes[1].input);
        let start = y * width.input + skipped;
        if self.input.channels_first {
            for (c, to) in to.chunks_exact_mut(plane).enumerate() {
                let from = (batch * inputs + c) * conv.inside() + start;
                write_phases(&self.input.values[from..][..count], before, (stride, phase), to);
            }
            return;
        }
        let from = &self.input.values[(batch * conv.inside() + start) * inputs..];
        let from = &from[..count * inputs];
        if stride == 1 {
            turn(from, inputs, &mut to[before..], plane);
            return;
        }
        for (x, channels) in from.chunks_exact(inputs).enumerate() {
            let at = before + x;
            let at = at % stride * phase + at / stride;
            for (to, value) in to[at..].iter_mut().step_by(plane).zip(channels) {
                *to = *value;
            }
        }
    }
}

/// Writes a channel of a line in its phases, from a position on.
fn write_phases(from: &[f32], before: usize, (stride, phase): (usize, usize), to: &mut [f32]) {
    if stride == 1 {
        return to[before..][..from.len()].copy_from_slice(from);
    }
    for first in 0..stride.min(from.len()) {
        let at = before + first;
        let to = &mut to[at % stride * phase + at / stride..];
        for (to, value) in to.iter_mut().zip(from[first..].iter().step_by(stride)) {
            *to = *value;
        }
    }
}

/// Writes positions of `channels` elements as channels, `plane` apart.
fn turn(from: &[f32], channels: usize, to: &mut [f32], plane: usize) {
    let count = from.len() / channels;
    let squares = (count / TRANSPOSE_DIM, channels / TRANSPOSE_DIM);
    for x in (0..squares.0).map(|i| i * TRANSPOSE_DIM) {
        for c in (0..squares.1).map(|i| i * TRANSPOSE_DIM) {
            let square = transpose_16x16(UnalignedF32::of(&from[x * channels + c..]), channels);
            for (i, row) in square.iter().enumerate() {
                to[(c + i) * plane + x..][..TRANSPOSE_DIM].copy_from_slice(row);
            }
        }
    }
    let (turned, whole) = (squares.0 * TRANSPOSE_DIM, squares.1 * TRANSPOSE_DIM);
    for x in 0..count {
        let rest = if x < turned { whole } else { 0 };
        for c in rest..channels {
            to[c * plane + x] = from[x * channels + c];
        }
    }
}

/// A line of the input, and the weights of its taps.
struct Tapped<'w> {
    values: &'w [f32],
    weights: &'w [f32],
}

/// A line of the output.
struct Line<'a> {
    taps: Vec<Tapped<'a>>,
    /// Where each tap along the line begins in a channel.
    offsets: Vec<usize>,
    /// Distance between channels.
    plane: usize,
    inputs: usize,
    /// A bias and an activation.
    post_ops: BlockPostOps,
    outputs: usize,
}

/// Calls the code for a number of columns, with the vectors of its blocks.
macro_rules! columns {
    ($line:ident, $columns:ident, $to:ident, $vector:ty; $($n:literal: $p:literal),*) => {
        match $columns {
            $($n => $line.blocks::<$vector, $n, $p>($to),)*
            _ => unreachable!("there is no code for {} columns", $columns),
        }
    };
}

impl Line<'_> {
    /// Computes the line.
    ///
    /// # Safety
    /// The lines have room for all taps of as many windows as there are outputs, and for [`SLACK`]
    /// elements more.
    unsafe fn run(&self, columns: usize, to: &mut [f32]) {
        debug_assert!(to.len().is_multiple_of(self.outputs) && self.outputs <= columns);
        // SAFETY: the caller's promise; `isa` is what the machine has.
        unsafe {
            match isa() {
                #[cfg(target_arch = "x86_64")]
                Isa::Avx512 | Isa::Amx => self.avx512(columns, to),
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 => self.avx2(columns, to),
                #[cfg(target_arch = "aarch64")]
                _ => columns!(self, columns, to, Neon; 1: 8, 2: 8),
                #[cfg(not(target_arch = "aarch64"))]
                _ => columns!(self, columns, to, Portable; 1: 4, 2: 4),
            }
        }
    }

    /// # Safety
    /// As [`Self::run`], with AVX-512.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
    unsafe fn avx512(&self, columns: usize, to: &mut [f32]) {
        debug_assert!(Isa::Avx512.is_available());
        // SAFETY: the caller's promise.
        unsafe { columns!(self, columns, to, Avx512; 1: 8, 2: 8, 3: 6, 4: 6, 6: 4, 8: 3) }
    }

    /// # Safety
    /// As [`Self::run`], with AVX2.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn avx2(&self, columns: usize, to: &mut [f32]) {
        debug_assert!(Isa::Avx2.is_available());
        // SAFETY: the caller's promise.
        unsafe { columns!(self, columns, to, Avx2; 1: 8, 2: 4, 3: 3, 4: 2) }
    }

    /// All blocks of the line: `P` vectors of windows while there are as many, then one.
    ///
    /// # Safety
    /// As [`Self::run`], where the instruction set of `V` is available.
    #[inline(always)]
    unsafe fn blocks<V: Vector, const N: usize, const P: usize>(&self, to: &mut [f32]) {
        let count = to.len() / self.outputs;
        let mut x = 0;
        // SAFETY: the caller's promise.
        unsafe {
            while x + P * V::LANES <= count {
                self.block::<V, N, P>(
                    x,
                    &mut to[x * self.outputs..][..P * V::LANES * self.outputs],
                );
                x += P * V::LANES;
            }
            while x < count {
                let own = (count - x).min(V::LANES);
                self.block::<V, N, 1>(x, &mut to[x * self.outputs..][..own * self.outputs]);
                x += own;
            }
        }
    }

    /// Computes windows from one on, as many as there is room for, at most `P` vectors of them.
    ///
    /// # Safety
    /// As [`Self::blocks`].
    #[inline(always)]
    unsafe fn block<V: Vector, const N: usize, const P: usize>(&self, x: usize, to: &mut [f32]) {
        const { assert!(N * P * V::LANES <= MAX_BLOCK && V::LANES <= SLACK) };
        debug_assert!(to.len() <= P * V::LANES * self.outputs);
        // SAFETY: the caller's promise; there is a bias for each output, and room for the block.
        unsafe {
            let mut sums = [[V::zero(); P]; N];
            for Tapped { values, weights } in &self.taps {
                let mut weights = weights.as_ptr();
                for offset in &self.offsets {
                    let mut from = values.as_ptr().add(offset + x);
                    for _ in 0..self.inputs {
                        let mut windows = [V::zero(); P];
                        for p in 0..P {
                            windows[p] = V::load(from.wrapping_add(p * V::LANES));
                        }
                        for n in 0..N {
                            let weight = V::splat(*weights.add(n));
                            for p in 0..P {
                                sums[n][p] = windows[p].fma(weight, sums[n][p]);
                            }
                        }
                        from = from.wrapping_add(self.plane);
                        weights = weights.add(N);
                    }
                }
            }
            if !self.post_ops.bias.is_null() {
                for n in 0..N.min(self.outputs) {
                    let bias = V::splat(*self.post_ops.bias.add(n));
                    for p in 0..P {
                        sums[n][p] = sums[n][p].add(bias);
                    }
                }
            }
            self.post_ops.activation.apply(&mut sums);
            let mut block = MaybeUninit::<[f32; MAX_BLOCK]>::uninit();
            let block = block.as_mut_ptr().cast::<f32>();
            for n in 0..N {
                for p in 0..P {
                    sums[n][p].store(block.add((n * P + p) * V::LANES));
                }
            }
            let block = std::slice::from_raw_parts(block, N * P * V::LANES);
            interleave(block, P * V::LANES, self.outputs, to);
        }
    }
}

/// Writes columns, `stride` apart, as rows of `outputs` elements.
#[inline(always)]
fn interleave(columns: &[f32], stride: usize, outputs: usize, to: &mut [f32]) {
    if outputs == 1 {
        return to.copy_from_slice(&columns[..to.len()]);
    }
    for (i, row) in to.chunks_exact_mut(outputs).enumerate() {
        for (n, to) in row.iter_mut().enumerate() {
            *to = columns[n * stride + i];
        }
    }
}
