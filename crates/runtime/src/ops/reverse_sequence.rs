//! ReverseSequence: by element size.

use crate::kernel::dispatch::kernel_for;
use crate::prelude::*;
use infer::ops::reverse_sequence::ReverseSequence;
use kernels::num::Pod;
use kernels::reverse::Sequences;
use std::marker::PhantomData;

impl Lower for ReverseSequence {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let sizes = cx.sizes(0);
        let (batch, sequence) = self.axes(sizes.len())?;
        let (first, second) = (batch.min(sequence), batch.max(sequence));
        let plan = Sequences {
            first: sizes[first],
            middle: sizes[first + 1..second].iter().product(),
            second: sizes[second],
            inner: sizes[second + 1..].iter().product(),
            batch_first: batch < sequence,
        };
        let length = sizes[sequence];
        kernel_for!(cx, 0, size T => ReverseSequenceKernel::<T> { plan, length, of: PhantomData })
    }
}

struct ReverseSequenceKernel<T> {
    plan: Sequences,
    length: usize,
    of: PhantomData<T>,
}

impl<T: Pod> Kernel for ReverseSequenceKernel<T> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        // A length of 0 leaves a sequence unchanged, like 1.
        let length = |v: i64| usize::try_from(v).ok().filter(|v| *v <= self.length).ok_or(v);
        let lengths: Result<Vec<usize>, i64> = cx.ints(1).into_iter().map(length).collect();
        let lengths = lengths.map_err(|wrong| {
            let most = self.length;
            KernelError::at(1, format!("length {wrong} is out of range for sequences of {most}"))
        })?;
        self.plan.reverse::<T>(cx.threads(), &lengths, cx.input(0), cx.output(0));
        Ok(())
    }

    fn name(&self) -> &'static str {
        "reverse"
    }
}
