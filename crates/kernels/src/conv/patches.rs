//! Transposed convolutions whose kernel is as large as their stride: each input makes a patch of
//! outputs of its own. One GEMM computes the patches of neighbouring inputs, and their lines are
//! written while they are in the cache.

use super::problem::{Convolution, Filters, Input};
use crate::base::par::{Slice, Threads};
use crate::base::scratch::ScratchPool;
use crate::base::workers::{Packer, Workers};
use crate::conv::tuning::{PATCHES_AT_ONCE, TRANSPOSED_GRAIN};
use crate::gemm::{PostOp, Target, Window, apply_post_ops};
use std::ops::Range;

/// A transposed convolution of patches.
#[derive(Clone, Debug)]
pub(super) struct Patches {
    conv: Convolution,
}

impl Patches {
    /// A transposed convolution, if it is of patches.
    pub(super) fn of(conv: &Convolution) -> Option<Patches> {
        let is_patch = |a: &Window| {
            let is_whole = a.input.checked_mul(a.stride) == Some(a.output);
            a.taps == a.stride && a.dilation == 1 && a.start == 0 && is_whole
        };
        let fits = conv.groups == 1 && conv.taps() > 1 && conv.axes.iter().all(is_patch);
        fits.then(|| Patches { conv: conv.clone() })
    }

    /// The 1×1 convolution from neighbouring inputs to their patches.
    fn of_inputs(&self, count: usize) -> Convolution {
        let line = Window { input: count, output: count, ..Window::NONE };
        let axes = [Window::NONE, Window::NONE, line];
        Convolution { batch: 1, axes, outputs: self.columns(), ..self.conv.clone() }
    }

    /// Elements of a patch.
    fn columns(&self) -> usize {
        self.conv.taps() * self.conv.outputs
    }

    /// Inputs whose patches are computed at once.
    fn at_once(&self) -> usize {
        (PATCHES_AT_ONCE / self.columns().max(1)).max(16)
    }

