//! Quantized data and results: input lines are dequantized before they are convolved, and output
//! lines quantized after their post-ops.

#[cfg(target_arch = "x86_64")]
use crate::base::isa::Isa;
use crate::base::isa::isa;
use crate::base::par::Slice;
use crate::base::simd::Integral;
#[cfg(target_arch = "aarch64")]
use crate::base::simd::Neon as Fallback;
#[cfg(not(target_arch = "aarch64"))]
use crate::base::simd::Portable as Fallback;
#[cfg(target_arch = "x86_64")]
use crate::base::simd::{Avx2, Avx512};
use crate::conv::depthwise::tile::accepts_quantized;
use crate::conv::problem::Convolution;
use crate::gemm::{Operand, PostOp, finish};
use crate::math::quantize::{ColumnQuantizers, Output, Quantizer, Quantizers};
use crate::math::unary::Unary;
use std::ops::Range;

/// The NHWC input of a depthwise convolution.
#[derive(Clone, Copy, Debug)]
pub enum DepthwiseInput<'a> {
    /// f32 values.
    F32(&'a [f32]),
    /// Quantized values, and the dequantization of each channel.
    Quantized(&'a [u8], ColumnQuantizers<'a>),
}

impl DepthwiseInput<'_> {
    /// # Panics
    /// When there are not `len` elements, or the convolution cannot read quantized values.
    pub(super) fn check(&self, conv: &Convolution, len: usize) {
        match self {
            DepthwiseInput::F32(values) => assert_eq!(values.len(), len),
            DepthwiseInput::Quantized(values, of) => {
                assert!(accepts_quantized(conv), "quantized values are read from one plane");
                assert!(values.len() == len && of.columns() == conv.inputs);
            }
        }
    }

    /// Elements of scratch memory for dequantized lines.
    pub(super) fn scratch_len(&self, conv: &Convolution) -> usize {
        match self {
            DepthwiseInput::F32(_) => 0,
            DepthwiseInput::Quantized(..) => dequantized_len(conv),
        }
    }
}

/// Elements of the dequantized lines to keep.
pub(super) fn dequantized_len(conv: &Convolution) -> usize {
    held(conv) * conv.axes[2].input * conv.inputs
}

/// Dequantized lines to keep: from the first to the last that one output line reads.
fn held(conv: &Convolution) -> usize {
    let height = conv.axes[1];
    height.span().min(height.input)
}

/// Supplies lines of the input, dequantized if need be.
pub(super) struct Source<'a> {
    input: DepthwiseInput<'a>,
    /// Elements of a line.
    len: usize,
    /// Lines of an image.
    height: usize,
    /// The channels that are read.
    part: Range<usize>,
    /// Dequantized lines, and their indices.
    values: &'a mut [f32],
    held: Vec<Option<usize>>,
}

impl<'a> Source<'a> {
    /// `values` holds the dequantized lines.
    pub(super) fn new(
        input: DepthwiseInput<'a>,
        conv: &Convolution,
        part: Range<usize>,
        values: &'a mut [f32],
    ) -> Source<'a> {
        let [_, height, width] = conv.axes;
        let lines = match input {
            DepthwiseInput::F32(_) => 0,
            DepthwiseInput::Quantized(..) => held(conv),
        };
        let len = width.input * conv.inputs;
        Source { input, len, height: height.input, part, values, held: vec![None; lines] }
    }

    /// The values of a line, counted over the whole batch. They stay valid until as many other
    /// lines have been requested as are kept.
    pub(super) fn line(&mut self, line: usize) -> *const f32 {
        let (quantized, of) = match self.input {
            DepthwiseInput::F32(values) => return values[line * self.len..].as_ptr(),
            DepthwiseInput::Quantized(quantized, of) => (quantized, of),
        };
        // The lines that one output line reads are all in different slots.
        let slot = line % self.height % self.held.len();
        let values = &mut self.values[slot * self.len..][..self.len];
        if self.held[slot] != Some(line) {
            self.held[slot] = Some(line);
            let quantized = &quantized[line * self.len..][..self.len];
            run(Dequantize { of, part: self.part.clone(), quantized, values });
        }
        values.as_ptr()
    }
}

/// Elements of scratch memory for a line of a quantized output.
pub(super) fn scratch_len(conv: &Convolution, output: &Output<'_>) -> usize {
    match output {
        Output::F32(_) => 0,
        Output::Quantized(..) => output_line_len(conv),
    }
}

/// Elements of a line of the output.
pub(super) fn output_line_len(conv: &Convolution) -> usize {
    conv.axes[2].output * conv.outputs
}

