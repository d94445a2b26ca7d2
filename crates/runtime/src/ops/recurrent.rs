//! Recurrent cells and sequences: packed GEMM for f32, also for f16 and bf16; a plain loop for f64.

use crate::kernel::lanes::Halves;
use crate::kernel::prepack::Prepacked;
use crate::prelude::*;
use infer::ops::recurrent::{Activation, Cell, Port, Recurrent};
use kernels::Packer;
use kernels::Scratch;
use kernels::copy::CopyPlan;
use kernels::gemm::{Layout, MEMORY_BOUND_ROWS, Packed, Precision, Rhs, RhsSize, panels_len};
use kernels::num::UnalignedF32;
use kernels::recurrent as k;
use kernels::unary::Unary;

impl Lower for Recurrent {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let plan = CellPlan::new(self, cx);
        let element_type = cx.element_type(0);
        if element_type == ElementType::F64 {
            return Ok(Box::new(Double { plan }));
        }
        let halves = Halves::of(element_type);
        if halves.is_none() && element_type != ElementType::F32 {
            return Err(LowerError::element_type(0, element_type));
        }
        let packs = plan.of.batch * plan.of.steps > MEMORY_BOUND_ROWS;
        let weights = Weights::new(cx, &plan.weights, packs);
        let recurrent = Weights::new(cx, &plan.recurrent, packs);
        Ok(Box::new(Float { plan, halves, weights, recurrent }))
    }
}

/// Matrices stacked in an input.
#[derive(Clone)]
struct Stack {
    input: usize,
    /// Columns of each matrix.
    width: usize,
    /// First row and number of rows of each matrix.
    parts: Vec<(usize, usize)>,
}

impl Stack {
    fn new(input: usize, width: usize, rows: impl Iterator<Item = usize>) -> Stack {
        let part = |first: &mut usize, rows: usize| {
            *first += rows;
            Some((*first - rows, rows))
        };
        Stack { input, width, parts: rows.scan(0, part).collect() }
    }
}

/// The recurrence, and the roles of inputs and outputs.
struct CellPlan {
    of: k::Recurrence,
    hidden: usize,
    cell: Option<usize>,
    lengths: Option<usize>,
    weights: Stack,
    recurrent: Stack,
    biases: Option<usize>,
    scores: Option<usize>,
    /// Whether output 0 holds the states of all steps.
    has_every: bool,
}

impl CellPlan {
    fn new(op: &Recurrent, cx: &LowerCx<'_>) -> CellPlan {
        let x = cx.sizes(0);
        let (batch, width) = (x[0], x[x.len() - 1]);
        let steps = if op.is_sequence() { x[1] } else { 1 };
        let cell = match op.cell() {
            Cell::Rnn => k::Cell::Rnn,
            Cell::Gru => k::Cell::Gru,
            Cell::LinearGru => k::Cell::LinearGru,
            Cell::Lstm => k::Cell::Lstm,
        };
        let function = |i: usize| match op.activations().get(i) {
            Some(Activation::Relu) => Unary::Relu {},
            Some(Activation::Sigmoid) => Unary::Sigmoid {},
            Some(Activation::Tanh) => Unary::Tanh {},
            None => Unary::Identity {},
        };
        let (hidden, directions) = (op.hidden_size(), op.directions());
        let of = k::Recurrence {
            cell,
            functions: std::array::from_fn(function),
            clip: op.clip(),
            batch,
            steps,
            width,
            hidden,
            directions,
        };
        let port = |port: Port| op.port(port).filter(|i| *i < cx.input_count());
        let gemms = || directions.iter().flat_map(|_| cell.gemms());
        let gates = directions.iter().map(|_| cell.gates() * hidden);
        CellPlan {
            of,
            hidden: port(Port::Hidden).unwrap_or_default(),
            cell: port(Port::Cell),
            lengths: port(Port::Lengths),
            weights: Stack::new(port(Port::W).unwrap_or_default(), width, gates),
            recurrent: Stack::new(
                port(Port::R).unwrap_or_default(),
                hidden,
                gemms().map(|gates| gates * hidden),
            ),
            biases: port(Port::B),
            scores: port(Port::Attention),
            has_every: op.is_sequence(),
        }
    }

