//! Data and results that are bytes, each a level of its channel: lines of them become values before
//! they are convolved, and levels again once they are finished.

use super::accepts_quantized;
#[cfg(target_arch = "x86_64")]
use crate::base::isa::Isa;
use crate::base::isa::isa;
use crate::base::par::Slice;
use crate::base::simd::Integral;
#[cfg(target_arch = "aarch64")]
use crate::base::simd::Neon as Narrow;
#[cfg(not(target_arch = "aarch64"))]
use crate::base::simd::Portable as Narrow;
#[cfg(target_arch = "x86_64")]
use crate::base::simd::{Avx2, Avx512};
use crate::conv::Convolution;
use crate::gemm::{Step, finish};
use crate::math::quantize::{ColumnQuantizers, Output, Quantizer, Quantizers};
use std::ops::Range;

/// What is convolved by channels, with the channels last.
#[derive(Clone, Copy, Debug)]
pub enum DepthwiseInput<'a> {
    /// Values.
    F32(&'a [f32]),
    /// Levels, and the values of those of each channel.
    Quantized(&'a [u8], ColumnQuantizers<'a>),
}

impl DepthwiseInput<'_> {
    /// # Panics
    /// When there are not so many elements, or they are levels that the convolution cannot read.
    pub(super) fn check(&self, conv: &Convolution, len: usize) {
        match self {
            DepthwiseInput::F32(values) => assert_eq!(values.len(), len),
            DepthwiseInput::Quantized(levels, of) => {
                assert!(accepts_quantized(conv), "levels are read line by line");
                assert!(levels.len() == len && of.columns() == conv.inputs);
            }
        }
    }

    /// Elements of room for the values of lines.
    pub(super) fn room(&self, conv: &Convolution) -> usize {
        match self {
            DepthwiseInput::F32(_) => 0,
            DepthwiseInput::Quantized(..) => held(conv) * conv.axes[2].input * conv.inputs,
        }
    }
}

/// Lines of the input that are held at a time: all that lie between the first and the last that a line
/// of the output looks at.
fn held(conv: &Convolution) -> usize {
    let height = conv.axes[1];
    let between = height.taps.saturating_sub(1).saturating_mul(height.dilation);
    between.saturating_add(1).min(height.input)
}

/// Where lines of the input come from.
pub(super) struct Source<'a> {
    map: DepthwiseInput<'a>,
    /// Elements of a line.
    len: usize,
    /// Lines of an element of the batch.
    height: usize,
    /// The channels that are read.
    part: Range<usize>,
    /// Values of lines that were levels, and which lines they are.
    values: &'a mut [f32],
    held: Vec<Option<usize>>,
}

impl<'a> Source<'a> {
    /// With room for values.
    pub(super) fn new(
        map: DepthwiseInput<'a>,
        conv: &Convolution,
        part: Range<usize>,
        values: &'a mut [f32],
    ) -> Source<'a> {
        let [_, height, width] = conv.axes;
        let lines = match map {
            DepthwiseInput::F32(_) => 0,
            DepthwiseInput::Quantized(..) => held(conv),
        };
        let len = width.input * conv.inputs;
        Source { map, len, height: height.input, part, values, held: vec![None; lines] }
    }

    /// The values of a line, counted over the whole batch, until as many others as are held have been
    /// asked for.
    pub(super) fn line(&mut self, line: usize) -> *const f32 {
        let (levels, of) = match self.map {
            DepthwiseInput::F32(values) => return values[line * self.len..].as_ptr(),
            DepthwiseInput::Quantized(levels, of) => (levels, of),
        };
        // Lines that a line of the output looks at have places of their own.
        let place = line % self.height % self.held.len();
        let values = &mut self.values[place * self.len..][..self.len];
        if self.held[place] != Some(line) {
            self.held[place] = Some(line);
            let levels = &levels[line * self.len..][..self.len];
            run(Widen { of, part: self.part.clone(), levels, values });
        }
        values.as_ptr()
    }
}

/// Elements of room for a line of an output of levels.
pub(super) fn room(conv: &Convolution, output: &Output<'_>) -> usize {
    match output {
        Output::F32(_) => 0,
        Output::Quantized(..) => conv.axes[2].output * conv.outputs,
    }
}

/// Where results go.
pub(super) enum To<'a> {
    F32(Slice<f32>),
    Quantized(Slice<u8>, Quantizers<'a>),
}

