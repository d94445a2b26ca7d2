//! Einsum-7: multiplies the operands one by one. Each step is a batched GEMM: labels of both
//! operands that are needed later are batch axes, labels of both that are not are summed (k). f16
//! and bf16 are computed in f32.

use super::matmul::{Factor, Shape};
use crate::kernel::dispatch::kernel_for;
use crate::kernel::lanes::Lanes;
use crate::prelude::*;
use infer::ops::einsum::Einsum as Rule;
use kernels::Scratch;
use kernels::arithmetic::Arithmetic;
use kernels::copy::{CopyPlan, dense_strides};
use kernels::num::Stored;
use kernels::reduce::{ReducePlan, Reduction, Scale};

impl Lower for Rule {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let ranks: Vec<usize> = (0..cx.input_count()).map(|i| cx.sizes(i).len()).collect();
        let (labels, output) = self.axes(&ranks)?;
        let element_type = cx.element_type(0);
        let transposed = element_type.is_real() && element_type != ElementType::F64;
        let plan = Contractions::new(views(cx, &labels), &output, transposed)?;
        kernel_for!(cx, 0, number T => Einsum { plan, lanes: Lanes::of::<T>() })
    }
}

/// The most elements of an intermediate result.
const MAX_INTERMEDIATE_ELEMENTS: u64 = 1 << 32;

/// One axis of an operand: its label, size and stride.
#[derive(Clone, Copy)]
struct Axis {
    label: usize,
    size: usize,
    stride: isize,
}

/// The axes of an operand, each label once.
type View = Vec<Axis>;

fn has(view: &View, label: usize) -> bool {
    view.iter().any(|axis| axis.label == label)
}

/// The operands. A repeated label in one operand is its diagonal; a broadcast size of 1 is no axis.
fn views(cx: &LowerCx<'_>, labels: &[Vec<usize>]) -> Vec<View> {
    let all = |i: usize| labels[i].iter().zip(cx.sizes(i));
    let repeated = |label: usize, size: usize| {
        size == 1 && (0..labels.len()).flat_map(all).any(|(l, s)| *l == label && *s != 1)
    };
    let view = |i: usize| {
        let mut view = View::new();
        for ((&label, &size), stride) in all(i).zip(dense_strides(cx.sizes(i))) {
            match view.iter_mut().find(|axis| axis.label == label) {
                Some(axis) => axis.stride += stride,
                None if repeated(label, size) => {}
                None => view.push(Axis { label, size, stride }),
            }
        }
        view
    };
    (0..labels.len()).map(view).collect()
}

/// An operand prepared for a GEMM: the order of its axes, and the axes summed first.
struct Stage {
    copy: CopyPlan,
    sum: Option<ReducePlan>,
    sizes: Vec<usize>,
}

impl Stage {
    fn new(view: &View, order: &[usize]) -> Stage {
        let kept = order.iter().filter_map(|label| view.iter().find(|axis| axis.label == *label));
        let summed = view.iter().filter(|axis| !order.contains(&axis.label));
        let axes: Vec<&Axis> = kept.chain(summed).collect();
        let sizes: Vec<usize> = axes.iter().map(|axis| axis.size).collect();
        let strides: Vec<isize> = axes.iter().map(|axis| axis.stride).collect();
        let (copy, rank) = (CopyPlan::gather(&sizes, &strides, 0), order.len());
        let sum = (sizes.len() > rank)
            .then(|| ReducePlan::new(&sizes, &(rank..sizes.len()).collect::<Vec<_>>()));
        Stage { copy, sum, sizes: sizes[..rank].to_vec() }
    }

    fn len(&self) -> usize {
        self.sizes.iter().product()
    }

    /// Whether the operand is used as it is.
    fn is_identity(&self) -> bool {
        self.sum.is_none() && self.copy.is_identity()
    }

