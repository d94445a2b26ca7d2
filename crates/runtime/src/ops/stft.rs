//! STFT and ISTFT, in f64.

use crate::kernel::dispatch::kernel_for;
use crate::prelude::*;
use infer::Dim;
use infer::ops::stft::{Kind, Stft};
use kernels::fft::Fft;
use kernels::real::StoredReal;
use kernels::stft::{Frames, Placement};
use std::marker::PhantomData;

impl Lower for Stft {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let (data, output) = (cx.sizes(0), cx.output_sizes(0)?);
        let window = cx.sizes(1).first().copied().unwrap_or(0);
        let rule = self.frames(cx.int(2)?, cx.int(3)?, Dim::of(window))?;
        let (signal, spectra) = match self.kind() {
            Kind::Stft => (data, output),
            Kind::Istft => (output, data),
        };
        let (Some((length, batch)), [.., rows, columns, 2]) = (signal.split_last(), spectra) else {
            return Err(RuleError::at(0, format!("is {data:?}")).into());
        };
        let (count, bins) = if self.transposed() { (*columns, *rows) } else { (*rows, *columns) };
        let span = count.saturating_sub(1).checked_mul(rule.step);
        let span = span.and_then(|n| n.checked_add(rule.size));
        let cut = self.kind() == Kind::Stft && span.is_none_or(|span| span > *length);
        if bins != rule.size / 2 + 1 || cut {
            let message = format!("does not fit frames of {} elements", rule.size);
            return Err(RuleError::at(0, message).into());
        }
        let frames = Frames {
            batch: batch.iter().product(),
            signal: *length,
            count,
            step: rule.step,
            transposed: self.transposed(),
            fft: Fft::new(rule.size),
        };
        let start = if self.center() { rule.size / 2 } else { 0 };
        let scale = if self.normalized() { (rule.size as f64).sqrt() } else { 1.0 };
        let placement = Placement { start, scale };
        let kind = self.kind();
        kernel_for!(cx, 0, float T => StftKernel::<T> { frames, kind, placement, of: PhantomData })
    }
}

struct StftKernel<T> {
    frames: Frames,
    kind: Kind,
    placement: Placement,
    of: PhantomData<T>,
}

impl<T: StoredReal> Kernel for StftKernel<T> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let inputs = (cx.input::<T>(0), cx.input(1));
        let output = cx.output(0);
        match self.kind {
            Kind::Stft => self.frames.forward(cx.threads(), inputs, output),
            Kind::Istft => self.frames.inverse(cx.threads(), inputs, self.placement, output),
        }
        Ok(())
    }

    fn name(&self) -> &'static str {
        "stft"
    }
}
