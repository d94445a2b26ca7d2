//! MVN, NormalizeL2 and GRN: f16 and bf16 in f32.

use super::convert::Lanes;
use crate::dispatch::kernel_for;
use crate::fused::normalize::NormalizeRows;
use crate::prelude::*;
use infer::ops::normalize::{Measure, Normalize};
use infer::rules::axes;
use kernels::normalize::{Divisor, Normalization, normalize};
use kernels::real::StoredReal;
use kernels::slices::Slices;

impl Lower for Normalize {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let sizes = cx.sizes(0);
        let axes: Sizes = match self.axes(sizes.len())? {
            Some(axes) => axes.into_iter().collect(),
            None => axes::normalize_all(&cx.ints(1)?, sizes.len(), 1)?.into_iter().collect(),
        };
        let form = form(self);
        if let Some(&columns) = sizes.last().filter(|_| axes[..] == [sizes.len() - 1])
            && cx.element_type(0) == ElementType::F32
        {
            return Ok(Box::new(NormalizeRows { columns, form, then: Vec::new() }));
        }
        let slices = Slices::new(sizes, &axes);
        kernel_for!(cx, 0, float T => NormalizeKernel { slices, form, lanes: Lanes::of::<T>() })
    }
}

/// How an operation normalises its slices.
pub(crate) fn form(rule: &Normalize) -> Normalization {
    let divisor = match rule.measure() {
        Measure::None => Divisor::One,
        Measure::DeviationInside(eps) => Divisor::DeviationInside(eps),
        Measure::DeviationOutside(eps) => Divisor::DeviationOutside(eps),
        Measure::NormPlus(eps) => Divisor::NormPlus(eps),
        Measure::NormAtLeast(eps) => Divisor::NormAtLeast(eps),
    };
    Normalization { center: rule.is_centered(), divisor }
}

struct NormalizeKernel<L> {
    slices: Slices,
    form: Normalization,
    lanes: Lanes<L>,
}

impl<L: StoredReal> Kernel for NormalizeKernel<L> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let threads = cx.threads();
        self.lanes.in_out(cx, 0, |io| normalize(threads, &self.slices, self.form, io));
        Ok(())
    }

    fn reuse(&self) -> Reuse {
        self.lanes.reuse(0)
    }

    fn name(&self) -> &'static str {
        "normalize"
    }
}
