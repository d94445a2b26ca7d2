//! Direct convolution to few output channels in f32, with neighbouring outputs of a line as lanes.
//! In a GEMM the lanes are output channels, and most would be empty.
//!
//! Each thread has a line buffer: the input lines that its windows read, planar by channel, with
//! padding. A tap of neighbouring windows then reads a run of elements. With a stride along the
//! line it would read scattered elements, so those convolutions stay GEMMs.

use super::problem::{Convolution, Input};
use crate::base::aligned_buf::{AlignedBuf, WeightArena};
use crate::base::isa::{Isa, isa};
use crate::base::num::UnalignedF32;
use crate::base::par::Slice;
#[cfg(target_arch = "aarch64")]
use crate::base::simd::Neon;
#[cfg(not(target_arch = "aarch64"))]
use crate::base::simd::Portable;
#[cfg(target_arch = "x86_64")]
use crate::base::simd::{Avx2, Avx512};
use crate::base::simd::{TRANSPOSE_DIM, Vector, transpose_16x16};
use crate::base::workers::Workers;
use crate::conv::tuning::{
    SMALL_OC_GRAIN, SMALL_OC_LINE_PER_OUTPUT, SMALL_OC_LINES, SMALL_OC_MAX_PADDED,
    SMALL_OC_MIN_LINE, SMALL_OC_SCRATCH,
};
use crate::gemm::{
    BlockPostOps, LONGEST_BLOCK, PaddedLine, PostOp, Precision, RegisterPostOps, Window, finish,
};
use std::mem::MaybeUninit;
use std::ops::Range;

/// Elements past a line that may be read: the lanes of the widest vector.
const SLACK: usize = 16;

/// The numbers of output channels that have microkernels.
const CHANNELS: [usize; 6] = [1, 2, 3, 4, 6, 8];

/// The most elements of a block, over all channels.
const MAX_BLOCK: usize = 24 * SLACK;

/// A convolution with few output channels.
pub(crate) struct SmallOc<'a> {
    conv: &'a Convolution,
    /// Output channels that are computed: the next number with a microkernel. The surplus channels
    /// have weights of 0.
    computed: usize,
}

/// The convolution, if it has few output channels for this instruction set, and its line buffer
/// fits L2.
pub(crate) fn small_oc(conv: &Convolution) -> Option<SmallOc<'_>> {
    let [depth, height, width] = conv.axes;
    // Half the lanes of a vector. A GEMM computes at least a whole vector of columns, so at least
    // half would be unused.
    let most = match isa() {
        Isa::Portable => 2,
        Isa::Avx2 => 4,
        Isa::Avx512 | Isa::Amx => 8,
    };
    // So few that blocks along k begin at taps.
    let are_inputs_few = (1..=LONGEST_BLOCK).contains(&conv.inputs);
    let is_plane = conv.groups == 1 && depth == Window::NONE && are_inputs_few;
    let is_small = (1..=most).contains(&conv.outputs) && conv.taps() > 1;
    let is_f32 = conv.gemm_precision() == Precision::F32;
    if !(is_plane && is_small && is_f32 && height.is_countable() && width.is_countable()) {
        return None;
    }
    let fits = width.output >= SMALL_OC_MIN_LINE.max(conv.outputs * SMALL_OC_LINE_PER_OUTPUT)
        && width.stride == 1
        && width.reach() <= width.input.saturating_mul(SMALL_OC_MAX_PADDED)
        && height.taps.checked_mul(height.dilation).is_some_and(|lines| lines <= SMALL_OC_LINES);
    let computed = *CHANNELS.iter().find(|channels| **channels >= conv.outputs)?;
    let small = SmallOc { conv, computed };
    (fits && small.own_scratch_len() <= SMALL_OC_SCRATCH).then_some(small)
}

