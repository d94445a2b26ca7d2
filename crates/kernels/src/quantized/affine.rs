//! The most frequent requantization: a scale, a bias, perhaps a function, and perhaps the quantizer
//! of the output. One loop does all of it, with the parameters of the columns in registers. Without
//! a function, the scale and the bias have absorbed the quantizer, which only clamps and rounds.

use super::lane_op::{LaneOp, Reach};
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
use crate::math::exponential::{Exponential, Function, Identity};
use crate::math::quantize::{Quantizer, clamp_quantized};
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// The scales of the sums, and what follows them, for each column of a panel.
pub(super) struct Affine {
    scales: [f32; WIDTH],
    bias: [f32; WIDTH],
    function: Option<Exponential>,
    /// The offset and the factor of the quantizer, and the largest quantized value.
    add: [f32; WIDTH],
    factor: [f32; WIDTH],
    most: f32,
}

impl Affine {
    /// The scales and these operations, if they are some of a bias, a function and a quantizer, in
    /// this order.
    pub(super) fn of(ops: &[LaneOp<'_>], scales: &[f32]) -> Option<Affine> {
        let columns = scales.len();
        let (bias, rest) = match ops {
            [LaneOp::PostOp(PostOp::Add(Operand::Columns(bias))), rest @ ..] => (Some(bias), rest),
            rest => (None, rest),
        };
        let (function, quantizer) = match rest {
            [LaneOp::Exponential(function), rest @ ..] => (Some(*function), rest),
            rest => (None, rest),
        };
        // Adding -0.0 leaves a number's bits unchanged.
        let mut of = Affine {
            scales: [0.0; WIDTH],
            bias: [-0.0; WIDTH],
            function,
            add: [-0.0; WIDTH],
            factor: [1.0; WIDTH],
            most: f32::INFINITY,
        };
        of.scales[..columns].copy_from_slice(scales);
        if let Some(bias) = bias {
            of.bias[..columns].copy_from_slice(bias.get(..columns)?);
        }
        match quantizer {
            [] => {}
            [LaneOp::Scale(to)] if function.is_none() => {
                of.most = Some(to.most).filter(|_| to.is_of_whole_numbers())?;
            }
            [LaneOp::Scale(to)] => {
                let Quantizer { low, factor, most } = *to;
                (of.add, of.factor, of.most) = ([-low; WIDTH], [factor; WIDTH], most);
            }
            [LaneOp::ScaleColumns(to)] if function.is_some() => {
                let [add, factor, ..] = to.parts;
                of.add[..columns].copy_from_slice(add.get(..columns)?);
                of.factor[..columns].copy_from_slice(factor.get(..columns)?);
                of.most = to.most;
            }
            _ => return None,
        }
        Some(of)
    }

    /// The parameters of the columns of a panel of `P` vectors: scales, bias, and the offset and
    /// the factor of the quantizer.
    ///
    /// # Safety
    /// The instruction set of `V` is available.
    #[inline(always)]
    unsafe fn parameters<V: Integral, const P: usize>(&self) -> [[V; P]; 4] {
        const { assert!(P * V::LANES <= WIDTH) };
        let all = [&self.scales, &self.bias, &self.add, &self.factor].map(|of| of.as_ptr());
        // SAFETY: the caller's promise; all parameters are as wide as a panel.
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

    /// Writes a row of sums that have been converted to f32. If the compiler did not know the
    /// `function`, a branch for each row would keep the sums out of registers.
    ///
    /// # Safety
    /// The instruction set of `V` is available; the output has the row, which nobody else uses.
    #[inline(always)]
    unsafe fn write_row<V: Integral, F: Function, const P: usize, const WHOLE: bool>(
        &self,
        function: F,
        [scales, bias, add, factor]: &[[V; P]; 4],
        mut x: [V; P],
        reach: Reach<WHOLE>,
        (to, at): (To<'_>, usize),
    ) {
        debug_assert!(reach.columns <= P * V::LANES);
        // SAFETY: the caller's promise.
        unsafe {
            let nothing = V::splat(-0.0);
            for p in 0..P {
                x[p] = x[p].fma(scales[p], nothing).add(bias[p]);
            }
            for p in 0..P {
                x[p] = function.apply(x[p]);
            }
            match to {
                To::F32(to) => {
                    for p in 0..P {
                        reach.store(x[p], to.at(at), p);
                    }
                }
                To::Quantized(to, _) => {
                    for p in 0..P {
                        if !F::IS_IDENTITY {
                            x[p] = x[p].add(add[p]).fma(factor[p], nothing);
                        }
                        x[p] = clamp_quantized(x[p], self.most);
                    }
                    // Storing as bytes also rounds.
                    reach.store_bytes(x, to.at(at));
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
    /// Whether the sums can stay in registers. A function takes so many instructions that its loop
    /// over rows is not unrolled.
    pub(super) fn fits_registers(&self) -> bool {
        self.affine.function.is_none()
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
        debug_assert!((1..=WIDTH).contains(&self.columns.scales.len()));
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
        // SAFETY: the caller's promise.
        unsafe {
            match self.columns.scales.len() {
                WIDTH => self.reached::<V, P, true>(sums),
                HALF => self.reached::<V, H, true>(sums),
                ..HALF => self.reached::<V, H, false>(sums),
                _ => self.reached::<V, P, false>(sums),
            }
        }
    }

    /// # Safety
    /// As [`Self::all`], for a panel of `P` vectors, which is `WHOLE`.
    #[inline(always)]
    unsafe fn reached<V: Integral, const P: usize, const WHOLE: bool>(
        &self,
        sums: &[[i32; WIDTH]],
    ) {
        debug_assert!(self.columns.scales.len() <= P * V::LANES);
        // SAFETY: the caller's promise.
        unsafe {
            match self.affine.function {
                None => self.rows::<V, Identity, P, WHOLE>(Identity, sums),
                Some(Exponential::Swish(swish)) => self.rows::<V, _, P, WHOLE>(swish, sums),
                Some(Exponential::Elu(elu)) => self.rows::<V, _, P, WHOLE>(elu, sums),
            }
        }
    }

    /// # Safety
    /// As [`Self::reached`].
    #[inline(always)]
    unsafe fn rows<V: Integral, F: Function, const P: usize, const WHOLE: bool>(
        &self,
        function: F,
        sums: &[[i32; WIDTH]],
    ) {
        let Columns { compensation, scales, .. } = self.columns;
        let (compensation, reach) =
            (&compensation[..WIDTH], Reach::<WHOLE> { columns: scales.len() });
        debug_assert!(scales.len() <= P * V::LANES);
        // SAFETY: the caller's promise; sums and compensation are as wide as a panel.
        unsafe {
            let of = self.affine.parameters::<V, P>();
            for (row, sums) in sums.iter().enumerate() {
                let mut x = [V::zero(); P];
                for p in 0..P {
                    let at = p * V::LANES;
                    let sum = sums.as_ptr().add(at);
                    x[p] = V::load_differences(sum, compensation.as_ptr().add(at));
                }
                let to = (self.to, row * self.stride);
                self.affine.write_row::<V, F, P, WHOLE>(function, &of, x, reach, to);
            }
        }
    }

    /// What the products of the first `P` vectors of columns are added to: the compensation,
    /// negative.
    ///
    /// # Safety
    /// AVX-512 is available.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub(super) unsafe fn start<const P: usize>(&self) -> [__m512i; P] {
        const { assert!(P * Avx512::LANES <= WIDTH) };
        let compensation = self.columns.compensation[..WIDTH].as_ptr();
        // SAFETY: the caller's promise; the compensation is as wide as a panel.
        unsafe {
            let mut start = [_mm512_setzero_si512(); P];
            for p in 0..P {
                let own = _mm512_loadu_si512(compensation.add(p * Avx512::LANES).cast());
                start[p] = _mm512_sub_epi32(start[p], own);
            }
            start
        }
    }

    /// Writes rows of sums that are in registers, from `row` on, without a function. The
    /// compensation has been subtracted.
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
        debug_assert!(self.affine.function.is_none());
        // SAFETY: the caller's promise.
        unsafe {
            if self.columns.scales.len() == P * Avx512::LANES {
                self.write_reached::<R, P, true>(row, sums);
            } else {
                self.write_reached::<R, P, false>(row, sums);
            }
        }
    }

    /// # Safety
    /// As [`Self::write_registers`]; the panel is `WHOLE`.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn write_reached<const R: usize, const P: usize, const WHOLE: bool>(
        &self,
        row: usize,
        sums: &[[__m512i; P]; R],
    ) {
        let reach = Reach::<WHOLE> { columns: self.columns.scales.len() };
        debug_assert!(reach.columns <= P * Avx512::LANES);
        // SAFETY: the caller's promise; the compensation is as wide as a panel.
        unsafe {
            let of = self.affine.parameters::<Avx512, P>();
            for i in 0..R {
                let mut x = [Avx512::zero(); P];
                for p in 0..P {
                    x[p] = Avx512(_mm512_cvtepi32_ps(sums[i][p]));
                }
                let to = (self.to, (row + i) * self.stride);
                self.affine.write_row::<Avx512, Identity, P, WHOLE>(Identity, &of, x, reach, to);
            }
        }
    }
}
