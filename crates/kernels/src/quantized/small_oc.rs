//! Convolutions to few output channels, above all for CPUs without dot products of bytes. Quantized
//! values, filters and their sums are whole numbers that f32 holds exactly, so the f32 kernel whose
//! lanes are neighbouring outputs computes them. In panels of columns most lanes would be empty.

use super::input::Data;
use super::output::To;
use super::pack::PackedFilters;
use super::params::QuantParams;
use super::tile::{MAX_EXACT_TERMS, has_dot4};
use crate::base::aligned_buf::WeightArena;
use crate::base::workers::Workers;
use crate::conv::Convolution;
use crate::conv::small_oc::{BLOCK, Positions, small_oc, to_planes};
use crate::gemm::{Operand, PostOp, RegisterPostOps, apply_post_ops, apply_to_rows};
use crate::math::quantize::{Quantizer, Quantizers};
use crate::multiversion;
use std::ops::Range;

/// Up to so many outputs, a panel of dot4 has fewer products in an instruction that count.
const FEWER_THAN_DOT4: usize = 3;

/// Positions whose columns are repeated, so that a run of post-ops is long.
const REPEATS: usize = 32;

/// Whether it pays for a convolution on this CPU; the sums are the same.
pub(super) fn pays(conv: &Convolution) -> bool {
    let is_exact = conv.taps() * conv.inputs <= MAX_EXACT_TERMS;
    let is_faster = !has_dot4() || conv.outputs <= FEWER_THAN_DOT4;
    is_faster && is_exact && small_oc(conv).is_some()
}

/// Packs filters for [`run`], given by output channel, then input channel, then tap.
pub(super) fn pack_filters(conv: &Convolution, to: &WeightArena, filters: &[i8]) -> PackedFilters {
    let wide: Vec<f32> = filters.iter().map(|weight| f32::from(*weight)).collect();
    let values = small_oc(conv).map(|small| small.pack_filters(to, &wide)).unwrap_or_default();
    let bytes = packed_bytes(conv);
    PackedFilters::of_panels(values, bytes, Vec::new())
}

/// Bytes of packed filters.
pub(super) fn packed_bytes(conv: &Convolution) -> usize {
    small_oc(conv).map_or(0, |small| small.packed_len() * size_of::<f32>())
}

/// Bytes of scratch memory for a run on this many threads.
pub(super) fn scratch_bytes(conv: &Convolution, threads: usize) -> usize {
    small_oc(conv).map_or(0, |small| small.scratch_len(threads) * size_of::<f32>())
}

