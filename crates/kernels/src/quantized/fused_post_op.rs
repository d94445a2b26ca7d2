//! The post-ops that requantization fuses between the bias of sums and the quantizer of the output,
//! applied to vectors in registers.

use super::lane_op::{Reach, each};
use super::tile::HALF;
use crate::base::simd::{Integral, opaque};
use crate::gemm::Activation;
use crate::math::exponential::Function;

/// What the scale and the bias have left of the quantizer, besides clamping and rounding.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum QuantizerForm {
    Clamps,
    /// It adds an offset.
    Offsets,
    /// It adds an offset, and multiplies by a factor.
    Scales,
}

/// A post-op between the bias and the quantizer.
pub(super) trait FusedPostOp: Copy {
    /// Whether several rows are taken at a time where vectors are half a panel. The operations on
    /// a row wait for each other. The CPU overlaps them with those of the next row only if both
    /// are within its reorder window, which is too small for loops of one row.
    const BY_PANEL_ROWS: bool = false;

    /// The quantizer behind it.
    fn quantizer(self) -> QuantizerForm;

    /// Applies it to `P` vectors of `R` rows, from `row` of the output on.
    ///
    /// # Safety
    /// The instruction set of `V` is available; operands have the rows and the columns of the
    /// panel.
    unsafe fn apply<V: Integral, const R: usize, const P: usize, const WHOLE: bool>(
        self,
        row: usize,
        reach: Reach<WHOLE>,
        by_fma: AddByFma<V>,
        x: &mut [[V; P]; R],
    );
}

/// LeakyRelu, or the identity if there is no slope; the same for all rows.
#[derive(Clone, Copy)]
pub(super) struct LeakyRelu(pub(super) Option<f32>);

impl FusedPostOp for LeakyRelu {
    const BY_PANEL_ROWS: bool = true;

    #[inline(always)]
    fn quantizer(self) -> QuantizerForm {
        if self.0.is_some() { QuantizerForm::Offsets } else { QuantizerForm::Clamps }
    }

    #[inline(always)]
    unsafe fn apply<V: Integral, const R: usize, const P: usize, const WHOLE: bool>(
        self,
        _row: usize,
        _reach: Reach<WHOLE>,
        _by_fma: AddByFma<V>,
        x: &mut [[V; P]; R],
    ) {
        if let Some(alpha) = self.0 {
            Activation::LeakyRelu(alpha).apply(x);
        }
    }
}

impl<F: Function> FusedPostOp for F {
    #[inline(always)]
    fn quantizer(self) -> QuantizerForm {
        QuantizerForm::Scales
    }

    #[inline(always)]
    unsafe fn apply<V: Integral, const R: usize, const P: usize, const WHOLE: bool>(
        self,
        _row: usize,
        _reach: Reach<WHOLE>,
        _by_fma: AddByFma<V>,
        x: &mut [[V; P]; R],
    ) {
        // SAFETY: the caller's promise.
        unsafe { each!(x, i, p => Function::apply(self, x[i][p])) }
    }
}

/// `x + y` as `fma(x, 1, y)`, with the same bits. Zen runs FMAs on its multiply ports, which leaves
/// the add ports to conversions and min/max.
#[derive(Clone, Copy)]
pub(super) struct AddByFma<V>(V);

impl<V: Integral> AddByFma<V> {
    /// # Safety
    /// The instruction set of `V` is available.
    #[inline(always)]
    pub(super) unsafe fn new() -> AddByFma<V> {
        // The compiler would replace a product with 1 that it knows.
        const ONES: [f32; HALF] = [1.0; HALF];
        const { assert!(V::LANES <= HALF) };
        // SAFETY: the caller's promise.
        AddByFma(unsafe { V::load(opaque(ONES.as_ptr())) })
    }

    /// `x + y`.
    ///
    /// # Safety
    /// The instruction set of `V` is available.
    #[inline(always)]
    pub(super) unsafe fn add(self, x: V, y: V) -> V {
        // SAFETY: the caller's promise.
        unsafe { x.fma(self.0, y) }
    }
}