impl SmallOc<'_> {
    /// Input lines under a window, including those between its taps.
    fn lines(&self) -> usize {
        self.conv.axes[1].span()
    }

    /// Elements of one channel of a line.
    fn plane(&self) -> usize {
        self.conv.axes[2].reach() + SLACK
    }

    /// Elements of a line buffer.
    fn line_buffer_len(&self) -> usize {
        self.lines().saturating_mul(self.conv.inputs).saturating_mul(self.plane())
    }

    /// Elements of a line buffer and an output line.
    fn own_scratch_len(&self) -> usize {
        let line = self.conv.axes[2].output.saturating_mul(self.conv.outputs);
        self.line_buffer_len().saturating_add(line)
    }

    /// Elements of scratch memory for this many threads.
    pub(crate) fn scratch_len(&self, threads: usize) -> usize {
        self.own_scratch_len() * threads
    }

    /// Elements of packed filters.
    pub(crate) fn packed_len(&self) -> usize {
        self.conv.taps() * self.conv.inputs * self.computed
    }

    /// Packs filters: for each tap and input channel, one element per output channel.
    ///
    /// # Panics
    /// When there are too few.
    pub(crate) fn pack_filters(&self, to: &WeightArena, filters: &[f32]) -> AlignedBuf {
        let (taps, inputs) = (self.conv.taps(), self.conv.inputs);
        let mut packed = to.alloc(self.packed_len() * size_of::<f32>());
        let rows = packed.elements_mut::<f32>().chunks_exact_mut(self.computed);
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
        workers: Workers<'_>,
        (input, weights): (Input<'_>, &[f32]),
        post_ops: &[PostOp<'_>],
        output: &mut [f32],
    ) {
        let conv = self.conv;
        let [_, height, width] = conv.axes;
        assert!(input.is_alone() && !input.is_bf16, "channels are alone");
        assert_eq!(input.values.len(), conv.batch * conv.inside() * conv.inputs);
        let (absorbed, rest) = RegisterPostOps::of(post_ops);
        absorbed.check(conv.batch * height.output * width.output, conv.outputs);
        // A matrix operand has the layout of the output, and is added there.
        let has_matrix = !absorbed.at(0, 0).add.0.is_null();
        let (in_registers, rest) =
            if has_matrix { (RegisterPostOps::of(&[]).0, post_ops) } else { (absorbed, rest) };
        let output = Slice::new(output);
        let planes =
            |from: Positions, to: &mut [f32], plane: usize| planes_of(conv, input, from, to, plane);
        self.run_lines(workers, (&planes, weights), in_registers, &|own, _, line| {
            // SAFETY: lines are disjoint parts of the output.
            unsafe {
                line.compute(output.part(own.start * conv.outputs, own.len() * conv.outputs));
                finish(rest, own, 0..conv.outputs, conv.outputs, output);
            }
        });
    }

    /// Calls `write` for each output line. `planes` gives the input.
    ///
    /// # Panics
    /// When there are too few weights.
    pub(crate) fn run_lines(
        &self,
        Workers { threads, scratch }: Workers<'_>,
        (planes, weights): (&Planes<'_>, &[f32]),
        in_registers: RegisterPostOps<'_>,
        write: &WriteLine<'_>,
    ) {
        let conv = self.conv;
        let [_, height, width] = conv.axes;
        assert_eq!(weights.len(), self.packed_len());
        let rows = conv.batch * height.output;
        let row_work = width.output * self.computed * conv.taps() * conv.inputs;
        let grain = SMALL_OC_GRAIN.div_ceil(row_work).max(self.lines());
        let own_len = self.own_scratch_len();
        let mut workspace = scratch.take::<f32>(self.scratch_len(threads.count()));
        let workspace = Slice::new(&mut workspace);
        threads.par_ranges_with(rows, grain, |rows, worker| {
            // SAFETY: no two threads are the same worker at a time.
            let workspace = unsafe { workspace.part(worker * own_len, own_len) };
            let (workspace, own) = workspace.split_at_mut(self.line_buffer_len());
            let mut buffer = LineBuffer::new(self, planes, workspace);
            for row in rows {
                let first = row * width.output;
                let line = Line {
                    taps: buffer.line(row / height.output, row % height.output, weights),
                    width,
                    plane: self.plane(),
                    inputs: conv.inputs,
                    post_ops: in_registers.at(0, 0),
                    outputs: conv.outputs,
                    computed: self.computed,
                };
                write(first..first + width.output, own, &line);
            }
        });
    }
}

/// Positions of the input or output, counted over the whole batch.
pub(crate) type Positions = Range<usize>;

/// Writes positions of the input to planes, one for each channel. The number is the distance
/// between planes, in elements.
pub(crate) type Planes<'a> = dyn Fn(Positions, &mut [f32], usize) + Sync + 'a;

/// Writes an output line, given the range of its positions and a buffer as long as the line.
pub(crate) type WriteLine<'a> = dyn Fn(Positions, &mut [f32], &Line<'_>) + Sync + 'a;

/// A ring buffer of the input lines under an output line. Each new line replaces one that no later
/// window reads.
struct LineBuffer<'a> {
    small: &'a SmallOc<'a>,
    planes: &'a Planes<'a>,
    workspace: &'a mut [f32],
    /// The line in each slot, counted over the whole batch.
    kept: Vec<Option<usize>>,
}

