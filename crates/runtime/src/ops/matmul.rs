//! MatMul-1: packed GEMM for f32, also for f16 and bf16; a plain loop for other types.

use crate::kernel::batch::{broadcast_shape, offsets};
use crate::kernel::compressed_weights::{self, Panels, Weights};
use crate::kernel::dispatch::kernel_for;
use crate::kernel::lanes::Lanes;
use crate::kernel::post_ops::{PostOp, bound};
use crate::kernel::prepack::Prepacked;
use crate::prelude::*;
use infer::InputSet;
use infer::ops::matmul::MatMul;
use kernels::arithmetic::Arithmetic;
use kernels::copy::{CopyPlan, dense_strides};
use kernels::gemm::{
    self, Gemm, GemmSize, GroupedGemm, Layout, Lhs, Packed, Precision, Rhs, RhsSize, plain,
    run_grouped, run_many,
};
use kernels::num::{Stored, UnalignedF32};
use std::sync::Arc;

impl Lower for MatMul {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let (a, b) = (cx.sizes(0), cx.sizes(1));
        let (transpose_a, transpose_b) = self.transposed(a.len(), b.len());
        let shape = Shape::new(a, b, transpose_a, transpose_b).with_precision(cx.precision());
        let element_type = cx.element_type(0);
        match element_type {
            ElementType::F32 => Ok(Box::new(Float32::new(shape, cx, Vec::new()))),
            _ => kernel_for!(cx, 0, number T => NaiveMatMul { shape, lanes: Lanes::of::<T>() }),
        }
    }
}

/// The first elements of the operands of a GEMM.
#[derive(Clone, Copy)]
struct Offsets {
    a: usize,
    b: usize,
}

/// The GEMMs that a MatMul consists of.
pub(crate) struct Shape {
    m: usize,
    n: usize,
    k: usize,
    transpose_a: bool,
    transpose_b: bool,
    /// For each GEMM where its operands begin.
    batches: Vec<Offsets>,
    precision: Precision,
}

impl Shape {
    pub(crate) fn new(a: &[usize], b: &[usize], transpose_a: bool, transpose_b: bool) -> Shape {
        let matrix = |sizes: &[usize], row: bool| -> Vec<usize> {
            match (sizes, row) {
                ([one], true) => vec![1, *one],
                ([one], false) => vec![*one, 1],
                (many, _) => many.to_vec(),
            }
        };
        let (a, b) = (matrix(a, true), matrix(b, false));
        let split = |sizes: &[usize], transpose: bool| {
            let (r, c) = (sizes[sizes.len() - 2], sizes[sizes.len() - 1]);
            if transpose { (c, r) } else { (r, c) }
        };
        let precision = Precision::F32;
        let ((m, k), (_, n)) = (split(&a, transpose_a), split(&b, transpose_b));
        let (outer_a, outer_b) = (&a[..a.len() - 2], &b[..b.len() - 2]);
        // Batches that share B are one GEMM with more rows.
        if outer_b.iter().all(|s| *s == 1) && !transpose_a {
            let m = m * outer_a.iter().product::<usize>();
            let batches = vec![Offsets { a: 0, b: 0 }];
            return Shape { m, n, k, transpose_a, transpose_b, batches, precision };
        }
        let all = broadcast_shape(&[outer_a, outer_b]);
        let batches = offsets(&all, outer_a, m * k).into_iter().zip(offsets(&all, outer_b, k * n));
        let batches = batches.map(|(a, b)| Offsets { a, b }).collect();
        Shape { m, n, k, transpose_a, transpose_b, batches, precision }
    }

    /// The same GEMMs in a precision; for real element types.
    pub(crate) fn with_precision(self, precision: Precision) -> Shape {
        Shape { precision, ..self }
    }

    fn layout(&self) -> Layout {
        if self.transpose_b {
            Layout::Columns { stride: self.k }
        } else {
            Layout::Rows { stride: self.n }
        }
    }