/// Convolves as [`super::QuantizedConvolution::run`] does.
///
/// # Panics
/// When [`pays`] is false.
pub(super) fn run(
    conv: &Convolution,
    params: QuantParams,
    workers: Workers<'_>,
    (data, filters, scales): (Data<'_>, &PackedFilters, &[f32]),
    (post_ops, to): (&[PostOp<'_>], To<'_>),
) {
    let small = small_oc(conv).expect("there are few outputs");
    if let Data::Planes(_, quantizers) = data {
        assert_eq!(quantizers.len(), conv.inputs, "there is a quantizer for each channel");
    }
    let zero = f32::from(params.zero_point());
    let planes = |positions: Positions, to: &mut [f32], plane: usize| match data {
        Data::Quantized(bytes) => {
            let own = &bytes[positions.start * conv.inputs..positions.end * conv.inputs];
            in_pieces(own, conv.inputs, (to, plane), |from, to| widen(from, zero, to));
        }
        Data::F32(input, quantizer) => {
            let own = &input.values[positions.start * conv.inputs..positions.end * conv.inputs];
            let round = |from: &[f32], to: &mut [f32]| quantized(quantizer, zero, from, to);
            in_pieces(own, conv.inputs, (to, plane), round);
        }
        Data::Planes(values, quantizers) => {
            let (batch, start) = (positions.start / conv.inside(), positions.start % conv.inside());
            let planes = to.chunks_mut(plane).zip(quantizers);
            for (c, (to, quantizer)) in planes.enumerate() {
                let at = (batch * conv.inputs + c) * conv.inside() + start;
                let own = &values[at..][..positions.len()];
                quantized(*quantizer, zero, own, &mut to[..positions.len()]);
            }
        }
    };
    let epilogue = Epilogue::new(scales, post_ops, conv.outputs);
    let none = RegisterPostOps::of(&[]).0;
    small.run_lines(workers, (&planes, filters.whole_numbers()), none, &|own, buffer, line| {
        let (first, len) = (own.start * conv.outputs, own.len() * conv.outputs);
        match to {
            To::F32(to) => {
                // SAFETY: lines are disjoint parts of the output.
                let values = unsafe { to.part(first, len) };
                line.compute(values);
                epilogue.apply(own, values);
            }
            To::Quantized(to, quantizers) => {
                line.compute(buffer);
                epilogue.apply(own, buffer);
                // SAFETY: as above.
                let to = unsafe { to.part(first, len) };
                match quantizers {
                    Quantizers::Uniform(_) => quantizers.row(0, buffer, to),
                    Quantizers::Columns(_) => {
                        let rows = buffer.chunks(conv.outputs).zip(to.chunks_mut(conv.outputs));
                        rows.for_each(|(values, to)| quantizers.row(0, values, to));
                    }
                }
            }
        }
    });
}

/// What is done to the sums: their scales, then the post-ops.
struct Epilogue<'a> {
    /// Each with its columns repeated, if it has columns.
    ops: Vec<(PostOp<'a>, Vec<f32>)>,
    columns: usize,
}

impl<'a> Epilogue<'a> {
    fn new(scales: &'a [f32], post_ops: &[PostOp<'a>], columns: usize) -> Epilogue<'a> {
        let scale = PostOp::Multiply(Operand::Columns(scales));
        let repeated = |op: PostOp<'a>| {
            let own = op.columns().map(|own| own[..columns].repeat(REPEATS));
            (op, own.unwrap_or_default())
        };
        let all = [scale].into_iter().chain(post_ops.iter().copied());
        Epilogue { ops: all.map(repeated).collect(), columns }
    }

    /// Applies them to all columns of some positions.
    fn apply(&self, positions: Range<usize>, values: &mut [f32]) {
        for (op, repeated) in &self.ops {
            if repeated.is_empty() {
                apply_to_rows(&[*op], positions.start, self.columns, values);
                continue;
            }
            let wide = op.with_columns(repeated);
            let (whole, rest) = values.split_at_mut(values.len() / repeated.len() * repeated.len());
            apply_to_rows(&[wide], 0, repeated.len(), whole);
            apply_post_ops(&[wide], 0, 0, rest);
        }
    }
}

/// Elements that are converted at a time.
const PIECE: usize = 512;

/// Writes positions of `channels` elements to planes, converted to f32 in pieces.
fn in_pieces<T>(
    from: &[T],
    channels: usize,
    (to, plane): (&mut [f32], usize),
    convert: impl Fn(&[T], &mut [f32]),
) {
    // Whole blocks of positions where there is room, since each is transposed in registers.
    let positions = PIECE / channels;
    let positions = if positions > BLOCK { positions / BLOCK * BLOCK } else { positions };
    let mut wide = [0.0; PIECE];
    for (i, from) in from.chunks(positions * channels).enumerate() {
        let wide = &mut wide[..from.len()];
        convert(from, wide);
        to_planes(wide, channels, &mut to[i * positions..], plane);
    }
}

multiversion! {
    /// Quantized values less the zero point.
    fn widen(from: &[u8], zero: f32, to: &mut [f32]) {
        for (from, to) in from.iter().zip(to) {
            *to = f32::from(*from) - zero;
        }
    }
}

multiversion! {
    /// Quantizes values, and subtracts the zero point.
    fn quantized(by: Quantizer, zero: f32, from: &[f32], to: &mut [f32]) {
        for (from, to) in from.iter().zip(to) {
            *to = by.quantized(*from) - zero;
        }
    }
}