impl<'a> LineBuffer<'a> {
    fn new(
        small: &'a SmallOc<'a>,
        planes: &'a Planes<'a>,
        workspace: &'a mut [f32],
    ) -> LineBuffer<'a> {
        // The padding stays 0.
        workspace.fill(0.0);
        LineBuffer { small, planes, kept: vec![None; small.lines()], workspace }
    }

    /// The taps of an output line on lines within the input, with their weights: an item for each
    /// input line and each of its blocks along k.
    fn line<'r>(&'r mut self, batch: usize, y: usize, weights: &'r [f32]) -> Vec<LineTaps<'r>> {
        let [_, height, width] = self.small.conv.axes;
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
        let (inputs, blocks) = (self.small.conv.inputs, self.small.conv.k_blocks());
        let (each, of_tap) = (inputs * self.small.plane(), inputs * self.small.computed);
        let mut runs: Vec<LineTaps<'r>> = Vec::new();
        for (first, line) in lines().map(|(tap, line)| (tap * width.taps, line)) {
            let values = &self.workspace[line % self.kept.len() * each..][..each];
            for block in blocks.iter().map(|block| block.start / inputs..block.end / inputs) {
                let taps = block.start.max(first)..block.end.min(first + width.taps);
                if taps.is_empty() {
                    continue;
                }
                // The last run had more of this block to come.
                if let Some(last) = runs.last_mut().filter(|last| last.block == block.start) {
                    last.ends_block = false;
                }
                let weights = &weights[taps.start * of_tap..taps.end * of_tap];
                let taps = taps.start - first..taps.end - first;
                runs.push(LineTaps { values, taps, weights, block: block.start, ends_block: true });
            }
        }
        runs
    }

    /// Writes the part of a line that windows read to a slot.
    fn write(&mut self, place: usize, line: usize) {
        let conv = self.small.conv;
        let width = conv.axes[2];
        let PaddedLine { before, skipped, count } = width.line();
        if count == 0 {
            // Windows read only padding.
            return;
        }
        let (plane, inputs) = (self.small.plane(), conv.inputs);
        let to = &mut self.workspace[place * inputs * plane..][..inputs * plane];
        let start = line * width.input + skipped;
        (self.planes)(start..start + count, &mut to[before..], plane);
    }
}

/// Writes positions of an input to planes.
fn planes_of(conv: &Convolution, input: Input<'_>, from: Positions, to: &mut [f32], plane: usize) {
    let inputs = conv.inputs;
    if !input.channels_first {
        return to_planes(&input.values[from.start * inputs..from.end * inputs], inputs, to, plane);
    }
    let (batch, start) = (from.start / conv.inside(), from.start % conv.inside());
    for (c, to) in to.chunks_mut(plane).take(inputs).enumerate() {
        let at = (batch * inputs + c) * conv.inside() + start;
        to[..from.len()].copy_from_slice(&input.values[at..][..from.len()]);
    }
}

/// Positions of eight channels that are transposed at a time.
pub(crate) const BLOCK: usize = 2 * TRANSPOSE_DIM;