    /// Number of outputs.
    fn outputs(&self) -> usize {
        1 + usize::from(self.has_every) + usize::from(self.cell.is_some())
    }

    /// The number of steps of each sequence.
    fn lengths(&self, cx: &RunCx<'_>) -> Result<Vec<usize>, KernelError> {
        let steps = self.of.steps;
        let Some(input) = self.lengths else { return Ok(vec![steps; self.of.batch]) };
        let length = |(row, found): (usize, i64)| {
            usize::try_from(found).ok().filter(|l| *l <= steps).ok_or_else(|| {
                let message = format!("sequence {row} has {found} steps, the data has {steps}");
                KernelError::at(input, message)
            })
        };
        cx.ints(input).into_iter().enumerate().map(length).collect()
    }

    /// Runs with prepared matrices; `input` gives the values of an input.
    fn run<'a, 'm, R: k::Number>(
        &self,
        cx: &RunCx<'_>,
        input: impl Fn(usize) -> &'a [R],
        (weights, recurrent): (&[R::Matrix<'m>], &[R::Matrix<'m>]),
        outputs: Vec<&mut [R]>,
    ) -> Result<(), KernelError> {
        let lengths = self.lengths(cx)?;
        let all = self.of.directions.len() * self.of.cell.biases() * self.of.hidden;
        let mut none = cx.scratch::<R>(if self.biases.is_some() { 0 } else { all });
        none.fill(R::default());
        let optional = |port: Option<usize>| port.map_or(&[][..], &input);
        let operands = k::Operands {
            x: input(0),
            hidden: input(self.hidden),
            cell: optional(self.cell),
            lengths: &lengths,
            weights,
            recurrent,
            biases: self.biases.map_or(&none[..], |i| input(i)),
            scores: optional(self.scores),
        };
        let mut outputs = outputs.into_iter();
        let mut next = |there: bool| outputs.by_ref().take(usize::from(there)).next();
        let every = next(self.has_every).unwrap_or_default();
        let hidden = next(true).unwrap_or_default();
        let cell = next(self.cell.is_some()).unwrap_or_default();
        let outputs = k::Outputs { every, hidden, cell };
        self.of.run(cx.threads(), cx.scratch_pool(), &operands, outputs);
        Ok(())
    }
}

/// f32 matrices, packed once if they are the same in every run.
struct Weights {
    stack: Stack,
    /// Whether there are enough rows for packing to pay.
    packs: bool,
    packed: Prepacked<Vec<Packed>>,
}

impl Weights {
    fn new(cx: &LowerCx<'_>, stack: &Stack, packs: bool) -> Weights {
        let packed = Prepacked::new(stack.input, packs && cx.is_invariant(stack.input));
        Weights { stack: stack.clone(), packs, packed }
    }

    fn layout(&self) -> Layout {
        Layout::Columns { stride: self.stack.width }
    }

    fn pack(&self, to: Packer<'_>, values: &[f32]) -> Vec<Packed> {
        let width = self.stack.width;
        let pack = |(first, rows): &(usize, usize)| {
            let own = UnalignedF32::of(&values[first * width..]);
            Packed::new(to, own, self.layout(), RhsSize { k: width, n: *rows }, Precision::F32)
        };
        self.stack.parts.iter().map(pack).collect()
    }

    /// Bytes of the packed matrices, which the first run makes.
    fn packed_bytes(&self) -> usize {
        let of = |(_, rows): &(usize, usize)| panels_len(self.stack.width, *rows, Precision::F32);
        let lanes: usize = self.stack.parts.iter().map(of).sum();
        if self.packs { lanes * size_of::<f32>() } else { 0 }
    }

    /// The matrices of a run; `space` holds those packed for this run only.
    fn matrices<'a>(
        &'a self,
        cx: &RunCx<'_>,
        values: &'a [f32],
        space: &'a mut Vec<Packed>,
    ) -> Vec<Rhs<'a>> {
        if !self.packs {
            let part = |(first, _): &(usize, usize)| {
                Rhs::Unpacked(UnalignedF32::of(&values[first * self.stack.width..]), self.layout())
            };
            return self.stack.parts.iter().map(part).collect();
        }
        let pack = || self.pack(cx.to_arena(), values);
        let packed = match self.packed.now(cx, || format!("{:?}", self.stack.parts), pack) {
            Some(packed) => packed,
            None => {
                *space = self.pack(Packer::unpooled(cx.threads()), values);
                space
            }
        };
        packed.iter().map(Rhs::Packed).collect()
    }
}