    /// A in row-major order, transposed into `space` if needed.
    fn row_major_a<'a>(&self, cx: &RunCx<'_>, a: &'a [f32], space: &'a mut [f32]) -> &'a [f32] {
        if !self.transpose_a {
            return a;
        }
        let (m, k) = (self.m, self.k);
        let count = a.len() / (m * k).max(1);
        CopyPlan::transpose(&[count, k, m], &[0, 2, 1]).run(cx.threads(), a, space);
        space
    }

    /// Bytes of scratch memory of a run with a B that is not packed.
    fn scratch_bytes(&self, threads: usize) -> usize {
        let Shape { m, n, k, precision, .. } = *self;
        let transposed = if self.transpose_a { self.batches.len() * m * k } else { 0 };
        let a = Lhs::Rows { values: &[], stride: k };
        let b = Rhs::Unpacked(UnalignedF32::of(&[]), self.layout());
        let gemm = Gemm { m, n, k, a, b, c_stride: n, precision, post_ops: &[] };
        transposed * size_of::<f32>() + gemm.scratch_bytes(threads)
    }

    /// Whether all GEMMs share B. Then B is worth packing if it is the same in every run.
    fn packs(&self) -> bool {
        self.batches.len() == 1
    }

    /// Whether it is a single GEMM that reads A without a transpose.
    pub(crate) fn reads_through(&self) -> bool {
        self.packs() && !self.transpose_a && self.n > 0 && self.k > 0
    }

    /// Rows of A.
    pub(crate) fn rows(&self) -> usize {
        self.m
    }

    /// Floating-point operations.
    pub(crate) fn flops(&self) -> u64 {
        [2, self.batches.len(), self.m, self.n, self.k].iter().map(|n| *n as u64).product()
    }

    /// Elements along k.
    pub(crate) fn terms(&self) -> usize {
        self.k
    }

    fn run<'b>(
        &self,
        cx: &RunCx<'_>,
        a: &[f32],
        right: impl Fn(usize) -> Rhs<'b> + Sync,
        post_ops: &[gemm::PostOp<'_>],
        c: &mut [f32],
    ) {
        let mut space = cx.scratch::<f32>(if self.transpose_a { a.len() } else { 0 });
        let a = self.row_major_a(cx, a, &mut space);
        let (m, n, k) = (self.m, self.n, self.k);
        let one_by_one = self.batches.len() < 2 * cx.threads().count();
        let own = |i: usize| post_ops.iter().map(|s| s.from_row(i * m)).collect::<Vec<_>>();
        let all: Vec<Vec<gemm::PostOp<'_>>> = (0..self.batches.len()).map(own).collect();
        let gemm = |i: usize| {
            let (values, b) = (&a[self.batches[i].a..], right(self.batches[i].b));
            let gemm = Gemm {
                m,
                n,
                k,
                a: Lhs::Rows { values, stride: k },
                b,
                c_stride: n,
                precision: self.precision,
                post_ops: &all[i],
            };
            as_row(gemm, values).unwrap_or(gemm)
        };
        if !one_by_one && m * n > 0 {
            let (threads, scratch) = (cx.threads(), cx.scratch_pool());
            return run_many(threads, scratch, self.batches.len(), gemm, c);
        }
        for (i, c) in (0..self.batches.len()).zip(c.chunks_mut((m * n).max(1))) {
            gemm(i).run(cx.threads(), cx.scratch_pool(), c);
        }
    }

    /// The GEMMs of element types other than f32.
    fn run_naive<T: Stored>(&self, cx: &RunCx<'_>, a: &[T], b: &[T], c: &mut [T])
    where
        T::Wide: Arithmetic,
    {
        let Shape { m, n, k, transpose_a, transpose_b, ref batches, .. } = *self;
        let mut left = cx.scratch::<T>(m * k);
        let mut right = cx.scratch::<T>(k * n);
        let transpose = |transpose: bool, from: &[T], rows: usize, columns: usize, to: &mut [T]| {
            let sizes = [rows, columns];
            let strides = if transpose { vec![1, rows as isize] } else { dense_strides(&sizes) };
            CopyPlan::gather(&sizes, &strides, 0).run(cx.threads(), from, to);
        };
        for (at, c) in batches.iter().zip(c.chunks_mut((m * n).max(1))) {
            transpose(transpose_a, &a[at.a..], m, k, &mut left);
            transpose(transpose_b, &b[at.b..], k, n, &mut right);
            plain(cx.threads(), GemmSize { m, n, k }, &left, &right, c);
        }
    }
}