impl<'a> To<'a> {
    pub(super) fn new(output: Output<'a>) -> To<'a> {
        match output {
            Output::F32(to) => To::F32(Slice::new(to)),
            Output::Quantized(to, levels) => To::Quantized(Slice::new(to), levels),
        }
    }

    /// Where the values of a line go whose first element is at `offset`; there is room for one.
    ///
    /// # Safety
    /// `offset` is within the output.
    pub(super) unsafe fn line(&self, offset: usize, room: &mut [f32]) -> *mut f32 {
        match self {
            // SAFETY: the caller's promise.
            To::F32(to) => unsafe { to.at(offset) },
            To::Quantized(..) => room.as_mut_ptr(),
        }
    }

    /// Applies steps to some channels of a line that begins at position `first`, and rounds them to
    /// levels where that is wanted.
    ///
    /// # Safety
    /// The line is where [`Self::line`] has said, of as many positions and channels, and within the output
    /// no other thread uses these channels of it.
    pub(super) unsafe fn finish(
        &self,
        steps: &[Step<'_>],
        first: usize,
        (positions, channels): (usize, usize),
        part: &Range<usize>,
        line: *mut f32,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            match *self {
                To::F32(to) => {
                    finish(steps, first..first + positions, part.clone(), channels, to);
                }
                To::Quantized(to, levels) => {
                    let line = std::slice::from_raw_parts_mut(line, positions * channels);
                    let own: Vec<Step<'_>> = steps.iter().map(|s| s.from_row(first)).collect();
                    finish(&own, 0..positions, part.clone(), channels, Slice::new(line));
                    let (to, part) = (to.from(first * channels), part.clone());
                    match levels {
                        Quantizers::Uniform(level) => {
                            run(Round { level, part, channels, line, to })
                        }
                        Quantizers::Columns(_) => {
                            for (i, values) in line.chunks_exact(channels).enumerate() {
                                let to = to.at(i * channels + part.start);
                                let to = std::slice::from_raw_parts_mut(to, part.len());
                                levels.row(part.start, &values[part.clone()], to);
                            }
                        }
                    }
                }
            }
        }
    }
}

/// What is done by vectors of channels, position after position.
trait Task {
    /// # Safety
    /// The instruction set of `V` is available.
    unsafe fn run<V: Integral>(self);
}

fn run(task: impl Task) {
    // SAFETY: `isa` is what the machine has.
    unsafe {
        match isa() {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 | Isa::Amx => avx512(task),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => avx2(task),
            _ => task.run::<Narrow>(),
        }
    }
}

/// # Safety
/// The machine has AVX-512.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
unsafe fn avx512(task: impl Task) {
    // SAFETY: the caller's promise.
    unsafe { task.run::<Avx512>() }
}

/// # Safety
/// The machine has AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn avx2(task: impl Task) {
    // SAFETY: the caller's promise.
    unsafe { task.run::<Avx2>() }
}

/// Gives some channels of a line the values of their levels: `level · scale + low`.
struct Widen<'a> {
    of: ColumnQuantizers<'a>,
    part: Range<usize>,
    levels: &'a [u8],
    values: &'a mut [f32],
}

impl Task for Widen<'_> {
    #[inline(always)]
    unsafe fn run<V: Integral>(self) {
        let Widen { of, part, levels, values } = self;
        let channels = of.columns();
        let [_, _, scale, low] = of.parts;
        assert!(part.end <= channels && levels.len() == values.len());
        let mut c = part.start;
        while c < part.end {
            let count = V::LANES.min(part.end - c);
            // SAFETY: the channels are there; a vector of levels is read where there are as many, and
            // of a vector of values as many are written as there are channels.
            unsafe {
                let own = |v: &[f32]| V::load_masked(v.as_ptr().add(c), count);
                let (scale, low) = (own(scale), own(low));
                for at in (c..levels.len()).step_by(channels) {
                    let from = levels.as_ptr().add(at);
                    let level = match at + V::LANES <= levels.len() {
                        true => V::load_bytes(from),
                        false => V::load_masked_bytes(from, count),
                    };
                    let value = level.fma(scale, V::splat(-0.0)).add(low);
                    let to = values.as_mut_ptr().add(at);
                    match count == V::LANES {
                        true => value.store(to),
                        false => value.store_masked(to, count),
                    }
                }
            }
            c += count;
        }
    }
}

/// Writes the levels of some channels of a line.
struct Round<'a> {
    level: Quantizer,
    part: Range<usize>,
    channels: usize,
    line: &'a [f32],
    to: Slice<u8>,
}

impl Task for Round<'_> {
    #[inline(always)]
    unsafe fn run<V: Integral>(self) {
        let Round { level, part, channels, line, to } = self;
        assert!(part.end <= channels);
        for first in (0..line.len()).step_by(channels) {
            let mut c = part.start;
            while c < part.end {
                let count = V::LANES.min(part.end - c);
                // SAFETY: the channels are there and nobody else's; of a vector as many are read and
                // written.
                unsafe {
                    let (from, to) = (line.as_ptr().add(first + c), to.at(first + c));
                    match count == V::LANES {
                        true => level.scaled(V::load(from)).store_bytes(to),
                        false => {
                            level.scaled(V::load_masked(from, count)).store_masked_bytes(to, count)
                        }
                    }
                }
                c += count;
            }
        }
    }
}