/// Transposes positions of `channels` elements to planes, `plane` elements apart.
pub(crate) fn to_planes(from: &[f32], channels: usize, to: &mut [f32], plane: usize) {
    let count = from.len() / channels;
    let [mut transposed, mut whole] = [count, channels].map(|n| n / TRANSPOSE_DIM * TRANSPOSE_DIM);
    if channels == TRANSPOSE_DIM / 2 {
        (transposed, whole) = (count / BLOCK * BLOCK, channels);
        for x in (0..transposed).step_by(BLOCK) {
            eight_to_planes(&from[x * channels..], &mut to[x..], plane);
        }
    }
    for x in (0..transposed).step_by(TRANSPOSE_DIM) {
        for c in (0..whole / TRANSPOSE_DIM * TRANSPOSE_DIM).step_by(TRANSPOSE_DIM) {
            let square = transpose_16x16(UnalignedF32::of(&from[x * channels + c..]), channels);
            for (i, row) in square.iter().enumerate() {
                to[(c + i) * plane + x..][..TRANSPOSE_DIM].copy_from_slice(row);
            }
        }
    }
    for x in 0..count {
        let rest = if x < transposed { whole } else { 0 };
        for c in rest..channels {
            to[c * plane + x] = from[x * channels + c];
        }
    }
}

/// Transposes [`BLOCK`] positions of eight channels. A row of the square is two positions.
fn eight_to_planes(from: &[f32], to: &mut [f32], plane: usize) {
    let square = transpose_16x16(UnalignedF32::of(from), TRANSPOSE_DIM);
    let (even, odd) = square.split_at(TRANSPOSE_DIM / 2);
    for (c, (even, odd)) in even.iter().zip(odd).enumerate() {
        let mut both = [0.0; BLOCK];
        for i in 0..TRANSPOSE_DIM {
            (both[2 * i], both[2 * i + 1]) = (even[i], odd[i]);
        }
        to[c * plane..][..BLOCK].copy_from_slice(&both);
    }
}

/// Taps of an input line, and their weights.
struct LineTaps<'w> {
    values: &'w [f32],
    taps: Range<usize>,
    weights: &'w [f32],
    /// The first tap of the block along k, counted over all lines of the window.
    block: usize,
    /// Whether no taps of the block follow.
    ends_block: bool,
}

/// An output line that is to be computed. The input lines below it hold all taps of all its
/// windows, and [`SLACK`] elements more.
pub(crate) struct Line<'a> {
    taps: Vec<LineTaps<'a>>,
    /// The windows along the line.
    width: Window,
    /// Distance between channels.
    plane: usize,
    inputs: usize,
    /// A bias and an activation.
    post_ops: BlockPostOps,
    outputs: usize,
    /// Output channels that are computed.
    computed: usize,
}

/// The panic where [`small_oc`] chose a number of channels without a microkernel.
fn no_microkernel(channels: usize) -> String {
    format!("no microkernel computes {channels} channels")
}