    /// Packs filters, given by input channel, then output channel, then tap.
    ///
    /// # Panics
    /// When there are too few.
    pub(super) fn pack_filters(&self, to: Packer<'_>, filters: &[f32]) -> Filters<'static> {
        let (taps, outputs) = (self.conv.taps(), self.conv.outputs);
        let mut by_column = Vec::with_capacity(self.columns() * self.conv.inputs);
        for tap in 0..taps {
            for output in 0..outputs {
                let own = (0..self.conv.inputs).map(|input| (input * outputs + output) * taps);
                by_column.extend(own.map(|at| filters[at + tap]));
            }
        }
        self.of_inputs(1).packed(to, &by_column)
    }

    /// Floating-point operations.
    pub(super) fn flops(&self) -> u64 {
        self.of_inputs(self.conv.batch * self.conv.inside()).flops()
    }

    /// Bytes of packed filters.
    pub(super) fn packed_bytes(&self) -> usize {
        self.columns() * self.conv.inputs * size_of::<f32>()
    }

    /// Bytes of scratch memory for a run on this many threads.
    pub(super) fn scratch_bytes(&self, threads: usize) -> usize {
        let inputs = self.at_once().min(self.conv.axes[2].input);
        threads * inputs * self.columns() * size_of::<f32>()
    }

    /// Convolves `input` back into `output`.
    ///
    /// # Panics
    /// When a slice does not have the size of the convolution.
    pub(super) fn run(
        &self,
        Workers { threads, scratch }: Workers<'_>,
        (input, filters): (&[f32], &Filters<'_>),
        post_ops: &[PostOp<'_>],
        output: &mut [f32],
    ) {
        let conv = &self.conv;
        let (positions, width) = (conv.batch * conv.inside(), conv.axes[2].input);
        assert_eq!(input.len(), positions * conv.inputs);
        assert_eq!(output.len(), positions * self.columns());
        let (early, late) = post_ops.split_at(self.count_early(post_ops));
        let repeated = self.repeated_columns(early);
        let early: Vec<PostOp<'_>> =
            early.iter().zip(&repeated).map(|(op, columns)| op.with_columns(columns)).collect();
        let pieces = width.div_ceil(self.at_once()).max(1);
        let len = width.div_ceil(pieces) * self.columns();
        let mut memory = scratch.take::<f32>(len * threads.count());
        let (memory, output) = (Slice::new(&mut memory), Slice::new(output));
        let lines = positions / width.max(1);
        let grain = TRANSPOSED_GRAIN.div_ceil(len.max(1));
        threads.par_ranges_with(lines * pieces, grain, |tasks, worker| {
            // SAFETY: no two threads are the same worker at a time.
            let rows = unsafe { memory.part(worker * len, len) };
            let own = ScratchPool::default();
            for task in tasks {
                let (line, piece) = (task / pieces, task % pieces);
                let x = width * piece / pieces..width * (piece + 1) / pieces;
                let rows = &mut rows[..x.len() * self.columns()];
                let first = (line * width + x.start) * conv.inputs;
                let input = Input::channels_last(&input[first..][..x.len() * conv.inputs]);
                let workers = Workers { threads: Threads::single(), scratch: &own };
                let target = Target::F32(rows);
                self.of_inputs(x.len()).groups(workers, (input, filters), &early, target);
                // SAFETY: the patches of different inputs are disjoint parts of the output.
                unsafe { self.write(rows, (line, x), late, output) };
            }
        });
    }

    /// The number of post-ops that can be applied to patches: they do the same to each row, and
    /// their operands can be repeated.
    fn count_early(&self, post_ops: &[PostOp<'_>]) -> usize {
        let is_early =
            |op: &&PostOp<'_>| op.ignores_row() && !matches!(op, PostOp::QuantizeColumns(_));
        post_ops.iter().take_while(is_early).count()
    }

    /// For each post-op the operand for the columns of a patch, if it has one for each channel.
    fn repeated_columns(&self, post_ops: &[PostOp<'_>]) -> Vec<Vec<f32>> {
        let repeat = |own: &[f32]| own[..self.conv.outputs].repeat(self.conv.taps());
        post_ops.iter().map(|op| op.columns().map(repeat).unwrap_or_default()).collect()
    }

    /// Writes the patches of neighbouring inputs of a line, line by line of the output.
    ///
    /// # Safety
    /// Nobody else uses these patches of the output, which has all.
    unsafe fn write(
        &self,
        rows: &[f32],
        (line, x): (usize, Range<usize>),
        post_ops: &[PostOp<'_>],
        output: Slice<f32>,
    ) {
        let Convolution { axes: [_, height, width], outputs, .. } = self.conv;
        let [depth, _, _] = self.conv.axes;
        // Elements of a patch that are neighbours in the output.
        let run = width.stride * outputs;
        let (y, rest) = (line % height.input, line / height.input);
        let (z, batch) = (rest % depth.input, rest / depth.input);
        debug_assert!(rows.len() == x.len() * self.columns() && batch < self.conv.batch);
        for part in 0..depth.stride * height.stride {
            let z = z * depth.stride + part / height.stride;
            let y = y * height.stride + part % height.stride;
            let line = (batch * depth.output + z) * height.output + y;
            let first = line * width.output + x.start * width.stride;
            // SAFETY: the caller's promise.
            let to = unsafe { output.part(first * outputs, x.len() * run) };
            let from = &rows[part * run..];
            match run {
                4 => copy_runs::<4>(from, self.columns(), to),
                8 => copy_runs::<8>(from, self.columns(), to),
                12 => copy_runs::<12>(from, self.columns(), to),
                16 => copy_runs::<16>(from, self.columns(), to),
                32 => copy_runs::<32>(from, self.columns(), to),
                _ => {
                    for (from, to) in from.chunks(self.columns()).zip(to.chunks_exact_mut(run)) {
                        to.copy_from_slice(&from[..run]);
                    }
                }
            }
            if !post_ops.is_empty() {
                for (i, to) in to.chunks_exact_mut(outputs).enumerate() {
                    apply_post_ops(post_ops, first + i, 0, to);
                }
            }
        }
    }
}

/// Copies the first `N` elements of every `stride`. A call of memcpy takes longer than to copy so
/// few.
fn copy_runs<const N: usize>(from: &[f32], stride: usize, to: &mut [f32]) {
    for (from, to) in from.chunks(stride).zip(to.as_chunks_mut::<N>().0) {
        if let Some(from) = from.first_chunk::<N>() {
            *to = *from;
        }
    }
}
