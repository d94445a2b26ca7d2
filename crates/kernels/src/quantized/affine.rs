//! The most frequent requantization: a scale, a bias, perhaps Swish, and perhaps the quantizer of
//! the output. One loop does all of it, with the parameters of the columns in registers.

use super::lane_op::LaneOp;
use super::output::{Columns, To};
use super::tile::{HALF, WIDTH};
#[cfg(target_arch = "x86_64")]
use crate::base::isa::Isa;
use crate::base::isa::isa;
#[cfg(target_arch = "aarch64")]
use crate::base::simd::Neon;
#[cfg(target_arch = "x86_64")]
use crate::base::simd::{Avx2, Avx512};
use crate::base::simd::{Integral, Vector};
use crate::gemm::{Operand, PostOp};
use crate::math::quantize::{Quantizer, clamp_quantized};
use crate::math::swish::swish;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// What follows the scale of the sums, for each column of a panel.
pub(super) struct Affine {
    bias: [f32; WIDTH],
    /// The factor of Swish.
    swish: Option<f32>,
    /// The offset and the factor of the quantizer, and the largest quantized value.
    add: [f32; WIDTH],
    factor: [f32; WIDTH],
    most: f32,
}

impl Affine {
    /// These operations, if they are some of a bias, Swish and a quantizer, in this order, of whole
    /// vectors.
    pub(super) fn of(ops: &[LaneOp<'_>], columns: usize) -> Option<Affine> {
        let (bias, rest) = match ops {
            [LaneOp::PostOp(PostOp::Add(Operand::Columns(bias))), rest @ ..] => (Some(bias), rest),
            rest => (None, rest),
        };
        let (swish, quantizer) = match rest {
            [LaneOp::Swish(beta), rest @ ..] => (Some(*beta), rest),
            rest => (None, rest),
        };
        // Adding -0.0 leaves a number's bits unchanged.
        let mut of = Affine {
            bias: [-0.0; WIDTH],
            swish,
            add: [-0.0; WIDTH],
            factor: [1.0; WIDTH],
            most: f32::INFINITY,
        };
        if let Some(bias) = bias {
            of.bias[..columns].copy_from_slice(bias.get(..columns)?);
        }
        match quantizer {
            [] => {}
            [LaneOp::Scale(to)] => {
                let Quantizer { low, factor, most } = *to;
                (of.add, of.factor, of.most) = ([-low; WIDTH], [factor; WIDTH], most);
            }
            [LaneOp::ScaleColumns(to)] => {
                let [add, factor, ..] = to.parts;
                of.add[..columns].copy_from_slice(add.get(..columns)?);
                of.factor[..columns].copy_from_slice(factor.get(..columns)?);
                of.most = to.most;
            }
            _ => return None,
        }
        matches!(columns, HALF | WIDTH).then_some(of)
    }

    /// The parameters of the columns of a panel of `P` vectors: scales, bias, and the offset and
    /// the factor of the quantizer.
    ///
    /// # Safety
    /// The instruction set of `V` is available; there are as many scales.
    #[inline(always)]
    unsafe fn parameters<V: Integral, const P: usize>(&self, scales: &[f32]) -> [[V; P]; 4] {
        debug_assert!(scales.len() == P * V::LANES);
        let all = [scales.as_ptr(), self.bias.as_ptr(), self.add.as_ptr(), self.factor.as_ptr()];
        // SAFETY: the caller's promise; all parameters are as wide as the panel.
        unsafe {
            let mut of = [[V::zero(); P]; 4];
            for i in 0..4 {
                for p in 0..P {
                    of[i][p] = V::load(all[i].add(p * V::LANES));
                }
            }
            of
        }
    }

    /// Writes a row of sums that have been converted to f32, with Swish or without: a branch for
    /// each row would keep the sums out of registers.
    ///
    /// # Safety
    /// The instruction set of `V` is available; the output has the row, which nobody else uses.
    #[inline(always)]
    unsafe fn write_row<V: Integral, const P: usize, const SWISH: bool>(
        &self,
        [scales, bias, add, factor]: &[[V; P]; 4],
        mut x: [V; P],
        to: To<'_>,
        at: usize,
    ) {
        debug_assert!(matches!(P * V::LANES, HALF | WIDTH));
        // SAFETY: the caller's promise.
        unsafe {
            let nothing = V::splat(-0.0);
            for p in 0..P {
                x[p] = x[p].fma(scales[p], nothing).add(bias[p]);
            }
            if let Some(beta) = self.swish.filter(|_| SWISH) {
                for p in 0..P {
                    x[p] = swish(x[p], beta);
                }
            }
            match to {
                To::F32(to) => {
                    for p in 0..P {
                        x[p].store(to.at(at + p * V::LANES));
                    }
                }
                To::Quantized(to, _) => {
                    for p in 0..P {
                        let scaled = x[p].add(add[p]).fma(factor[p], nothing);
                        x[p] = clamp_quantized(scaled, self.most);
                    }
                    // Storing as bytes also rounds.
                    V::store_all_bytes(x, to.at(at));
                }
            }
        }
    }
}

/// Rows of the output of a panel, and how they are requantized.
#[derive(Clone, Copy)]
pub(super) struct AffineRows<'a> {
    pub(super) affine: &'a Affine,
    pub(super) columns: &'a Columns<'a>,
    /// The output from the first row and column on, and elements from one row to the next.
    pub(super) to: To<'a>,
    pub(super) stride: usize,
}

