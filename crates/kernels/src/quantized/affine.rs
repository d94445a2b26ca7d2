//! The most frequent requantization: a scale, a bias, perhaps a function or a residual, and perhaps
//! the quantizer of the output. One loop does all of it, with the parameters of the columns in
//! registers. If no function comes between them, the quantizer's factor and offset are folded into
//! the scale and the bias.

use super::fused_post_op::{AddByFma, FusedPostOp, LeakyRelu, QuantizerForm};
use super::lane_op::{LaneOp, Reach, each};
use super::output::{Columns, To};
use super::residual::{Residual, ResidualOf};
use super::tile::{HALF, PANEL_ROWS, QUARTER, WIDTH};
#[cfg(target_arch = "x86_64")]
use crate::base::isa::Isa;
use crate::base::isa::isa;
#[cfg(target_arch = "aarch64")]
use crate::base::simd::Neon;
#[cfg(target_arch = "x86_64")]
use crate::base::simd::{Avx2, Avx512};
use crate::base::simd::{Integral, Vector};
use crate::gemm::{Activation, Operand, PostOp};
use crate::math::exponential::Exponential;
use crate::math::quantize::{Quantizer, clamp_quantized};
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// The post-op between the bias and the quantizer.
enum Fused<'a> {
    LeakyRelu(LeakyRelu),
    Function(Exponential),
    Residual(Residual<'a>),
}

impl Fused<'_> {
    /// The quantizer behind it.
    fn quantizer(&self) -> QuantizerForm {
        match self {
            Fused::LeakyRelu(leaky) => leaky.quantizer(),
            Fused::Function(Exponential::Swish(swish)) => swish.quantizer(),
            Fused::Function(Exponential::Elu(elu)) => elu.quantizer(),
            Fused::Residual(_) => Residual::QUANTIZER,
        }
    }
}

/// The scales of the sums, and what follows them, for each column of a panel.
pub(super) struct Affine<'a> {
    scales: [f32; WIDTH],
    bias: [f32; WIDTH],
    fused: Fused<'a>,
    /// The offset and the factor of the quantizer, and the largest quantized value.
    add: [f32; WIDTH],
    factor: [f32; WIDTH],
    most: f32,
}

impl<'a> Affine<'a> {
    /// The scales and these operations, if they are some of a bias, a function or a residual, and a
    /// quantizer, in this order.
    pub(super) fn of(ops: &[LaneOp<'a>], scales: &[f32]) -> Option<Affine<'a>> {
        let columns = scales.len();
        let (bias, rest) = match ops {
            [LaneOp::PostOp(PostOp::Add(Operand::Columns(bias))), rest @ ..] => (Some(bias), rest),
            rest => (None, rest),
        };
        let (fused, quantizer) = match rest {
            [LaneOp::Exponential(function), rest @ ..] => (Fused::Function(*function), rest),
            [LaneOp::Activation(Activation::LeakyRelu(alpha)), rest @ ..] => {
                (Fused::LeakyRelu(LeakyRelu(Some(*alpha))), rest)
            }
            rest => match Residual::of(rest) {
                Some((residual, rest)) => (Fused::Residual(residual), rest),
                None => (Fused::LeakyRelu(LeakyRelu(None)), rest),
            },
        };
        // Adding -0.0 leaves a number's bits unchanged.
        let mut of = Affine {
            scales: [0.0; WIDTH],
            bias: [-0.0; WIDTH],
            fused,
            add: [-0.0; WIDTH],
            factor: [1.0; WIDTH],
            most: f32::INFINITY,
        };
        of.scales[..columns].copy_from_slice(scales);
        if let Some(bias) = bias {
            of.bias[..columns].copy_from_slice(bias.get(..columns)?);
        }
        let form = of.fused.quantizer();
        match quantizer {
            [] if !matches!(of.fused, Fused::Residual(_)) => {}
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
        let offsets = form != QuantizerForm::Clamps || of.add.iter().all(|add| *add == 0.0);
        let scales = form == QuantizerForm::Scales || of.factor.iter().all(|by| *by == 1.0);
        (offsets && scales).then_some(of)
    }

    /// The parameters of a panel of `P` vectors.
    ///
    /// # Safety
    /// The instruction set of `V` is available.
    #[inline(always)]
    unsafe fn parameters<V: Integral, const P: usize>(&self) -> Parameters<V, P> {
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
            let [scales, bias, add, factor] = of;
            Parameters { scales, bias, add, factor, by_fma: AddByFma::new() }
        }
    }
}

/// Parameters of the columns of a panel, in registers.
struct Parameters<V, const P: usize> {
    scales: [V; P],
    bias: [V; P],
    /// Of the quantizer.
    add: [V; P],
    factor: [V; P],
    by_fma: AddByFma<V>,
}

/// Rows of the output of a panel, and how they are requantized.
#[derive(Clone, Copy)]
pub(super) struct AffineRows<'a> {
    pub(super) affine: &'a Affine<'a>,
    pub(super) columns: &'a Columns<'a>,
    /// The first row.
    pub(super) row: usize,
    /// The output, the first element there, and elements from one row to the next. A reference,
    /// since a copy for each few rows takes longer than their sums.
    pub(super) to: &'a To<'a>,
    pub(super) at: usize,
    pub(super) stride: usize,
}

impl AffineRows<'_> {
    /// Whether the sums can stay in registers of AVX-512. A function or a residual takes so many
    /// instructions that its loop over rows is not unrolled, and few columns fill vectors of AVX2.
    pub(super) fn fits_registers(&self) -> bool {
        let is_short = matches!(self.affine.fused, Fused::LeakyRelu(_));
        is_short && self.columns.scales.len() > QUARTER
    }

