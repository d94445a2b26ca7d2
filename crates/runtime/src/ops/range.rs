//! Range: integers in 64 bits, all others in f64.

use crate::prelude::*;
use crate::tensor::dispatch::with_type;
use infer::ops::range::{Range, vanishes};
use kernels::num::Stored;
use kernels::range;
use std::marker::PhantomData;

impl Lower for Range {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let element_type = cx.output_type(0);
        let refused = || LowerError::Unsupported(format!("a range of {element_type}"));
        // The stop only determines the size.
        cx.output_sizes(0)?;
        let whole = |input: usize| cx.element_type(input).is_integral();
        if element_type.is_integral() && (whole(2) || !vanishes(real(cx, 2)?)) {
            let value = |input: usize| -> Result<i64, LowerError> {
                // `as` truncates towards zero, as the specification wants.
                if whole(input) { cx.int(input) } else { Ok(real(cx, input)? as i64) }
            };
            let (start, step) = (value(0)?, value(2)?);
            return with_type!(element_type, integer T => {
                Box::new(Integers::<T> { start, step, of: PhantomData }) as Box<dyn Kernel>
            })
            .ok_or_else(refused);
        }
        let (start, step) = (real(cx, 0)?, real(cx, 2)?);
        let round = element_type.is_integral();
        with_type!(element_type, number T => {
            Box::new(Reals::<T> { start, step, round, of: PhantomData }) as Box<dyn Kernel>
        })
        .ok_or_else(refused)
    }
}

fn real(cx: &LowerCx<'_>, input: usize) -> Result<f64, LowerError> {
    match cx.floats(input)?[..] {
        [one] => Ok(one),
        _ => Err(RuleError::at(input, "must hold one element").into()),
    }
}

struct Integers<T> {
    start: i64,
    step: i64,
    of: PhantomData<T>,
}

impl<T: Stored> Kernel for Integers<T> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        range::integers::<T>(cx.threads(), self.start, self.step, cx.output(0));
        Ok(())
    }

    fn name(&self) -> &'static str {
        "range"
    }
}

struct Reals<T> {
    start: f64,
    step: f64,
    /// Whether the values are rounded to integers.
    round: bool,
    of: PhantomData<T>,
}

impl<T: Stored> Kernel for Reals<T> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let bounds = (self.start, self.step);
        range::reals::<T>(cx.threads(), bounds, self.round, cx.output(0));
        Ok(())
    }

    fn name(&self) -> &'static str {
        "range"
    }
}