    fn run<T: Stored>(&self, cx: &RunCx<'_>, from: &[T], to: &mut [T])
    where
        T::Wide: Arithmetic + Scale,
    {
        let Some(sum) = &self.sum else { return self.copy.run(cx.threads(), from, to) };
        let mut space: Scratch<'_, T>;
        let from = if self.copy.is_identity() {
            &from[..self.copy.count()]
        } else {
            space = cx.scratch(self.copy.count());
            self.copy.run(cx.threads(), from, &mut space);
            &space
        };
        sum.run(cx.threads(), Reduction::Sum, from, to);
    }

    /// The prepared operand, in `space` if it must be copied.
    fn arranged<'a, 'p, T: Stored>(
        &self,
        cx: &RunCx<'p>,
        from: &'a [T],
        space: &'a mut Option<Scratch<'p, T>>,
    ) -> &'a [T]
    where
        T::Wide: Arithmetic + Scale,
    {
        if self.is_identity() {
            return from;
        }
        let space = space.insert(cx.scratch(self.len()));
        self.run(cx, from, space);
        space
    }
}

/// The GEMM of the operands so far and the next one.
struct Contraction {
    left: Stage,
    right: Stage,
    shape: Shape,
    len: usize,
}

/// All GEMMs, and the layout of the result.
struct Contractions {
    steps: Vec<Contraction>,
    last: Stage,
}

impl Contractions {
    /// `transposed` says whether right operands may be read transposed.
    ///
    /// # Errors
    /// When an intermediate operand is too large.
    fn new(
        views: Vec<View>,
        output: &[usize],
        transposed: bool,
    ) -> Result<Contractions, LowerError> {
        let mut so_far = views.first().cloned().unwrap_or_default();
        let mut steps = Vec::new();
        for (i, view) in views.iter().enumerate().skip(1) {
            let needed = |label: usize| {
                output.contains(&label) || views[i + 1..].iter().any(|v| has(v, label))
            };
            let labels = |of: &View, other: &View, shared: bool, later: bool| -> Vec<usize> {
                let own = of.iter().map(|axis| axis.label);
                own.filter(|l| has(other, *l) == shared && needed(*l) == later).collect()
            };
            let batch = labels(&so_far, view, true, true);
            let summed = labels(&so_far, view, true, false);
            let rows = labels(&so_far, view, false, true);
            let columns = labels(view, &so_far, false, true);
            let left = Stage::new(&so_far, &[&batch[..], &rows, &summed].concat());
            let mut right = Stage::new(view, &[&batch[..], &columns, &summed].concat());
            let transposed = transposed && right.is_identity();
            if !transposed {
                right = Stage::new(view, &[&batch[..], &summed, &columns].concat());
            }
            so_far = joined(&so_far, view, &[&batch[..], &rows, &columns].concat())?;
            let axes = AxisCounts { batch: batch.len(), rows: rows.len(), columns: columns.len() };
            steps.push(Contraction::new(left, right, axes, transposed));
        }
        Ok(Contractions { steps, last: Stage::new(&so_far, output) })
    }

    fn flops(&self) -> u64 {
        self.steps.iter().map(|step| step.shape.flops()).sum()
    }

    fn run<T: Factor>(&self, cx: &RunCx<'_>, inputs: &[&[T]], output: &mut [T])
    where
        T::Wide: Arithmetic + Scale,
    {
        let mut held: Option<Scratch<'_, T>> = None;
        for (step, input) in self.steps.iter().zip(&inputs[1..]) {
            let (mut a, mut b) = (None, None);
            let so_far = held.as_deref().unwrap_or(inputs[0]);
            let left = step.left.arranged(cx, so_far, &mut a);
            let right = step.right.arranged(cx, input, &mut b);
            let mut c = cx.scratch::<T>(step.len);
            T::multiply(&step.shape, cx, left, right, &mut c);
            held = Some(c);
        }
        self.last.run(cx, held.as_deref().unwrap_or(inputs[0]), output);
    }
}

/// How many axes of its operands become each axis of a GEMM.
#[derive(Clone, Copy)]
struct AxisCounts {
    batch: usize,
    rows: usize,
    columns: usize,
}

impl Contraction {
    /// The GEMM with these numbers of axes.
    fn new(
        left: Stage,
        right: Stage,
        AxisCounts { batch, rows, columns }: AxisCounts,
        transposed: bool,
    ) -> Contraction {
        let size = |sizes: &[usize]| sizes.iter().product::<usize>();
        let (count, m) = (size(&left.sizes[..batch]), size(&left.sizes[batch..batch + rows]));
        let k = size(&left.sizes[batch + rows..]);
        let summed = left.sizes.len() - batch - rows;
        let n = size(if transposed {
            &right.sizes[batch..batch + columns]
        } else {
            &right.sizes[batch + summed..]
        });
        let b = if transposed { [count, n, k] } else { [count, k, n] };
        let shape = Shape::new(&[count, m, k], &b, false, transposed);
        Contraction { left, right, shape, len: count * m * n }
    }
}

/// A dense intermediate operand, with axes of two operands.
///
/// # Errors
/// When it is too large.
fn joined(a: &View, b: &View, order: &[usize]) -> Result<View, LowerError> {
    let size = |label: &usize| {
        a.iter().chain(b).find(|axis| axis.label == *label).map_or(1, |axis| axis.size)
    };
    let sizes: Vec<usize> = order.iter().map(size).collect();
    let count = sizes.iter().try_fold(1u64, |count, size| count.checked_mul(*size as u64));
    if count.is_none_or(|count| count > MAX_INTERMEDIATE_ELEMENTS) {
        let message = format!("a product of sizes {sizes:?} is too large");
        return Err(LowerError::Unsupported(message));
    }
    let axes = order.iter().zip(&sizes).zip(dense_strides(&sizes));
    Ok(axes.map(|((&label, &size), stride)| Axis { label, size, stride }).collect())
}

struct Einsum<L> {
    plan: Contractions,
    lanes: Lanes<L>,
}

impl<L: Factor<Wide: Arithmetic + Scale>> Kernel for Einsum<L> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let inputs: Vec<_> = (0..cx.input_count()).map(|i| self.lanes.input(cx, i)).collect();
        let inputs: Vec<&[L]> = inputs.iter().map(|input| &input[..]).collect();
        self.lanes.output(cx, 0, |cx, output| self.plan.run(cx, &inputs, output));
        Ok(())
    }

    fn flops(&self) -> u64 {
        self.plan.flops()
    }

    fn name(&self) -> &'static str {
        "einsum"
    }
}