/// The destination of the results.
pub(super) enum To<'a> {
    F32(Slice<f32>),
    Quantized(Slice<u8>, Quantizers<'a>),
}

impl<'a> To<'a> {
    pub(super) fn new(output: Output<'a>) -> To<'a> {
        match output {
            Output::F32(to) => To::F32(Slice::new(to)),
            Output::Quantized(to, quantizers) => To::Quantized(Slice::new(to), quantizers),
        }
    }

    /// Where to write the values of a line whose first element is at `offset`: the output, or
    /// `workspace` if they are to be quantized.
    ///
    /// # Safety
    /// `offset` is within the output.
    pub(super) unsafe fn line(&self, offset: usize, workspace: &mut [f32]) -> *mut f32 {
        match self {
            // SAFETY: the caller's promise.
            To::F32(to) => unsafe { to.at(offset) },
            To::Quantized(to, _) => {
                debug_assert!(offset <= to.count());
                workspace.as_mut_ptr()
            }
        }
    }

    /// Applies post-ops to some channels of a line that begins at position `first`, and quantizes
    /// them if the output is quantized.
    ///
    /// # Safety
    /// [`Self::line`] returned the line, with as many positions and channels, and no other thread
    /// uses these channels of it.
    pub(super) unsafe fn finish(
        &self,
        post_ops: &[PostOp<'_>],
        first: usize,
        (positions, channels): (usize, usize),
        part: &Range<usize>,
        line: *mut f32,
    ) {
        debug_assert!(part.start <= part.end && part.end <= channels);
        // SAFETY: the caller's promise.
        unsafe {
            match *self {
                To::F32(to) => {
                    finish(post_ops, first..first + positions, part.clone(), channels, to);
                }
                To::Quantized(to, quantizers) => {
                    let line = std::slice::from_raw_parts_mut(line, positions * channels);
                    if let Quantizers::Uniform(quantizer) = quantizers
                        && let Some([scales, bias]) = affine(post_ops, quantizer)
                    {
                        let (to, part) = (to.from(first * channels), part.clone());
                        let quantize = Quantize { quantizer, part, channels, line, to };
                        return run(Requantize { quantize, scales, bias });
                    }
                    let own: Vec<PostOp<'_>> =
                        post_ops.iter().map(|op| op.from_row(first)).collect();
                    finish(&own, 0..positions, part.clone(), channels, Slice::new(line));
                    let (to, part) = (to.from(first * channels), part.clone());
                    match quantizers {
                        Quantizers::Uniform(quantizer) => {
                            run(Quantize { quantizer, part, channels, line, to })
                        }
                        Quantizers::Columns(_) => {
                            for (i, values) in line.chunks_exact(channels).enumerate() {
                                let to = to.part(i * channels + part.start, part.len());
                                quantizers.row(part.start, &values[part.clone()], to);
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Work on vectors of channels, position after position.
trait Task {
    /// # Safety
    /// The instruction set of `V` is available.
    unsafe fn run<V: Integral>(self);
}

fn run(task: impl Task) {
    // SAFETY: `isa` is what the CPU has.
    unsafe {
        match isa() {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 | Isa::Amx => avx512(task),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => avx2(task),
            _ => task.run::<Fallback>(),
        }
    }
}

/// # Safety
/// The CPU has AVX-512.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
unsafe fn avx512(task: impl Task) {
    debug_assert!(Isa::Avx512.is_available());
    // SAFETY: the caller's promise.
    unsafe { task.run::<Avx512>() }
}

/// # Safety
/// The CPU has AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn avx2(task: impl Task) {
    debug_assert!(Isa::Avx2.is_available());
    // SAFETY: the caller's promise.
    unsafe { task.run::<Avx2>() }
}

/// Dequantizes some channels of a line: `q · scale + low`.
struct Dequantize<'a> {
    of: ColumnQuantizers<'a>,
    part: Range<usize>,
    quantized: &'a [u8],
    values: &'a mut [f32],
}

impl Task for Dequantize<'_> {
    #[inline(always)]
    unsafe fn run<V: Integral>(self) {
        let Dequantize { of, part, quantized, values } = self;
        let channels = of.columns();
        let [_, _, scale, low] = of.parts;
        assert!(part.end <= channels && quantized.len() == values.len());
        let whole = part.start..part.end - part.len() % V::LANES;
        for first in (0..quantized.len()).step_by(channels) {
            // SAFETY: the channels exist; a whole vector is read only if it ends within the line,
            // and only the values of these channels are written.
            unsafe {
                let q = |c: usize| quantized.as_ptr().add(first + c);
                for c in whole.clone().step_by(V::LANES) {
                    let own = |v: &[f32]| V::load(v.as_ptr().add(c));
                    let value = V::load_bytes(q(c)).fma(own(scale), V::splat(-0.0)).add(own(low));
                    value.store(values.as_mut_ptr().add(first + c));
                }
                let (c, count) = (whole.end, part.end - whole.end);
                if count > 0 {
                    let own = |v: &[f32]| V::load_masked(v.as_ptr().add(c), count);
                    let q = if first + c + V::LANES <= quantized.len() {
                        V::load_bytes(q(c))
                    } else {
                        V::load_masked_bytes(q(c), count)
                    };
                    let value = q.fma(own(scale), V::splat(-0.0)).add(own(low));
                    value.store_masked(values.as_mut_ptr().add(first + c), count);
                }
            }
        }
    }
}

/// The scales and the bias that are all of these post-ops, but for a clamp of what the quantizer
/// clamps anyway.
fn affine<'a>(post_ops: &[PostOp<'a>], to: Quantizer) -> Option<[&'a [f32]; 2]> {
    let [
        PostOp::Multiply(Operand::Columns(scales)),
        PostOp::Add(Operand::Columns(bias)),
        rest @ ..,
    ] = post_ops
    else {
        return None;
    };
    let is_clamped = |low: f64, high: f64| to.clamps(low as f32, high as f32);
    let is_alone = match rest {
        [] => true,
        [PostOp::Apply(Unary::Relu {})] => is_clamped(0.0, f64::INFINITY),
        [PostOp::Apply(Unary::Clamp { low, high })] => is_clamped(*low, *high),
        _ => false,
    };
    is_alone.then_some([scales, bias])
}

/// Scales some channels of a line, adds a bias, and quantizes them.
struct Requantize<'a> {
    quantize: Quantize<'a>,
    scales: &'a [f32],
    bias: &'a [f32],
}

impl Task for Requantize<'_> {
    #[inline(always)]
    unsafe fn run<V: Integral>(self) {
        let Requantize { quantize, scales, bias } = self;
        assert!(quantize.channels <= scales.len().min(bias.len()));
        // SAFETY: the caller's promise; scales and bias have the channels.
        unsafe {
            quantize.each::<V>(|x, c, count| {
                let of = |own: &[f32]| {
                    let from = own.as_ptr().add(c);
                    if count == V::LANES { V::load(from) } else { V::load_masked(from, count) }
                };
                x.fma(of(scales), V::splat(-0.0)).add(of(bias))
            });
        }
    }
}

/// Quantizes some channels of a line.
struct Quantize<'a> {
    quantizer: Quantizer,
    part: Range<usize>,
    channels: usize,
    line: &'a [f32],
    to: Slice<u8>,
}

impl Task for Quantize<'_> {
    #[inline(always)]
    unsafe fn run<V: Integral>(self) {
        // SAFETY: the caller's promise.
        unsafe { self.each::<V>(|x, _, _| x) }
    }
}

impl Quantize<'_> {
    /// Quantizes what `value` makes of each vector, given its first channel and the number of
    /// channels in it.
    ///
    /// # Safety
    /// The instruction set of `V` is available.
    #[inline(always)]
    unsafe fn each<V: Integral>(self, value: impl Fn(V, usize, usize) -> V) {
        let Quantize { quantizer, part, channels, line, to } = self;
        assert!(part.end <= channels);
        for first in (0..line.len()).step_by(channels) {
            let mut c = part.start;
            // SAFETY: the channels exist and belong to no other thread; only they are read and
            // written.
            unsafe {
                let from = |c: usize| line.as_ptr().add(first + c);
                let scaled = |c: usize| quantizer.scaled(value(V::load(from(c)), c, V::LANES));
                while c + 4 * V::LANES <= part.end {
                    let four = [0, 1, 2, 3].map(|p| scaled(c + p * V::LANES));
                    V::store_all_bytes(four, to.at(first + c));
                    c += 4 * V::LANES;
                }
                while c + V::LANES <= part.end {
                    scaled(c).store_bytes(to.at(first + c));
                    c += V::LANES;
                }
                if c < part.end {
                    let count = part.end - c;
                    let last = value(V::load_masked(from(c), count), c, count);
                    quantizer.scaled(last).store_masked_bytes(to.at(first + c), count);
                }
            }
        }
    }
}
