//! MVN, NormalizeL2 and GRN: f16 and bf16 in f32.

use crate::dispatch::kernel_for;
use crate::prelude::*;
use infer::ops::normalize::{Measure, Normalize};
use infer::rules::axes;
use kernels::normalize::{Divisor, Normalization, normalize};
use kernels::real::StoredReal;
use kernels::slices::Slices;
use std::marker::PhantomData;

impl Lower for Normalize {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let sizes = cx.sizes(0);
        let slices = match self.axes(sizes.len())? {
            Some(axes) => Slices::new(sizes, &axes),
            None => Slices::new(sizes, &axes::normalize_all(&cx.ints(1)?, sizes.len(), 1)?),
        };
        let form = form(self);
        kernel_for!(cx, 0, float T => NormalizeKernel::<T> { slices, form, of: PhantomData })
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

struct NormalizeKernel<T> {
    slices: Slices,
    form: Normalization,
    of: PhantomData<T>,
}

impl<T: StoredReal> Kernel for NormalizeKernel<T> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        normalize(cx.threads(), &self.slices, self.form, &cx.in_out::<T>(0, 0));
        Ok(())
    }

    fn reuse(&self) -> Reuse {
        Reuse::InPlace(1)
    }

    fn name(&self) -> &'static str {
        "normalize"
    }
}