/// A matrix times a column, as the transposed product: a row times the unpacked matrix. A packed
/// panel would hold a single column. The sums are the same.
fn as_row<'a>(gemm: Gemm<'a>, matrix: &'a [f32]) -> Option<Gemm<'a>> {
    let Gemm { m, n, k, b: Rhs::Unpacked(column, _), .. } = gemm else { return None };
    let is_plain = gemm.post_ops.is_empty() && gemm.precision == Precision::F32;
    let values = UnalignedF32::aligned(column).filter(|_| n == 1 && is_plain)?;
    let b = Rhs::Unpacked(UnalignedF32::of(matrix), Layout::Columns { stride: k });
    Some(Gemm { m: 1, n: m, a: Lhs::Rows { values, stride: k }, b, c_stride: m, ..gemm })
}

/// f32 MatMuls with post-ops.
pub(crate) struct Float32 {
    shape: Shape,
    post_ops: Vec<PostOp>,
    /// The input that is B; its scales and zero points follow if it is compressed.
    b: usize,
    right: B,
    /// The index map through which A is read, if it is not contiguous.
    pub(crate) through: Option<Through>,
}

/// An operand that is read at the source of its movements.
#[derive(Clone)]
pub(crate) struct Through {
    /// Its shape.
    pub(crate) sizes: Sizes,
    /// The runs of all rows, row by row, as multiples of `run`.
    pub(crate) runs: Arc<[u32]>,
    /// Elements of a run.
    pub(crate) run: usize,
}

/// How B is stored.
enum B {
    /// f32; packed for later runs if it is the same in every run.
    Float(Prepacked<Packed>),
    /// Compressed.
    Compressed(Box<Panels>),
}

/// B in a run.
enum WeightsOperand<'a> {
    Unpacked(&'a [UnalignedF32], Layout),
    Packed(&'a Packed),
    Compressed(compressed_weights::RhsOperand<'a>),
}

impl WeightsOperand<'_> {
    /// B of the GEMM at this offset.
    fn rhs(&self, at: usize) -> Rhs<'_> {
        match self {
            WeightsOperand::Unpacked(b, layout) => Rhs::Unpacked(&b[at..], *layout),
            WeightsOperand::Packed(packed) => Rhs::Packed(packed),
            WeightsOperand::Compressed(weights) => weights.rhs(),
        }
    }
}

impl Float32 {
    pub(crate) fn new(shape: Shape, cx: &LowerCx<'_>, post_ops: Vec<PostOp>) -> Float32 {
        Float32::of(shape, cx, 1, post_ops)
    }

    /// The same for a B that is another input.
    pub(crate) fn of(shape: Shape, cx: &LowerCx<'_>, b: usize, post_ops: Vec<PostOp>) -> Float32 {
        let packed = Prepacked::new(b, cx.is_invariant(b) && shape.packs());
        Float32 { shape, post_ops, b, right: B::Float(packed), through: None }
    }

    /// The same MatMul with compressed weights, if there are any.
    pub(crate) fn by(self, weights: Option<&Weights>, cx: &LowerCx<'_>) -> Float32 {
        let Some(weights) = weights else { return self };
        let panels = Panels::new(weights.clone(), self.b, cx.is_invariant(self.b));
        Float32 { right: B::Compressed(Box::new(panels)), ..self }
    }