impl Line<'_> {
    /// Computes the line: all outputs of each position.
    ///
    /// # Panics
    /// When `to` has another length.
    pub(crate) fn compute(&self, to: &mut [f32]) {
        let channels = self.computed;
        assert!(to.len() == self.width.output * self.outputs && self.outputs <= channels);
        debug_assert!(self.taps.iter().all(|taps| self.reaches(taps, channels, to.len())));
        // SAFETY: there are as many outputs as windows, whose taps are there; `isa` is what the CPU
        // has.
        unsafe {
            match isa() {
                #[cfg(target_arch = "x86_64")]
                Isa::Avx512 | Isa::Amx => self.avx512(channels, to),
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 => self.avx2(channels, to),
                _ => self.portable(channels, to),
            }
        }
    }

    /// Whether an input line has all that the outputs read of it, and its taps the weights of as
    /// many channels.
    fn reaches(&self, line: &LineTaps<'_>, channels: usize, len: usize) -> bool {
        let last = (self.inputs - 1) * self.plane + (line.taps.end - 1) * self.width.dilation;
        line.values.len() >= last + len / self.outputs + SLACK - 1
            && line.weights.len() == line.taps.len() * self.inputs * channels
    }

    /// # Safety
    /// `to` has all outputs of some windows, as [`Self::compute`] asserts, and the CPU has AVX-512.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
    unsafe fn avx512(&self, channels: usize, to: &mut [f32]) {
        debug_assert!(Isa::Avx512.is_available());
        // SAFETY: the caller's promise.
        unsafe {
            match channels {
                1 => self.blocks::<Avx512, 1, 8>(to),
                2 => self.blocks::<Avx512, 2, 8>(to),
                3 => self.blocks::<Avx512, 3, 6>(to),
                4 => self.blocks::<Avx512, 4, 6>(to),
                6 => self.blocks::<Avx512, 6, 4>(to),
                8 => self.blocks::<Avx512, 8, 3>(to),
                _ => unreachable!("{}", no_microkernel(channels)),
            }
        }
    }

    /// # Safety
    /// As [`Self::avx512`], where the CPU has AVX2.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn avx2(&self, channels: usize, to: &mut [f32]) {
        debug_assert!(Isa::Avx2.is_available());
        // SAFETY: the caller's promise.
        unsafe {
            match channels {
                1 => self.blocks::<Avx2, 1, 8>(to),
                2 => self.blocks::<Avx2, 2, 4>(to),
                3 => self.blocks::<Avx2, 3, 3>(to),
                4 => self.blocks::<Avx2, 4, 2>(to),
                _ => unreachable!("{}", no_microkernel(channels)),
            }
        }
    }

    /// # Safety
    /// `to` has all outputs of some windows, as [`Self::compute`] asserts.
    unsafe fn portable(&self, channels: usize, to: &mut [f32]) {
        // SAFETY: the caller's promise; what every machine has.
        unsafe {
            match channels {
                #[cfg(target_arch = "aarch64")]
                1 => self.blocks::<Neon, 1, 8>(to),
                #[cfg(target_arch = "aarch64")]
                2 => self.blocks::<Neon, 2, 8>(to),
                #[cfg(not(target_arch = "aarch64"))]
                1 => self.blocks::<Portable, 1, 4>(to),
                #[cfg(not(target_arch = "aarch64"))]
                2 => self.blocks::<Portable, 2, 4>(to),
                _ => unreachable!("{}", no_microkernel(channels)),
            }
        }
    }

    /// All blocks of the line: `P` vectors of windows at a time, then one at a time.
    ///
    /// # Safety
    /// As [`Self::portable`], where the instruction set of `V` is available.
    #[inline(always)]
    unsafe fn blocks<V: Vector, const N: usize, const P: usize>(&self, to: &mut [f32]) {
        debug_assert!(self.outputs <= N);
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

    /// Computes windows from `x` on: as many as `to` holds, at most `P` vectors.
    ///
    /// # Safety
    /// As [`Self::blocks`].
    #[inline(always)]
    unsafe fn block<V: Vector, const N: usize, const P: usize>(&self, x: usize, to: &mut [f32]) {
        const { assert!(N * P * V::LANES <= MAX_BLOCK && V::LANES <= SLACK) };
        debug_assert!(to.len() <= P * V::LANES * self.outputs);
        // SAFETY: the caller's promise; there is a bias for each output, and the array holds the
        // block.
        unsafe {
            // The first block's sums are added to -0, which changes no number. Without a tap within
            // the input the sum is 0.
            let none = if self.taps.is_empty() { 0.0 } else { -0.0 };
            let (mut chains, mut sums) = ([[V::zero(); P]; N], [[V::splat(none); P]; N]);
            for LineTaps { values, taps, weights, ends_block, .. } in &self.taps {
                let mut weights = weights.as_ptr();
                for tap in taps.clone() {
                    let mut from = values.as_ptr().add(tap * self.width.dilation + x);
                    for _ in 0..self.inputs {
                        let mut windows = [V::zero(); P];
                        for p in 0..P {
                            windows[p] = V::load(from.wrapping_add(p * V::LANES));
                        }
                        for n in 0..N {
                            let weight = V::splat(*weights.add(n));
                            for p in 0..P {
                                chains[n][p] = windows[p].fma(weight, chains[n][p]);
                            }
                        }
                        from = from.wrapping_add(self.plane);
                        weights = weights.add(N);
                    }
                }
                if *ends_block {
                    for n in 0..N {
                        for p in 0..P {
                            sums[n][p] = sums[n][p].add(chains[n][p]);
                            chains[n][p] = V::zero();
                        }
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

/// Interleaves channels, `stride` elements apart, as rows of `outputs` elements.
#[inline(always)]
fn interleave(channels: &[f32], stride: usize, outputs: usize, to: &mut [f32]) {
    if outputs == 1 {
        return to.copy_from_slice(&channels[..to.len()]);
    }
    for (i, row) in to.chunks_exact_mut(outputs).enumerate() {
        for (n, to) in row.iter_mut().enumerate() {
            *to = channels[n * stride + i];
        }
    }
}
