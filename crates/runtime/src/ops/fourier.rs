//! DFT, IDFT, RDFT and IRDFT: axis by axis, in f64.

use crate::kernel::dispatch::kernel_for;
use crate::prelude::*;
use infer::ops::fourier::{Fourier, Kind};
use kernels::Scratch;
use kernels::fft::{AxisTransform, Complex, Direction, Elements, Fft};
use kernels::real::StoredReal;
use std::marker::PhantomData;

/// The longest transform. Each has tables, so longer ones are rejected before those are made.
const MAX_ELEMENTS: usize = 1 << 28;

impl Lower for Fourier {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let axes = self.axes(&cx.ints(1)?, cx.sizes(0).len())?;
        let mut sizes = cx.sizes(0).to_vec();
        if self.kind() != Kind::Rdft {
            sizes.pop();
        }
        let output = cx.output_sizes(0)?;
        let mut order: Vec<usize> = (0..axes.len()).collect();
        if self.kind() == Kind::Rdft {
            // The real axis first: it halves the work of the other axes.
            order.reverse();
        }
        let mut passes = Vec::new();
        for i in order {
            let (axis, last) = (axes[i], i + 1 == axes.len());
            let direction = match self.kind() {
                Kind::Dft | Kind::Rdft => Direction::Forward,
                Kind::Irdft if last => Direction::Hermitian,
                Kind::Idft | Kind::Irdft => Direction::Inverse,
            };
            let len = match self.kind() {
                Kind::Rdft if last => real_length(cx, i, sizes[axis])?,
                _ => output[axis],
            };
            if len > MAX_ELEMENTS {
                return Err(LowerError::Unsupported(format!("{len} elements are too many")));
            }
            passes.push(AxisTransform {
                outer: sizes[..axis].iter().product(),
                input: sizes[axis],
                output: output[axis],
                inner: sizes[axis + 1..].iter().product(),
                fft: Fft::new(len),
                direction,
            });
            sizes[axis] = output[axis];
        }
        // Without axes, elements are copied.
        let last = passes.pop().unwrap_or_else(|| AxisTransform {
            outer: sizes.iter().product(),
            input: 1,
            output: 1,
            inner: 1,
            fft: Fft::new(1),
            direction: Direction::Forward,
        });
        let (pairs_in, pairs_out) = (self.kind() != Kind::Rdft, self.kind() != Kind::Irdft);
        kernel_for!(cx, 0, float T => {
            FourierKernel::<T> { passes, last, pairs_in, pairs_out, of: PhantomData }
        })
    }
}

/// The length of the real transform along axis number `i`, of `size` elements.
fn real_length(cx: &LowerCx<'_>, i: usize, size: usize) -> Result<usize, LowerError> {
    if cx.input_count() < 3 {
        return Ok(size);
    }
    Ok(cx.ints(2)?.get(i).and_then(|n| usize::try_from(*n).ok()).unwrap_or(size))
}

struct FourierKernel<T> {
    passes: Vec<AxisTransform>,
    /// The transform after `passes`.
    last: AxisTransform,
    pairs_in: bool,
    pairs_out: bool,
    of: PhantomData<T>,
}

impl<T: StoredReal> Kernel for FourierKernel<T> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let (given, to): (&[T], &mut [T]) = (cx.input(0), cx.output(0));
        let given = if self.pairs_in { Elements::Pairs(given) } else { Elements::Reals(given) };
        let to = if self.pairs_out { Elements::Pairs(to) } else { Elements::Reals(to) };
        let mut done: Option<Scratch<'_, Complex>> = None;
        for pass in &self.passes {
            let mut next = cx.scratch(pass.count());
            let from = done.as_ref().map_or(given, |done| Elements::Complex(&done[..]));
            pass.run(cx.threads(), from, Elements::Complex(&mut next[..]));
            done = Some(next);
        }
        let from = done.as_ref().map_or(given, |done| Elements::Complex(&done[..]));
        self.last.run(cx.threads(), from, to);
        Ok(())
    }

    fn name(&self) -> &'static str {
        "fourier"
    }
}
