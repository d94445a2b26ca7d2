//! Transposed convolutions in f32: from the output of a convolution back to its input.
//!
//! With stride `s`, a tap reaches output `o` only if its distance from `o` is a multiple of `s`. So
//! the outputs of each residue modulo `s` are an ordinary convolution with those taps, reversed. If
//! the kernel is as large as the stride, all residues are one GEMM ([`Patches`]).

use super::patches::Patches;
use super::problem::{Convolution, Filters, Input};
use crate::base::par::{Slice, Threads};
use crate::base::scratch::ScratchPool;
use crate::base::workers::{Packer, Workers};
use crate::conv::tuning::TRANSPOSED_GRAIN;
use crate::gemm::{PostOp, Window, apply_post_ops};
use crate::movement::copy::gcd;

/// A transposed convolution.
#[derive(Clone, Debug)]
pub struct Transposed(Algorithm);

/// How it is computed.
#[derive(Clone, Debug)]
enum Algorithm {
    /// Each input makes outputs of its own.
    Patches(Patches),
    /// By residue.
    Residues(Residues),
}

impl Transposed {
    /// The transposed convolution in which along each axis of `conv`, input `i` reaches output
    /// `i * stride + tap * dilation - start`.
    pub fn new(conv: &Convolution) -> Transposed {
        let patches = Patches::of(conv).map(Algorithm::Patches);
        Transposed(patches.unwrap_or_else(|| Algorithm::Residues(Residues::new(conv))))
    }

    /// Floating-point operations, including those on padding.
    pub fn flops(&self) -> u64 {
        match &self.0 {
            Algorithm::Patches(patches) => patches.flops(),
            Algorithm::Residues(residues) => residues.flops(),
        }
    }

