//! A residual in quantized values, added to sums between their bias and the quantizer of the
//! output: perhaps the sums are quantized before, and perhaps an activation follows.

use super::fused_post_op::{AddByFma, FusedPostOp, QuantizerForm};
use super::lane_op::{LaneOp, Reach, each};
use crate::base::simd::Integral;
use crate::gemm::{Activation, PostOp, Strided};
use crate::math::quantize::{WHOLE_OFFSET, clamp_quantized};

/// The operations on a panel.
#[derive(Clone, Copy)]
pub(super) struct Residual<'a> {
    /// The quantizer of the sums, which their scales have absorbed.
    sums: Option<Requantized>,
    /// The quantized values that are added, from the first column of the panel on.
    values: Strided<'a, u8>,
    /// The step between them, and the value that 0 stands for.
    scale: f32,
    low: f32,
    /// The slope of the activation below 0.
    alpha: Option<f32>,
}

/// A quantizer that only clamps and rounds, and what its values stand for.
#[derive(Clone, Copy)]
struct Requantized {
    /// The largest quantized value.
    most: f32,
    /// The step between quantized values, and the value that 0 stands for.
    scale: f32,
    low: f32,
}

impl<'a> Residual<'a> {
    /// The quantizer behind it.
    pub(super) const QUANTIZER: QuantizerForm = QuantizerForm::Offsets;

    /// The operations up to the quantizer of the output, if they are such, and the others.
    pub(super) fn of<'o>(ops: &'o [LaneOp<'a>]) -> Option<(Residual<'a>, &'o [LaneOp<'a>])> {
        let (sums, rest) = match ops {
            [LaneOp::Scale(to), LaneOp::Round, LaneOp::Dequantize { scale, low }, rest @ ..]
                if to.is_of_whole_numbers() =>
            {
                (Some(Requantized { most: to.most, scale: *scale, low: *low }), rest)
            }
            rest => (None, rest),
        };
        let [LaneOp::PostOp(PostOp::AddQuantized { values, scale, low }), rest @ ..] = rest else {
            return None;
        };
        let (alpha, rest) = match rest {
            [LaneOp::Activation(Activation::LeakyRelu(alpha)), rest @ ..] => (Some(*alpha), rest),
            rest => (None, rest),
        };
        Some((Residual { sums, values: *values, scale: *scale, low: *low, alpha }, rest))
    }

    /// Whether the sums are quantized before the values are added, and whether an activation
    /// follows.
    pub(super) fn form(&self) -> (bool, bool) {
        (self.sums.is_some(), self.alpha.is_some())
    }
}

/// A [`Residual`] of this form.
#[derive(Clone, Copy)]
pub(super) struct ResidualOf<'a, const SUMS: bool, const ACTIVATES: bool> {
    /// The quantizer of the sums, if there is one.
    sums: Requantized,
    values: Strided<'a, u8>,
    scale: f32,
    low: f32,
    /// 1 without an activation.
    alpha: f32,
}

impl<'a, const SUMS: bool, const ACTIVATES: bool> ResidualOf<'a, SUMS, ACTIVATES> {
    /// The residual in this form, which may activate where the residual does not: by a slope of 1.
    pub(super) fn of(residual: Residual<'a>) -> Self {
        debug_assert!(residual.sums.is_some() == SUMS);
        debug_assert!(residual.alpha.is_none() || ACTIVATES);
        let Residual { sums, values, scale, low, alpha } = residual;
        let none = Requantized { most: 0.0, scale: 1.0, low: 0.0 };
        ResidualOf { sums: sums.unwrap_or(none), values, scale, low, alpha: alpha.unwrap_or(1.0) }
    }
}

impl<const SUMS: bool, const ACTIVATES: bool> FusedPostOp for ResidualOf<'_, SUMS, ACTIVATES> {
    const BY_PANEL_ROWS: bool = true;

    #[inline(always)]
    fn quantizer(self) -> QuantizerForm {
        Residual::QUANTIZER
    }

    #[inline(always)]
    unsafe fn apply<V: Integral, const R: usize, const P: usize, const WHOLE: bool>(
        self,
        row: usize,
        reach: Reach<WHOLE>,
        by_fma: AddByFma<V>,
        x: &mut [[V; P]; R],
    ) {
        debug_assert!(self.values.reaches(row + R, reach.columns));
        // SAFETY: the caller's promise.
        unsafe {
            if SUMS {
                let (scale, low) = (V::splat(self.sums.scale), V::splat(self.sums.low));
                let most = self.sums.most;
                let (up, down) = (V::splat(WHOLE_OFFSET), V::splat(-WHOLE_OFFSET));
                each!(x, i, p => by_fma.add(clamp_quantized(x[i][p], most), up));
                each!(x, i, p => by_fma.add(x[i][p], down).fma(scale, low));
            }
            let (scale, low) = (V::splat(self.scale), V::splat(self.low));
            let values = self.values.values.as_ptr().add(row * self.values.stride);
            each!(x, i, p => {
                let q = reach.load_bytes::<V>(values.add(i * self.values.stride), p);
                by_fma.add(x[i][p], q.fma(scale, low))
            });
            if ACTIVATES {
                Activation::LeakyRelu(self.alpha).apply(x);
            }
        }
    }
}