    /// The rows from `row` on.
    pub(super) fn from(self, row: usize) -> Self {
        AffineRows { row: self.row + row, at: self.at + row * self.stride, ..self }
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
        // SAFETY: the caller's promise; a CPU with AVX-512 has AVX2.
        unsafe {
            match self.columns.scales.len() {
                QUARTER => self.reached::<Avx2, 1, true>(sums),
                ..QUARTER => self.reached::<Avx2, 1, false>(sums),
                _ => self.all::<Avx512, { WIDTH / Avx512::LANES }, { HALF / Avx512::LANES }>(sums),
            }
        }
    }

    /// # Safety
    /// As [`Self::write`], with AVX2.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn avx2(&self, sums: &[[i32; WIDTH]]) {
        debug_assert!(Isa::Avx2.is_available());
        // SAFETY: the caller's promise.
        unsafe {
            match self.columns.scales.len() {
                QUARTER => self.reached::<Avx2, 1, true>(sums),
                _ => self.all::<Avx2, { WIDTH / Avx2::LANES }, { HALF / Avx2::LANES }>(sums),
            }
        }
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
                // Panels that are not whole are too few for code of half a width.
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
            match &self.affine.fused {
                Fused::LeakyRelu(leaky) => self.rows::<V, _, P, WHOLE>(*leaky, sums),
                Fused::Function(Exponential::Swish(swish)) => {
                    self.rows::<V, _, P, WHOLE>(*swish, sums);
                }
                Fused::Function(Exponential::Elu(elu)) => {
                    self.rows::<V, _, P, WHOLE>(*elu, sums);
                }
                Fused::Residual(residual) => {
                    self.with_residual::<V, P, WHOLE>(*residual, sums);
                }
            }
        }
    }

    /// # Safety
    /// As [`Self::reached`].
    #[inline(always)]
    unsafe fn with_residual<V: Integral, const P: usize, const WHOLE: bool>(
        &self,
        of: Residual<'_>,
        sums: &[[i32; WIDTH]],
    ) {
        type Of<'a, const SUMS: bool, const ACTIVATES: bool> = ResidualOf<'a, SUMS, ACTIVATES>;
        debug_assert!(self.columns.scales.len() <= P * V::LANES);
        // SAFETY: the caller's promise.
        unsafe {
            match of.form() {
                (false, false) if WHOLE => {
                    self.rows::<V, _, P, WHOLE>(Of::<false, false>::of(of), sums);
                }
                (true, false) if WHOLE => {
                    self.rows::<V, _, P, WHOLE>(Of::<true, false>::of(of), sums);
                }
                // Panels that are not whole are too few for code without an activation.
                (false, _) => self.rows::<V, _, P, WHOLE>(Of::<false, true>::of(of), sums),
                (true, _) => self.rows::<V, _, P, WHOLE>(Of::<true, true>::of(of), sums),
            }
        }
    }

    /// # Safety
    /// As [`Self::reached`].
    #[inline(always)]
    unsafe fn rows<V: Integral, F: FusedPostOp, const P: usize, const WHOLE: bool>(
        &self,
        fused: F,
        sums: &[[i32; WIDTH]],
    ) {
        debug_assert!(self.columns.scales.len() <= P * V::LANES);
        // SAFETY: the caller's promise.
        unsafe {
            let of = self.affine.parameters::<V, P>();
            let mut row = 0;
            if F::BY_PANEL_ROWS && (V::LANES == HALF || P == 1) {
                while row + PANEL_ROWS <= sums.len() {
                    let some = &sums[row..][..PANEL_ROWS];
                    self.some::<V, F, PANEL_ROWS, P, WHOLE>(fused, row, &of, some);
                    row += PANEL_ROWS;
                }
            }
            while row < sums.len() {
                self.some::<V, F, 1, P, WHOLE>(fused, row, &of, &sums[row..][..1]);
                row += 1;
            }
        }
    }

    /// # Safety
    /// As [`Self::reached`], for `R` rows from `row` on.
    #[inline(always)]
    unsafe fn some<
        V: Integral,
        F: FusedPostOp,
        const R: usize,
        const P: usize,
        const WHOLE: bool,
    >(
        &self,
        fused: F,
        row: usize,
        of: &Parameters<V, P>,
        sums: &[[i32; WIDTH]],
    ) {
        debug_assert!(sums.len() == R);
        let compensation = self.columns.compensation[..WIDTH].as_ptr();
        // SAFETY: the caller's promise; sums and compensation are as wide as a panel.
        unsafe {
            let mut x = [[V::zero(); P]; R];
            each!(x, i, p => {
                let at = p * V::LANES;
                V::load_differences(sums[i].as_ptr().add(at), compensation.add(at))
            });
            self.write_rows::<V, F, R, P, WHOLE>(fused, row, of, x);
        }
    }

    /// Writes rows of sums that have been converted to f32. If the compiler did not know what is in
    /// the post-op, a branch for each row would keep the sums out of registers.
    ///
    /// # Safety
    /// As [`Self::reached`]; the output has the `R` rows from `row` on.
    #[inline(always)]
    unsafe fn write_rows<
        V: Integral,
        F: FusedPostOp,
        const R: usize,
        const P: usize,
        const WHOLE: bool,
    >(
        &self,
        fused: F,
        row: usize,
        of: &Parameters<V, P>,
        mut x: [[V; P]; R],
    ) {
        let reach = Reach::<WHOLE> { columns: self.columns.scales.len() };
        debug_assert!(reach.columns <= P * V::LANES);
        // SAFETY: the caller's promise.
        unsafe {
            let nothing = V::splat(-0.0);
            let by_fma = of.by_fma;
            each!(x, i, p => by_fma.add(x[i][p].fma(of.scales[p], nothing), of.bias[p]));
            fused.apply(self.row + row, reach, by_fma, &mut x);
            match self.to {
                To::F32(to) => {
                    for i in 0..R {
                        for p in 0..P {
                            reach.store(x[i][p], to.at(self.at + (row + i) * self.stride), p);
                        }
                    }
                }
                To::Quantized(to, _) => {
                    let form = fused.quantizer();
                    if form != QuantizerForm::Clamps {
                        each!(x, i, p => by_fma.add(x[i][p], of.add[p]));
                    }
                    if form == QuantizerForm::Scales {
                        each!(x, i, p => x[i][p].fma(of.factor[p], nothing));
                    }
                    each!(x, i, p => clamp_quantized(x[i][p], self.affine.most));
                    for i in 0..R {
                        // Storing as bytes also rounds.
                        reach.store_bytes(x[i], to.at(self.at + (row + i) * self.stride));
                    }
                }
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

    /// Writes rows of sums that are in registers, from `row` on, if they [fit
    /// there](Self::fits_registers). The compensation has been subtracted.
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
        debug_assert!(self.fits_registers());
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
        debug_assert!(self.columns.scales.len() <= P * Avx512::LANES);
        let Fused::LeakyRelu(leaky) = self.affine.fused else { return };
        // SAFETY: the caller's promise; the compensation is as wide as a panel.
        unsafe {
            let of = self.affine.parameters::<Avx512, P>();
            let mut x = [[Avx512::zero(); P]; R];
            each!(x, i, p => Avx512(_mm512_cvtepi32_ps(sums[i][p])));
            self.write_rows::<Avx512, _, R, P, WHOLE>(leaky, row, &of, x);
        }
    }
}
