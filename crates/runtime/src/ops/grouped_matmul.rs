//! GroupedMatMul-17: one GEMM per group; f16 and bf16 are computed in f32.

use super::matmul::{Factor, Shape};
use crate::kernel::dispatch::kernel_for;
use crate::kernel::lanes::Lanes;
use crate::prelude::*;
use infer::ops::grouped_matmul::GroupedMatMul;

impl Lower for GroupedMatMul {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let groups = Groups { a: cx.sizes(0).into(), b: cx.sizes(1).into() };
        kernel_for!(cx, 0, number T => Grouped { groups, lanes: Lanes::of::<T>() })
    }
}

/// The sizes of the operands.
struct Groups {
    a: Sizes,
    b: Sizes,
}

impl Groups {
    /// Floating-point operations, as if every token belonged to a group.
    fn flops(&self) -> u64 {
        match (&self.a[..], &self.b[..]) {
            (&[tokens, depth], &[_, width, ..]) => 2 * (tokens * depth * width) as u64,
            (a, b) => Shape::new(a, b, false, true).flops(),
        }
    }

    fn run<T: Factor>(
        &self,
        cx: &RunCx<'_>,
        a: &[T],
        b: &[T],
        c: &mut [T],
    ) -> Result<(), KernelError> {
        let &[tokens, depth] = &self.a[..] else {
            T::multiply(&Shape::new(&self.a, &self.b, false, true), cx, a, b, c);
            return Ok(());
        };
        let width = self.b[1];
        let mut start = 0;
        for (group, end) in cx.ints(2).into_iter().enumerate() {
            let end = usize::try_from(end).ok().filter(|end| (start..=tokens).contains(end));
            let Some(end) = end else {
                let message = format!("group {group} does not end between {start} and {tokens}");
                return Err(KernelError::at(2, message));
            };
            let shape = Shape::new(&[end - start, depth], &[width, depth], false, true);
            let (a, b) = (&a[start * depth..end * depth], &b[group * width * depth..]);
            T::multiply(&shape, cx, a, b, &mut c[start * width..end * width]);
            start = end;
        }
        // Tokens without a group give zeros.
        c[start * width..].fill(T::default());
        Ok(())
    }
}

struct Grouped<L> {
    groups: Groups,
    lanes: Lanes<L>,
}

impl<L: Factor> Kernel for Grouped<L> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let (a, b) = (self.lanes.input(cx, 0), self.lanes.input(cx, 1));
        self.lanes.output(cx, 0, |cx, c| self.groups.run(cx, &a, &b, c))
    }

    fn flops(&self) -> u64 {
        self.groups.flops()
    }

    fn name(&self) -> &'static str {
        "grouped matmul"
    }
}