    /// Packs the filters of each GEMM into an arena. They are given by group, then input channel,
    /// then output channel, then tap.
    ///
    /// # Panics
    /// When there are too few.
    pub fn pack_filters(&self, to: Packer<'_>, filters: &[f32]) -> Vec<Filters<'static>> {
        match &self.0 {
            Algorithm::Patches(patches) => vec![patches.pack_filters(to, filters)],
            Algorithm::Residues(residues) => residues.pack_filters(to, filters),
        }
    }

    /// Bytes of packed filters.
    pub fn packed_bytes(&self) -> usize {
        match &self.0 {
            Algorithm::Patches(patches) => patches.packed_bytes(),
            Algorithm::Residues(residues) => residues.packed_bytes(),
        }
    }

    /// Bytes of scratch memory for a run on this many threads.
    pub fn scratch_bytes(&self, threads: usize) -> usize {
        match &self.0 {
            Algorithm::Patches(patches) => patches.scratch_bytes(threads),
            Algorithm::Residues(residues) => residues.scratch_bytes(threads),
        }
    }

    /// Convolves `input` back into `output`. `post_ops` are applied to each element, with channels
    /// as columns.
    ///
    /// # Panics
    /// When a slice does not have the size of the convolution.
    pub fn run(
        &self,
        threads: &Threads,
        scratch: &ScratchPool,
        (input, filters): (&[f32], &[Filters<'_>]),
        post_ops: &[PostOp<'_>],
        output: &mut [f32],
    ) {
        match &self.0 {
            Algorithm::Patches(patches) => {
                patches.run(Workers { threads, scratch }, (input, &filters[0]), post_ops, output);
            }
            Algorithm::Residues(residues) => {
                residues.run(Workers { threads, scratch }, (input, filters), post_ops, output);
            }
        }
    }
}

/// A transposed convolution, divided into ordinary ones.
#[derive(Clone, Debug)]
struct Residues {
    /// Outputs along each axis.
    sizes: [usize; 3],
    /// Taps along each axis.
    taps: [usize; 3],
    parts: Vec<Part>,
}

/// The outputs of one residue along each axis.
#[derive(Clone, Debug)]
struct Part {
    conv: Convolution,
    /// Along each axis: the outputs.
    outputs: [Residue; 3],
    /// Along each axis: the taps that reach these outputs, in the order of the convolution.
    taps: [Vec<usize>; 3],
}

/// The outputs of a residue along one axis: every `step`th from `first` on.
#[derive(Clone, Copy, Debug)]
struct Residue {
    first: usize,
    step: usize,
}

/// One residue along one axis.
struct Phase {
    window: Window,
    outputs: Residue,
    taps: Vec<usize>,
}

impl Residues {
    fn new(conv: &Convolution) -> Residues {
        let phases = conv.axes.map(|axis| phases(&axis));
        let mut parts = Vec::new();
        for d in &phases[0] {
            for h in &phases[1] {
                for w in &phases[2] {
                    let axes = [d.window, h.window, w.window];
                    parts.push(Part {
                        conv: Convolution { axes, ..conv.clone() },
                        outputs: [d.outputs, h.outputs, w.outputs],
                        taps: [d.taps.clone(), h.taps.clone(), w.taps.clone()],
                    });
                }
            }
        }
        Residues { sizes: conv.axes.map(|a| a.output), taps: conv.axes.map(|a| a.taps), parts }
    }

    fn flops(&self) -> u64 {
        self.parts.iter().map(|part| part.conv.flops()).sum()
    }

    fn pack_filters(&self, to: Packer<'_>, filters: &[f32]) -> Vec<Filters<'static>> {
        let part = |part: &Part| part.conv.pack_direct_filters(to, &self.taken(part, filters));
        self.parts.iter().map(part).collect()
    }

    /// The filters of one part, output channels outermost.
    fn taken(&self, part: &Part, filters: &[f32]) -> Vec<f32> {
        let (inputs, outputs) = part.conv.group();
        let all: usize = self.taps.iter().product();
        let mut taken = Vec::with_capacity(part.conv.taps() * part.conv.outputs * inputs);
        for group in 0..part.conv.groups {
            for output in 0..outputs {
                for input in 0..inputs {
                    let own = &filters[((group * inputs + input) * outputs + output) * all..];
                    for z in &part.taps[0] {
                        for y in &part.taps[1] {
                            let line = (z * self.taps[1] + y) * self.taps[2];
                            taken.extend(part.taps[2].iter().map(|x| own[line + x]));
                        }
                    }
                }
            }
        }
        taken
    }

    fn packed_bytes(&self) -> usize {
        let packed = |part: &Part| {
            let (conv, (inputs, outputs)) = (&part.conv, part.conv.group());
            conv.taps() * inputs * outputs * conv.groups * size_of::<f32>()
        };
        self.parts.iter().map(packed).sum()
    }

    fn scratch_bytes(&self, threads: usize) -> usize {
        let scratch = |part: &Part| {
            let rows = part.conv.batch * part.conv.positions() * part.conv.outputs;
            rows * size_of::<f32>() + part.conv.scratch_bytes(threads)
        };
        self.parts.iter().map(scratch).max().unwrap_or(0)
    }

    fn run(
        &self,
        Workers { threads, scratch }: Workers<'_>,
        (input, filters): (&[f32], &[Filters<'_>]),
        post_ops: &[PostOp<'_>],
        output: &mut [f32],
    ) {
        let input = Input::channels_last(input);
        // Post-ops that do the same to every row are applied before the rows are scattered.
        let alike = post_ops.iter().take_while(|op| op.ignores_row()).count();
        let (early, late) = post_ops.split_at(alike);
        for (part, filters) in self.parts.iter().zip(filters) {
            let conv = &part.conv;
            let len = conv.batch * conv.positions() * conv.outputs;
            let mut rows = scratch.take::<f32>(len);
            conv.run_direct(threads, scratch, (input, filters), early, &mut rows);
            self.scatter(part, threads, &rows, late, output);
        }
    }

    /// Scatters the rows of one part to their outputs.
    fn scatter(
        &self,
        part: &Part,
        threads: &Threads,
        rows: &[f32],
        post_ops: &[PostOp<'_>],
        output: &mut [f32],
    ) {
        let channels = part.conv.outputs;
        let [depth, height, width] = self.sizes;
        let [d, h, w] = part.conv.axes.map(|a| a.output);
        assert_eq!(output.len(), part.conv.batch * depth * height * width * channels);
        let [place_z, place_y, place_x] =
            part.outputs.map(|Residue { first, step }| move |i| first + i * step);
        let shared = Slice::new(output);
        let count = rows.len() / channels.max(1);
        // Divided by positions, not lines: with one axis there is a single line.
        threads.par_ranges(count, TRANSPOSED_GRAIN.div_ceil(channels.max(1)), |range| {
            let mut at = range.start;
            while at < range.end {
                let (x, line) = (at % w, at / w);
                let end = range.end.min((line + 1) * w);
                let (y, rest) = (place_y(line % h), line / h);
                let (z, batch) = (place_z(rest % d), rest / d);
                let first = ((batch * depth + z) * height + y) * width;
                let from = rows[at * channels..end * channels].chunks_exact(channels);
                for (i, from) in from.enumerate() {
                    let row = first + place_x(x + i);
                    // SAFETY: the rows of a part are disjoint parts of the output.
                    let to = unsafe { shared.part(row * channels, channels) };
                    to.copy_from_slice(from);
                    apply_post_ops(post_ops, row, 0, to);
                }
                at = end;
            }
        });
    }
}

/// The residues of one axis that have outputs.
fn phases(axis: &Window) -> Vec<Phase> {
    let stride = axis.stride as isize;
    let common = gcd(axis.stride, axis.dilation);
    let dilation = axis.dilation / common;
    let phase = |first: usize| {
        let shifted = first as isize + axis.start;
        let reaches = |tap: &usize| (shifted - (tap * axis.dilation) as isize) % stride == 0;
        let taps: Vec<usize> = (0..axis.taps).filter(reaches).rev().collect();
        let last = taps.first().map_or(0, |tap| tap * axis.dilation) as isize;
        let window = Window {
            input: axis.input,
            output: (axis.output - first).div_ceil(axis.stride),
            taps: taps.len(),
            stride: 1,
            dilation,
            start: (shifted - last) / stride,
        };
        Phase { window, outputs: Residue { first, step: axis.stride }, taps }
    };
    (0..axis.stride.min(axis.output)).map(phase).collect()
}
