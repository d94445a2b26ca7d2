//! MaxPool-1, -8, -14 and AvgPool-1, -14, -16; f16 and bf16 are computed in f32, integers in 64
//! bits.

use crate::kernel::lanes::Lanes;
use crate::prelude::*;
use crate::tensor::dispatch::with_type;
use infer::ops::pool::Pool as Rule;
use infer::rules::window::Window as RuleWindow;
use kernels::gemm::Window;
use kernels::num::{Stored, Wide as _};
use kernels::pool::{Axis, Pool, Pooled, Pooling};
use std::marker::PhantomData;

impl Lower for Rule {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let data = cx.sizes(0);
        let (axes, pooling) = geometry(self, data, cx.output_sizes(0)?);
        let pool = Pool::new(axes.map(|axis| Axis::sliding(&axis)));
        let modulus = data[self.first_axis(data.len())?..].iter().product();
        lower(cx, pool, pooling, modulus)
    }
}

/// Windows and kind of a pooling, for these sizes of data and output.
pub(crate) fn geometry(rule: &Rule, data: &[usize], output: &[usize]) -> ([Window; 3], Pooling) {
    let windows = rule.windows().iter().zip(rule.kernel());
    let sizes = data[2..].iter().zip(&output[2..]);
    let mut axes = [Window::NONE; 3];
    let mut pads = Vec::new();
    let unused = axes.len() - rule.windows().len();
    for ((axis, (window, taps)), (input, output)) in
        axes[unused..].iter_mut().zip(windows).zip(sizes)
    {
        pads.push(window.pads(*input as i64, *taps));
        *axis = kernel_window(window, *input, *output, *taps);
    }
    let pooling = if rule.is_max() {
        Pooling::Max
    } else {
        Pooling::Mean(rule.divisor(&pads).map(|n| n as usize))
    };
    (axes, pooling)
}

/// A window along an axis of known size.
pub(crate) fn kernel_window(rule: &RuleWindow, input: usize, output: usize, taps: i64) -> Window {
    Window {
        input,
        output,
        taps: taps as usize,
        stride: rule.stride as usize,
        dilation: rule.dilation as usize,
        start: -rule.pads(input as i64, taps).0 as isize,
    }
}

/// The kernel of a pooling. A second output is that of indices, which restart every `modulus`
/// elements.
pub(crate) fn lower(
    cx: &LowerCx<'_>,
    pool: Pool,
    pooling: Pooling,
    modulus: usize,
) -> Result<Box<dyn Kernel>, LowerError> {
    with_type!(cx.element_type(0), number T => {
        let pool = pool.above(T::LOWEST.widen().narrow());
        let lanes = Lanes::of::<T>();
        match (cx.output_count(), cx.output_type(1)) {
            (2, ElementType::I32) => {
                Box::new(ArgMax { pool, modulus, lanes, of: PhantomData::<i32> }) as Box<dyn Kernel>
            }
            (2, _) => Box::new(ArgMax { pool, modulus, lanes, of: PhantomData::<i64> }),
            _ => Box::new(PoolKernel { pool, pooling, lanes }),
        }
    })
    .ok_or_else(|| LowerError::element_type(0, cx.element_type(0)))
}

struct PoolKernel<L> {
    pool: Pool,
    pooling: Pooling,
    lanes: Lanes<L>,
}

impl<L: Pooled> Kernel for PoolKernel<L> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let from = self.lanes.input(cx, 0);
        self.lanes.output(cx, 0, |cx, to| {
            self.pool.run(cx.threads(), self.pooling, &from, to);
        });
        Ok(())
    }

    fn name(&self) -> &'static str {
        "pool"
    }
}

struct ArgMax<L, I> {
    pool: Pool,
    modulus: usize,
    lanes: Lanes<L>,
    of: PhantomData<I>,
}

impl<L: Pooled, I: Stored> Kernel for ArgMax<L, I> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let from = self.lanes.input(cx, 0);
        let indices = cx.output::<I>(1);
        self.lanes.output(cx, 0, |cx, to| {
            self.pool.arg_max(cx.threads(), self.modulus, &from, (to, indices));
        });
        Ok(())
    }

    fn name(&self) -> &'static str {
        "pool with indices"
    }
}