impl AffineRows<'_> {
    /// Whether the sums can stay in registers. Swish takes so many instructions that its loop over
    /// rows is not unrolled.
    pub(super) fn fits_registers(&self) -> bool {
        self.affine.swish.is_none()
    }

    /// The rows from `row` on.
    ///
    /// # Safety
    /// The output has the row.
    pub(super) unsafe fn from(self, row: usize) -> Self {
        // SAFETY: the caller's promise.
        let to = unsafe { self.to.from(row * self.stride) };
        AffineRows { to, ..self }
    }

    /// Writes rows of sums.
    ///
    /// # Safety
    /// The operations were those of the panel and its output, which has the rows; nobody else uses
    /// them.
    pub(super) unsafe fn write(&self, sums: &[[i32; WIDTH]]) {
        debug_assert!(matches!(self.columns.scales.len(), HALF | WIDTH));
        // SAFETY: the caller's promise, and `isa` is what the CPU has.
        unsafe {
            match isa() {
                #[cfg(target_arch = "x86_64")]
                Isa::Avx512 | Isa::Amx => self.avx512(sums),
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 => self.avx2(sums),
                #[cfg(target_arch = "aarch64")]
                _ => self.all::<Neon, { WIDTH / Neon::LANES }, { HALF / Neon::LANES }>(sums),
                #[cfg(not(target_arch = "aarch64"))]
                _ => unreachable!("without vectors nothing is done lane by lane"),
            }
        }
    }

    /// # Safety
    /// As [`Self::write`], with AVX-512.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
    unsafe fn avx512(&self, sums: &[[i32; WIDTH]]) {
        debug_assert!(Isa::Avx512.is_available());
        // SAFETY: the caller's promise.
        unsafe { self.all::<Avx512, { WIDTH / Avx512::LANES }, { HALF / Avx512::LANES }>(sums) }
    }

    /// # Safety
    /// As [`Self::write`], with AVX2.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn avx2(&self, sums: &[[i32; WIDTH]]) {
        debug_assert!(Isa::Avx2.is_available());
        // SAFETY: the caller's promise.
        unsafe { self.all::<Avx2, { WIDTH / Avx2::LANES }, { HALF / Avx2::LANES }>(sums) }
    }

    /// # Safety
    /// As [`Self::write`], with the instruction set of `V`; a panel is `P` vectors, half a panel
    /// `H`.
    #[inline(always)]
    unsafe fn all<V: Integral, const P: usize, const H: usize>(&self, sums: &[[i32; WIDTH]]) {
        const { assert!(P * V::LANES == WIDTH && H * V::LANES == HALF) };
        debug_assert!(matches!(self.columns.scales.len(), HALF | WIDTH));
        // SAFETY: the caller's promise.
        unsafe {
            match (self.columns.scales.len(), self.affine.swish) {
                (WIDTH, None) => self.rows::<V, P, false>(sums),
                (WIDTH, Some(_)) => self.rows::<V, P, true>(sums),
                (_, None) => self.rows::<V, H, false>(sums),
                (_, Some(_)) => self.rows::<V, H, true>(sums),
            }
        }
    }

    /// # Safety
    /// As [`Self::all`], for a panel of `P` vectors.
    #[inline(always)]
    unsafe fn rows<V: Integral, const P: usize, const SWISH: bool>(&self, sums: &[[i32; WIDTH]]) {
        let Columns { compensation, scales, .. } = self.columns;
        debug_assert!(scales.len() == P * V::LANES && compensation.len() >= scales.len());
        // SAFETY: the caller's promise.
        unsafe {
            let of = self.affine.parameters::<V, P>(scales);
            for (row, sums) in sums.iter().enumerate() {
                let mut x = [V::zero(); P];
                for p in 0..P {
                    let at = p * V::LANES;
                    let sum = sums.as_ptr().add(at);
                    x[p] = V::load_differences(sum, compensation.as_ptr().add(at));
                }
                self.affine.write_row::<V, P, SWISH>(&of, x, self.to, row * self.stride);
            }
        }
    }

    /// Writes rows of sums that are in registers, from `row` on, without Swish.
    ///
    /// # Safety
    /// As [`Self::write`], with AVX-512, for a panel of `P` vectors.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub(super) unsafe fn write_registers<const R: usize, const P: usize>(
        &self,
        row: usize,
        sums: &[[__m512i; P]; R],
    ) {
        debug_assert!(self.columns.scales.len() == P * Avx512::LANES);
        debug_assert!(self.affine.swish.is_none());
        // SAFETY: the caller's promise; the compensation is as wide as the panel.
        unsafe {
            let of = self.affine.parameters::<Avx512, P>(self.columns.scales);
            let compensation = self.columns.compensation.as_ptr();
            for i in 0..R {
                let mut x = [Avx512::zero(); P];
                for p in 0..P {
                    let own = _mm512_loadu_si512(compensation.add(p * Avx512::LANES).cast());
                    x[p] = Avx512(_mm512_cvtepi32_ps(_mm512_sub_epi32(sums[i][p], own)));
                }
                let at = (row + i) * self.stride;
                self.affine.write_row::<Avx512, P, false>(&of, x, self.to, at);
            }
        }
    }
}
