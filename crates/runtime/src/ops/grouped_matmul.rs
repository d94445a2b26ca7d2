//! GroupedMatMul-17: one product for each group. f16 and bf16 in f32.

use super::matmul::{Factor, Shape};
use crate::dispatch::kernel_for;
use crate::ops::convert::Halves;
use crate::prelude::*;
use infer::ops::grouped_matmul::GroupedMatMul;
use std::marker::PhantomData;

impl Lower for GroupedMatMul {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let groups = Groups { a: cx.sizes(0).into(), b: cx.sizes(1).into() };
        let element_type = cx.element_type(0);
        if let Some(halves) = Halves::of(element_type) {
            return Ok(Box::new(Half { groups, halves }));
        }
        kernel_for!(cx, 0, number T => Grouped::<T> { groups, of: PhantomData })
    }
}

/// The sizes of the operands.
struct Groups {
    a: Sizes,
    b: Sizes,
}

impl Groups {
    fn run<T: Factor>(
        &self,
        cx: &RunCx<'_>,
        a: &[T],
        b: &[T],
        c: &mut [T],
    ) -> Result<(), KernelError> {
        let &[tokens, depth] = &self.a[..] else {
            T::products(&Shape::new(&self.a, &self.b, false, true), cx, a, b, c);
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
            T::products(&shape, cx, a, b, &mut c[start * width..end * width]);
            start = end;
        }
        // Tokens of no group.
        c[start * width..].fill(T::default());
        Ok(())
    }
}

struct Grouped<T> {
    groups: Groups,
    of: PhantomData<T>,
}

impl<T: Factor> Kernel for Grouped<T> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let c = cx.output::<T>(0);
        self.groups.run(cx, cx.input(0), cx.input(1), c)
    }

    fn name(&self) -> &'static str {
        "grouped matmul"
    }
}

/// f16 or bf16, computed in f32 and rounded once.
struct Half {
    groups: Groups,
    halves: Halves,
}

impl Kernel for Half {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let (a, b) = (self.halves.widen(cx, 0), self.halves.widen(cx, 1));
        let to = cx.output_bytes(0);
        let mut c = cx.scratch::<f32>(to.len() / 2);
        self.groups.run(cx, &a, &b, &mut c)?;
        self.halves.narrow(cx.threads(), &c, to);
        Ok(())
    }

    fn name(&self) -> &'static str {
        "grouped matmul"
    }
}