    /// B in a run.
    fn operand<'a>(&'a self, cx: &'a RunCx<'_>) -> Result<WeightsOperand<'a>, KernelError> {
        let packed = match &self.right {
            B::Float(packed) => packed,
            B::Compressed(panels) => return panels.operand(cx).map(WeightsOperand::Compressed),
        };
        let Shape { n, k, precision, .. } = self.shape;
        let (b, layout) = (cx.input::<UnalignedF32>(self.b), self.shape.layout());
        let layout_key = || format!("{layout:?}");
        let pack = || Packed::new(cx.to_arena(), b, layout, RhsSize { k, n }, precision);
        Ok(packed
            .on_second_use(cx, layout_key, pack)
            .map_or(WeightsOperand::Unpacked(b, layout), WeightsOperand::Packed))
    }

    /// The only GEMM.
    fn one<'a>(
        &self,
        a: Lhs<'a>,
        b: &'a WeightsOperand<'_>,
        post_ops: &'a [gemm::PostOp<'a>],
    ) -> Gemm<'a> {
        let Shape { m, n, k, precision, .. } = self.shape;
        Gemm { m, n, k, a, b: b.rhs(0), c_stride: n, precision, post_ops }
    }

    /// Runs GEMMs with the same A, the first input, as one step. Each may be multiplied by the
    /// result of an earlier one.
    ///
    /// # Errors
    /// Those of the operands.
    pub(crate) fn run_grouped(
        members: &[(Float32, Option<usize>)],
        cx: &RunCx<'_>,
        outputs: &mut [&mut [f32]],
    ) -> Result<(), KernelError> {
        let stride = members.first().map_or(0, |(first, _)| first.shape.k);
        let a = Lhs::Rows { values: cx.input(0), stride };
        let post_ops: Vec<_> =
            members.iter().map(|(m, _)| bound(&m.post_ops, cx, m.shape.n)).collect();
        let operands: Vec<_> =
            members.iter().map(|(m, _)| m.operand(cx)).collect::<Result<_, _>>()?;
        let grouped = members.iter().zip(&operands).zip(&post_ops);
        let members: Vec<_> = grouped
            .map(|(((matmul, factor), b), post_ops)| GroupedGemm {
                gemm: matmul.one(a, b, post_ops),
                factor: *factor,
            })
            .collect();
        run_grouped(cx.workers(), &members, outputs);
        Ok(())
    }
}

impl Kernel for Float32 {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let (a, c) = (cx.input(0), cx.output(0));
        let (post_ops, b) = (bound(&self.post_ops, cx, self.shape.n), self.operand(cx)?);
        if let Some(Through { runs, run, .. }) = &self.through {
            let a = Lhs::Runs { values: a, runs, run: *run };
            self.one(a, &b, &post_ops).run(cx.threads(), cx.scratch_pool(), c);
            return Ok(());
        }
        self.shape.run(cx, a, |at| b.rhs(at), &post_ops, c);
        Ok(())
    }

    fn accepts_unaligned(&self) -> InputSet {
        InputSet::one(self.b)
    }

    fn flops(&self) -> u64 {
        self.shape.flops()
    }

    fn memory(&self, threads: usize) -> KernelMemory {
        KernelMemory { kept: 0, passing: self.shape.scratch_bytes(threads) }
    }

    fn name(&self) -> &'static str {
        "matmul"
    }
}

/// Other element types, each in its compute type.
struct NaiveMatMul<L> {
    shape: Shape,
    lanes: Lanes<L>,
}

impl<L: Factor> Kernel for NaiveMatMul<L> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let (a, b) = (self.lanes.input(cx, 0), self.lanes.input(cx, 1));
        self.lanes.output(cx, 0, |cx, c| L::multiply(&self.shape, cx, &a, &b, c));
        Ok(())
    }

    fn flops(&self) -> u64 {
        self.shape.flops()
    }

    fn name(&self) -> &'static str {
        "matmul"
    }
}

/// Element types that know how their MatMul is computed.
pub(crate) trait Factor: Stored<Wide: Arithmetic> {
    /// Multiplies `a` by `b`.
    fn multiply(shape: &Shape, cx: &RunCx<'_>, a: &[Self], b: &[Self], c: &mut [Self]) {
        shape.run_naive(cx, a, b, c);
    }
}

impl Factor for i32 {}
impl Factor for i64 {}
impl Factor for u64 {}
impl Factor for f64 {}

impl Factor for f32 {
    fn multiply(shape: &Shape, cx: &RunCx<'_>, a: &[f32], b: &[f32], c: &mut [f32]) {
        let layout = shape.layout();
        shape.run(cx, a, |at: usize| Rhs::Unpacked(UnalignedF32::of(&b[at..]), layout), &[], c);
    }
}
