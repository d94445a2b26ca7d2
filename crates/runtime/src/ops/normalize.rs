//! MVN, NormalizeL2 and GRN; f16 and bf16 are computed in f32.

use crate::graph::net::FusedOp;
use crate::kernel::dispatch::kernel_for;
use crate::kernel::lanes::Lanes;
use crate::kernel::post_ops::{PostOp, bound};
use crate::prelude::*;
use infer::InputSet;
use infer::ops::normalize::{Measure, Normalize};
use infer::rules::axes::normalize_all;
use kernels::layer_norm::{Divisor, Normalization, divide_by_itself, normalize, normalize_rows};
use kernels::real::StoredReal;
use kernels::slices::Slices;

impl Lower for Normalize {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        if let Some(rows) = rows(self, cx)? {
            return Ok(Box::new(rows));
        }
        let (sizes, axes, normalization) = (cx.sizes(0), axes(self, cx)?, normalization(self));
        if axes.is_empty()
            && matches!(normalization.divisor, Divisor::NormPlus(_) | Divisor::NormAtLeast(_))
        {
            return kernel_for!(cx, 0, float T => Itself { lanes: Lanes::of::<T>() });
        }
        let slices = Slices::new(sizes, &axes);
        kernel_for!(cx, 0, float T => NormalizeKernel { slices, normalization, lanes: Lanes::of::<T>() })
    }
}

/// The axes of the normalization.
fn axes(rule: &Normalize, cx: &LowerCx<'_>) -> Result<Vec<usize>, LowerError> {
    let rank = cx.sizes(0).len();
    Ok(match rule.axes(rank)? {
        Some(axes) => axes,
        None => normalize_all(&cx.ints(1)?, rank, 1)?.into_iter().collect(),
    })
}

/// The normalization along rows of f32 that an operation computes, if it is one.
///
/// # Errors
/// Those of its axes.
pub(crate) fn rows(
    rule: &Normalize,
    cx: &LowerCx<'_>,
) -> Result<Option<NormalizeRows>, LowerError> {
    let (axes, sizes) = (axes(rule, cx)?, cx.sizes(0));
    let along = axes[..] == [sizes.len().wrapping_sub(1)];
    let is_f32 = cx.element_type(0) == ElementType::F32;
    let columns = sizes.last().filter(|columns| along && is_f32 && **columns > 0);
    Ok(columns.map(|&columns| NormalizeRows {
        columns,
        normalization: normalization(rule),
        post_ops: Vec::new(),
    }))
}

/// Mean and divisor of the normalization.
pub(crate) fn normalization(rule: &Normalize) -> Normalization {
    let divisor = match rule.measure() {
        Measure::None => Divisor::One,
        Measure::DeviationInside(eps) => Divisor::DeviationInside(eps),
        Measure::DeviationOutside(eps) => Divisor::DeviationOutside(eps),
        Measure::NormPlus(eps) => Divisor::NormPlus(eps),
        Measure::NormAtLeast(eps) => Divisor::NormAtLeast(eps),
    };
    Normalization { center: rule.is_centered(), divisor }
}

/// Normalization along rows of f32. Inputs: data, axes if they are an input, and the operands of
/// the post-ops.
#[derive(Clone)]
pub(crate) struct NormalizeRows {
    pub(crate) columns: usize,
    pub(crate) normalization: Normalization,
    pub(crate) post_ops: Vec<PostOp>,
}

impl FusedOp for NormalizeRows {
    fn lower(&self, _: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        Ok(Box::new(self.clone()))
    }
}

impl Kernel for NormalizeRows {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let mut io = cx.in_out::<f32>(0, 0);
        let post_ops = bound(&self.post_ops, cx, self.columns);
        normalize_rows(cx.threads(), self.columns, self.normalization, &post_ops, &mut io);
        Ok(())
    }

    fn reuse(&self) -> Reuse {
        Reuse::InPlace(InputSet::one(0))
    }

    fn name(&self) -> &'static str {
        "normalize"
    }
}

/// NormalizeL2 over no axes: each element is divided by itself, as the specification says, which
/// gives 1 for every element except 0.
struct Itself<L> {
    lanes: Lanes<L>,
}

impl<L: StoredReal> Kernel for Itself<L> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        self.lanes.in_out(cx, 0, divide_by_itself);
        Ok(())
    }

    fn reuse(&self) -> Reuse {
        self.lanes.reuse(0)
    }

    fn name(&self) -> &'static str {
        "normalize"
    }
}

struct NormalizeKernel<L> {
    slices: Slices,
    normalization: Normalization,
    lanes: Lanes<L>,
}

impl<L: StoredReal> Kernel for NormalizeKernel<L> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let threads = cx.threads();
        self.lanes.in_out(cx, 0, |io| normalize(threads, &self.slices, self.normalization, io));
        Ok(())
    }

    fn reuse(&self) -> Reuse {
        self.lanes.reuse(0)
    }

    fn name(&self) -> &'static str {
        "normalize"
    }
}
