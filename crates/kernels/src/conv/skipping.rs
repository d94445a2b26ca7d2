//! Convolutions with filters that hold infinities or NaN, in windows that reach into padding.
//!
//! Padding must add nothing to a sum. A GEMM multiplies zeros there, which is the same only if the
//! filters are finite. Here each window uses the taps within the input only, in the order of the
//! GEMM's chains.

use super::naive::{Definition, Direction};
use super::problem::{Convolution, Filters, Input};
use crate::base::aligned_buf::WeightArena;
use crate::base::num::bf16;
use crate::base::par::Threads;
use crate::conv::tuning::NAIVE_GRAIN;
use crate::gemm::{PostOp, Precision, Target, apply_post_ops, bf16_bits, end_block};
use crate::multiversion;
use std::sync::atomic::{AtomicU32, Ordering};

/// The bits of the least number that is not finite, and of the least that is not finite once it is
/// converted to bf16.
const INFINITE: u32 = 0x7f80_0000;
const INFINITE_IN_BF16: u32 = 0x7f7f_8000;

/// All bits except the sign.
const SIGNLESS: u32 = 0x7fff_ffff;

/// Filters that are worth a second thread when they are scanned.
const SCAN_GRAIN: usize = 256 << 10;

impl Convolution {
    /// Whether windows reach into padding, or further than fits `isize`.
    pub fn is_padded(&self) -> bool {
        self.axes.iter().any(|axis| !axis.is_countable() || axis.inside() != (0..axis.output))
    }

    /// Whether a GEMM would multiply zeros of the padding by filters that are not finite.
    pub(super) fn must_skip(&self, threads: &Threads, filters: &[f32]) -> bool {
        let is_bf16 = self.gemm_precision() == Precision::Bf16;
        let limit = if is_bf16 { INFINITE_IN_BF16 } else { INFINITE };
        if !self.is_padded() {
            return false;
        }
        let all = AtomicU32::new(0);
        threads.par_ranges(filters.len(), SCAN_GRAIN, |own| {
            all.fetch_max(largest(&filters[own]), Ordering::Relaxed);
        });
        all.into_inner() >= limit
    }

    /// Packs filters for [`Self::skip_padding`]: for each group, tap and input channel, one element
    /// for each output channel.
    pub(super) fn by_taps(&self, to: &WeightArena, filters: &[f32]) -> Filters<'static> {
        let (taps, (inputs, outputs)) = (self.taps(), self.group());
        let mut packed = to.alloc(self.groups * taps * inputs * outputs * size_of::<f32>());
        let rows = packed.elements_mut::<f32>().chunks_exact_mut(outputs.max(1));
        for (i, row) in rows.enumerate() {
            let (input, group, tap) = (i % inputs, i / inputs / taps, i / inputs % taps);
            for (o, to) in row.iter_mut().enumerate() {
                *to = self.operand(filters[((group * outputs + o) * inputs + input) * taps + tap]);
            }
        }
        Filters::Skipping(packed)
    }

    /// Convolves position by position, skipping taps outside the input.
    pub(super) fn skip_padding(
        &self,
        threads: &Threads,
        (input, filters): (Input<'_>, &[f32]),
        post_ops: &[PostOp<'_>],
        output: Target<'_>,
    ) {
        assert!(input.is_alone(), "only 1×1 convolutions have factors or further inputs");
        let definition = Definition { conv: self.clone(), direction: Direction::Forward };
        let row = |at: usize, to: &mut [f32]| {
            self.sum(&definition, at, (&input, filters), to);
            apply_post_ops(post_ops, at, 0, to);
        };
        let channels = self.outputs;
        match output {
            Target::F32(to) => threads.par_chunks_mut(to, channels, NAIVE_GRAIN, |first, part| {
                let rows = part.chunks_exact_mut(channels).enumerate();
                rows.for_each(|(i, to)| row(first + i, to));
            }),
            Target::Bf16(to) => threads.par_chunks_mut(to, channels, NAIVE_GRAIN, |first, part| {
                let mut sums = vec![0.0; channels];
                for (i, to) in part.chunks_exact_mut(channels).enumerate() {
                    row(first + i, &mut sums);
                    let each = to.iter_mut().zip(&sums);
                    each.for_each(|(to, sum)| *to = bf16::from_bits(bf16_bits(*sum) as u16));
                }
            }),
        }
    }

    /// Sums of all output channels at one position.
    fn sum(
        &self,
        definition: &Definition,
        at: usize,
        (input, filters): (&Input<'_>, &[f32]),
        sums: &mut [f32],
    ) {
        let (taps, (inputs, outputs)) = (self.taps(), self.group());
        let (strides, per_count) = (self.strides(input), input.per_count());
        let image = at / self.positions() * strides.image;
        // The first block's sums are added to -0, which changes no number.
        sums.fill(-0.0);
        let blocks = self.k_blocks();
        let mut chains = vec![0.0; sums.len()];
        let mut ends = vec![blocks.block(0).end; self.groups];
        definition.taps(at % self.positions(), |tap, pixel| {
            let first = image + pixel * strides.position;
            for channel in 0..self.inputs {
                let (group, own) = (channel / inputs, channel % inputs);
                let value = input.values[first + channel / per_count * strides.channel];
                let value = if input.is_bf16 {
                    f32::from_bits(value.to_bits() >> (16 * (channel % 2)) << 16)
                } else {
                    self.operand(value)
                };
                let row = &filters[((group * taps + tap) * inputs + own) * outputs..][..outputs];
                let columns = group * outputs..(group + 1) * outputs;
                let at = tap * inputs + own;
                while at >= ends[group] {
                    end_block(&mut chains[columns.clone()], &mut sums[columns.clone()]);
                    ends[group] = blocks.block(ends[group]).end;
                }
                add_products(&mut chains[columns], value, row);
            }
        });
        end_block(&mut chains, sums);
    }

    /// An operand in the precision of the GEMM.
    fn operand(&self, value: f32) -> f32 {
        match self.gemm_precision() {
            Precision::F32 => value,
            Precision::Bf16 => f32::from_bits(bf16_bits(value) << 16),
        }
    }
}

multiversion! {
    /// The largest bits of some numbers, without their signs.
    fn largest(values: &[f32]) -> u32 {
        // Lanes, so that no element waits for the one before it.
        const LANES: usize = 64;
        let (chunks, rest) = values.as_chunks::<LANES>();
        let mut lanes = [0; LANES];
        for chunk in chunks {
            for i in 0..LANES {
                lanes[i] = lanes[i].max(chunk[i].to_bits() & SIGNLESS);
            }
        }
        let mut largest = 0;
        for lane in lanes {
            largest = lane.max(largest);
        }
        for value in rest {
            largest = largest.max(value.to_bits() & SIGNLESS);
        }
        largest
    }
}

multiversion! {
    /// Adds `value` times each weight to the sums.
    fn add_products(sums: &mut [f32], value: f32, weights: &[f32]) {
        for (sum, weight) in sums.iter_mut().zip(weights) {
            *sum = value.mul_add(*weight, *sum);
        }
    }
}