/// f32; f16 and bf16 are converted to f32, and rounded once at the end.
struct Float {
    plan: CellPlan,
    halves: Option<Halves>,
    weights: Weights,
    recurrent: Weights,
}

impl Float {
    /// The inputs converted to f32, by index, without those that are packed already.
    fn widened<'r>(&self, halves: &Halves, cx: &RunCx<'r>) -> Vec<Option<Scratch<'r, f32>>> {
        let is_needed = |input: &usize| {
            let ahead = |w: &Weights| w.stack.input == *input && w.packed.made().is_some();
            Some(*input) != self.plan.lengths && !ahead(&self.weights) && !ahead(&self.recurrent)
        };
        let widen = |input: usize| Some(input).filter(is_needed).map(|i| halves.widen(cx, i));
        (0..cx.input_count()).map(widen).collect()
    }

    fn compute<'a>(
        &self,
        cx: &RunCx<'_>,
        input: impl Fn(usize) -> &'a [f32],
        outputs: Vec<&mut [f32]>,
    ) -> Result<(), KernelError> {
        let (mut first, mut second) = (Vec::new(), Vec::new());
        let (w, r) = (&self.weights, &self.recurrent);
        let w = w.matrices(cx, input(w.stack.input), &mut first);
        let r = r.matrices(cx, input(r.stack.input), &mut second);
        self.plan.run(cx, |i| input(i), (&w, &r), outputs)
    }
}

impl Kernel for Float {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let count = self.plan.outputs();
        let Some(halves) = &self.halves else {
            let outputs = (0..count).map(|i| cx.output(i)).collect();
            return self.compute(cx, |i| cx.input(i), outputs);
        };
        let rounded: Vec<&mut [u8]> = (0..count).map(|i| cx.output_bytes(i)).collect();
        let mut exact: Vec<Scratch<'_, f32>> =
            rounded.iter().map(|to| cx.scratch(to.len() / 2)).collect();
        let wide = self.widened(halves, cx);
        let input = |i: usize| wide[i].as_deref().unwrap_or_default();
        self.compute(cx, input, exact.iter_mut().map(|to| &mut to[..]).collect())?;
        for (from, to) in exact.iter().zip(rounded) {
            halves.narrow(cx.threads(), from, to);
        }
        Ok(())
    }

    fn flops(&self) -> u64 {
        self.plan.of.flops()
    }

    fn memory(&self, threads: usize) -> KernelMemory {
        let kept = self.weights.packed_bytes() + self.recurrent.packed_bytes();
        KernelMemory { kept, passing: self.plan.of.scratch_bytes::<f32>(threads) }
    }

    fn name(&self) -> &'static str {
        "recurrent"
    }
}

struct Double {
    plan: CellPlan,
}

impl Kernel for Double {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let outputs = (0..self.plan.outputs()).map(|i| cx.output::<f64>(i)).collect();
        let transposed = |stack: &Stack| -> Vec<Scratch<'_, f64>> {
            let values = cx.input::<f64>(stack.input);
            let transpose = |(first, rows): &(usize, usize)| {
                let mut to = cx.scratch(rows * stack.width);
                let from = &values[first * stack.width..][..to.len()];
                CopyPlan::transpose(&[*rows, stack.width], &[1, 0]).run(
                    cx.threads(),
                    from,
                    &mut to,
                );
                to
            };
            stack.parts.iter().map(transpose).collect()
        };
        let (weights, recurrent) =
            (transposed(&self.plan.weights), transposed(&self.plan.recurrent));
        let weights: Vec<&[f64]> = weights.iter().map(|w| &w[..]).collect();
        let recurrent: Vec<&[f64]> = recurrent.iter().map(|r| &r[..]).collect();
        self.plan.run(cx, |i| cx.input(i), (&weights, &recurrent), outputs)
    }

    fn flops(&self) -> u64 {
        self.plan.of.flops()
    }

    fn name(&self) -> &'static str {
        "recurrent"
    }
}
