//! Post-ops: what is done to a block of C while it is in registers or in the cache.

use super::activation::Activation;
use crate::base::par::{Slice, Threads};
use crate::base::scratch::InOut;
use crate::math::quantize::{
    ColumnQuantizers, Quantizer, quantize_dequantize, quantize_dequantize_columns,
};
use crate::math::unary::{Unary, unary_f32};
use crate::multiversion;
use std::ops::Range;

/// What is done to every element of C once its sum is complete.
///
/// The parameters are the forms of the operands: a number for each column (`C`), a matrix of the
/// shape of C in f32 (`M`) or in quantized values (`B`), and quantizers for each column (`Q`).
/// Kernels use slices ([`PostOp`]); a graph uses the inputs of a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PostOpOf<C, M, B, Q> {
    /// Adds: a bias, a residual, a number.
    Add(Operand<C, M>),
    /// Multiplies.
    Multiply(Operand<C, M>),
    /// Divides.
    Divide(Operand<C, M>),
    /// Adds dequantized values, `q · scale + low`, each rounded once.
    AddQuantized {
        /// The quantized values.
        values: B,
        /// The step between quantized values.
        scale: f32,
        /// The value that q = 0 stands for.
        low: f32,
    },
    /// Applies a function.
    Apply(Unary),
    /// Quantizes and dequantizes: `q · scale + low`, rounded once.
    Quantize {
        /// The quantized value of an element.
        to: Quantizer,
        /// The step between quantized values.
        scale: f32,
        /// The value that q = 0 stands for.
        low: f32,
    },
    /// Quantizes and dequantizes each column by its own parameters.
    QuantizeColumns(Q),
}

/// The second operand of a [`PostOpOf`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Operand<C, M> {
    /// One number.
    Number(f32),
    /// One number for each column.
    Columns(C),
    /// A number for each element.
    Matrix(M),
}

impl<C, M> From<f32> for Operand<C, M> {
    fn from(value: f32) -> Operand<C, M> {
        Operand::Number(value)
    }
}

/// A post-op with its operands in memory.
pub type PostOp<'a> = PostOpOf<&'a [f32], Strided<'a, f32>, Strided<'a, u8>, ColumnQuantizers<'a>>;

/// A matrix whose rows are `stride` elements apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Strided<'a, T> {
    /// Its elements.
    pub values: &'a [T],
    /// Distance between its rows.
    pub stride: usize,
}

impl<'a, T> Strided<'a, T> {
    /// `len` elements of row `i` from column `j` on.
    fn row(self, i: usize, j: usize, len: usize) -> &'a [T] {
        &self.values[i * self.stride + j..][..len]
    }

    /// The same matrix from a row and a column on.
    fn from(self, row: usize, column: usize) -> Strided<'a, T> {
        let values = self.values.get(row * self.stride + column..).unwrap_or_default();
        Strided { values, ..self }
    }

    /// Whether it has `rows` rows of `columns` elements.
    pub(crate) fn reaches(self, rows: usize, columns: usize) -> bool {
        let last = rows.saturating_sub(1).saturating_mul(self.stride);
        self.values.len() >= last.saturating_add(columns)
    }
}

/// Converts the operands of post-ops to another form, such as from inputs of a node to slices.
pub trait Bind<C, M, B, Q> {
    /// The new form of one number for each column.
    type Columns;
    /// The new form of a matrix.
    type Matrix;
    /// The new form of quantized values.
    type Bytes;
    /// The new form of the quantizers of all columns.
    type Quantizers;

    /// Binds one number for each column.
    fn columns(&self, from: C) -> Self::Columns;
    /// Binds a matrix.
    fn matrix(&self, from: M) -> Self::Matrix;
    /// Binds quantized values.
    fn bytes(&self, from: B) -> Self::Bytes;
    /// Binds the quantizers of all columns.
    fn quantizers(&self, from: Q) -> Self::Quantizers;
}

impl<C: Copy, M: Copy, B: Copy, Q: Copy> PostOpOf<C, M, B, Q> {
    /// The same post-op with its operands in another form.
    pub fn bind<T: Bind<C, M, B, Q>>(
        self,
        bind: &T,
    ) -> PostOpOf<T::Columns, T::Matrix, T::Bytes, T::Quantizers> {
        let operand = |operand| match operand {
            Operand::Number(value) => Operand::Number(value),
            Operand::Columns(columns) => Operand::Columns(bind.columns(columns)),
            Operand::Matrix(matrix) => Operand::Matrix(bind.matrix(matrix)),
        };
        match self {
            PostOpOf::Add(by) => PostOpOf::Add(operand(by)),
            PostOpOf::Multiply(by) => PostOpOf::Multiply(operand(by)),
            PostOpOf::Divide(by) => PostOpOf::Divide(operand(by)),
            PostOpOf::AddQuantized { values, scale, low } => {
                PostOpOf::AddQuantized { values: bind.bytes(values), scale, low }
            }
            PostOpOf::Apply(function) => PostOpOf::Apply(function),
            PostOpOf::Quantize { to, scale, low } => PostOpOf::Quantize { to, scale, low },
            PostOpOf::QuantizeColumns(columns) => {
                PostOpOf::QuantizeColumns(bind.quantizers(columns))
            }
        }
    }

    /// Whether it does the same to every row.
    pub(crate) fn ignores_row(&self) -> bool {
        let is_matrix = matches!(
            self,
            PostOpOf::Add(Operand::Matrix(_))
                | PostOpOf::Multiply(Operand::Matrix(_))
                | PostOpOf::Divide(Operand::Matrix(_))
        );
        !is_matrix && !matches!(self, PostOpOf::AddQuantized { .. })
    }
}

/// Takes the operands for the part of C that begins at a row and a column.
struct Part {
    row: usize,
    column: usize,
}

impl<'a> Bind<&'a [f32], Strided<'a, f32>, Strided<'a, u8>, ColumnQuantizers<'a>> for Part {
    type Columns = &'a [f32];
    type Matrix = Strided<'a, f32>;
    type Bytes = Strided<'a, u8>;
    type Quantizers = ColumnQuantizers<'a>;

    fn columns(&self, from: &'a [f32]) -> &'a [f32] {
        &from[self.column..]
    }

    fn matrix(&self, from: Strided<'a, f32>) -> Strided<'a, f32> {
        from.from(self.row, self.column)
    }

    fn bytes(&self, from: Strided<'a, u8>) -> Strided<'a, u8> {
        from.from(self.row, self.column)
    }

    fn quantizers(&self, from: ColumnQuantizers<'a>) -> ColumnQuantizers<'a> {
        from.after(self.column)
    }
}

impl<'a> PostOp<'a> {
    /// The post-op for a GEMM that begins at row `first`.
    pub fn from_row(self, first: usize) -> PostOp<'a> {
        self.bind(&Part { row: first, column: 0 })
    }

    /// The post-op for the columns from `first` on.
    pub fn from_column(self, first: usize) -> PostOp<'a> {
        self.bind(&Part { row: 0, column: first })
    }

    /// Its operand, if that is a number for each column.
    pub(crate) fn columns(&self) -> Option<&'a [f32]> {
        match *self {
            PostOp::Add(Operand::Columns(own))
            | PostOp::Multiply(Operand::Columns(own))
            | PostOp::Divide(Operand::Columns(own)) => Some(own),
            _ => None,
        }
    }

    /// The post-op with these numbers in place of its own, if it has one for each column.
    pub(crate) fn with_columns(self, columns: &'a [f32]) -> PostOp<'a> {
        let columns = Operand::Columns(columns);
        match self {
            PostOp::Add(Operand::Columns(_)) => PostOp::Add(columns),
            PostOp::Multiply(Operand::Columns(_)) => PostOp::Multiply(columns),
            PostOp::Divide(Operand::Columns(_)) => PostOp::Divide(columns),
            op => op,
        }
    }

    /// Whether several whole rows of `columns` elements may be taken for one run: it does the same
    /// to every row, or its operand has no gaps between rows either.
    fn joins_rows(&self, columns: usize) -> bool {
        match self {
            PostOp::Add(Operand::Matrix(v))
            | PostOp::Multiply(Operand::Matrix(v))
            | PostOp::Divide(Operand::Matrix(v)) => v.stride == columns,
            PostOp::AddQuantized { values, .. } => values.stride == columns,
            _ => true,
        }
    }

    /// Whether its operands have `rows` rows and `columns` columns.
    pub(crate) fn reaches(&self, rows: usize, columns: usize) -> bool {
        match self {
            PostOp::Add(by) | PostOp::Multiply(by) | PostOp::Divide(by) => match by {
                Operand::Number(_) => true,
                Operand::Columns(values) => values.len() >= columns,
                Operand::Matrix(matrix) => matrix.reaches(rows, columns),
            },
            PostOp::AddQuantized { values, .. } => values.reaches(rows, columns),
            PostOp::QuantizeColumns(quantizers) => quantizers.columns() >= columns,
            PostOp::Apply(_) | PostOp::Quantize { .. } => true,
        }
    }
}

/// Applies post-ops to `run`, whose first element is in row `i`, column `j`.
pub fn apply_post_ops(post_ops: &[PostOp<'_>], i: usize, j: usize, run: &mut [f32]) {
    let len = run.len();
    post_ops.iter().for_each(|op| op.apply((i, j), len, run));
}

/// Applies post-ops to whole rows of `columns` elements, from row `first` on.
pub(crate) fn apply_to_rows(
    post_ops: &[PostOp<'_>],
    first: usize,
    columns: usize,
    rows: &mut [f32],
) {
    for op in post_ops {
        if op.joins_rows(columns) {
            op.apply((first, 0), columns, rows);
            continue;
        }
        for (i, row) in rows.chunks_exact_mut(columns).enumerate() {
            op.apply((first + i, 0), columns, row);
        }
    }
}

impl PostOp<'_> {
    /// Applies the post-op to rows of `len` elements each, from row `i`, column `j` on. There may
    /// be several rows only if the post-op [joins them](PostOp::joins_rows).
    pub(super) fn apply(&self, (i, j): (usize, usize), len: usize, lines: &mut [f32]) {
        let all = lines.len();
        match *self {
            PostOp::Add(Operand::Number(value)) => add_number(lines, value),
            PostOp::Add(Operand::Columns(v)) => add(lines, &v[j..j + len]),
            PostOp::Add(Operand::Matrix(matrix)) => add(lines, matrix.row(i, j, all)),
            PostOp::Multiply(Operand::Number(factor)) => multiply_number(lines, factor),
            PostOp::Multiply(Operand::Columns(v)) => multiply(lines, &v[j..j + len]),
            PostOp::Multiply(Operand::Matrix(matrix)) => multiply(lines, matrix.row(i, j, all)),
            PostOp::Divide(Operand::Number(divisor)) => divide_number(lines, divisor),
            PostOp::Divide(Operand::Columns(v)) => divide(lines, &v[j..j + len]),
            PostOp::Divide(Operand::Matrix(matrix)) => divide(lines, matrix.row(i, j, all)),
            PostOp::AddQuantized { values, scale, low } => {
                add_quantized(lines, values.row(i, j, all), (scale, low));
            }
            PostOp::Apply(function) => {
                unary_f32(Threads::single(), function, &mut InOut::in_place(lines));
            }
            PostOp::Quantize { to, scale, low } => quantize_dequantize(to, scale, low, lines),
            PostOp::QuantizeColumns(columns) => {
                quantize_dequantize_columns(columns.after(j), len, lines);
            }
        }
    }
}

/// Applies post-ops to rows of C, `stride` elements apart, while they are in the cache.
///
/// # Safety
/// The rows and columns are within C, and no other thread uses them.
pub(crate) unsafe fn finish(
    post_ops: &[PostOp<'_>],
    rows: Range<usize>,
    columns: Range<usize>,
    stride: usize,
    c: Slice<f32>,
) {
    debug_assert!(rows.start <= rows.end && columns.start <= columns.end);
    // Whole rows without gaps are handled as one run.
    let whole = columns.start == 0 && columns.end == stride;
    for op in post_ops {
        let count = if whole && op.joins_rows(stride) { rows.len() } else { 1 };
        for row in rows.clone().step_by(count.max(1)) {
            // SAFETY: the caller's promise.
            let lines = unsafe { c.part(row * stride + columns.start, columns.len() * count) };
            op.apply((row, columns.start), columns.len(), lines);
        }
    }
}

/// Whether all post-ops can be applied in registers.
pub fn are_absorbed<C: Copy, M: Copy, B, Q>(post_ops: &[PostOpOf<C, M, B, Q>]) -> bool {
    absorbed(post_ops).rest.is_empty()
}

/// The leading post-ops that are applied in registers (a bias, a matrix and an activation, in this
/// order), and the others.
fn absorbed<C: Copy, M: Copy, B, Q>(post_ops: &[PostOpOf<C, M, B, Q>]) -> Absorbed<'_, C, M, B, Q> {
    let activation = Activation::Identity;
    let mut first = Absorbed { bias: None, add: None, activation, rest: post_ops };
    if let [PostOpOf::Add(Operand::Columns(values)), after @ ..] = first.rest {
        (first.bias, first.rest) = (Some(*values), after);
    }
    if let [PostOpOf::Add(Operand::Matrix(matrix)), after @ ..] = first.rest {
        (first.add, first.rest) = (Some(*matrix), after);
    }
    if let [PostOpOf::Apply(function), after @ ..] = first.rest
        && let Some(activation) = Activation::of(*function)
    {
        (first.activation, first.rest) = (activation, after);
    }
    first
}

/// What [`absorbed`] finds.
struct Absorbed<'o, C, M, B, Q> {
    bias: Option<C>,
    add: Option<M>,
    activation: Activation,
    /// The post-ops that are left.
    rest: &'o [PostOpOf<C, M, B, Q>],
}

/// The post-ops of a block that are applied in registers, in the order of the fields.
#[derive(Clone, Copy)]
pub(crate) struct BlockPostOps {
    /// The bias that is added to each row, unless null.
    pub(crate) bias: *const f32,
    /// A matrix that is added, unless null, and the distance between its rows.
    pub(crate) add: (*const f32, usize),
    /// Applied last.
    pub(crate) activation: Activation,
}

impl BlockPostOps {
    /// No post-ops.
    pub(crate) const NOTHING: BlockPostOps = BlockPostOps {
        bias: std::ptr::null(),
        add: (std::ptr::null(), 0),
        activation: Activation::Identity,
    };
}

/// The post-ops of a GEMM that are applied in registers.
#[derive(Clone, Copy)]
pub(crate) struct RegisterPostOps<'a> {
    bias: Option<&'a [f32]>,
    add: Option<Strided<'a, f32>>,
    activation: Activation,
}

impl<'a> RegisterPostOps<'a> {
    /// Splits off the leading post-ops of this kind, and returns the others too.
    pub(crate) fn of<'s>(post_ops: &'s [PostOp<'a>]) -> (RegisterPostOps<'a>, &'s [PostOp<'a>]) {
        let Absorbed { bias, add, activation, rest } = absorbed(post_ops);
        (RegisterPostOps { bias, add, activation }, rest)
    }

    /// Panics unless the operands cover `m` rows of `n` columns.
    pub(crate) fn check(&self, m: usize, n: usize) {
        assert!(self.bias.is_none_or(|v| v.len() >= n), "there are too few values to add");
        assert!(self.add.is_none_or(|v| v.reaches(m, n)), "the matrix to add is too small");
    }

    /// The post-ops of the block at a row and a column; `check` must have passed.
    pub(crate) fn at(&self, row: usize, column: usize) -> BlockPostOps {
        let none = std::ptr::null();
        // `check` has shown that the operands cover C.
        BlockPostOps {
            bias: self.bias.map_or(none, |v| v.as_ptr().wrapping_add(column)),
            add: self.add.map_or((none, 0), |Strided { values, stride }| {
                (values.as_ptr().wrapping_add(row * stride + column), stride)
            }),
            activation: self.activation,
        }
    }
}

multiversion! {
    /// Adds `values` to each line of the same length.
    pub(crate) fn add(lines: &mut [f32], values: &[f32]) {
        for line in lines.chunks_exact_mut(values.len().max(1)) {
            for (x, v) in line.iter_mut().zip(values) {
                *x += v;
            }
        }
    }
}

multiversion! {
    fn add_quantized(line: &mut [f32], quantized: &[u8], values: (f32, f32)) {
        let (scale, low) = values;
        for (x, q) in line.iter_mut().zip(quantized) {
            *x += f32::from(*q).mul_add(scale, low);
        }
    }
}

multiversion! {
    pub(super) fn multiply(lines: &mut [f32], values: &[f32]) {
        for line in lines.chunks_exact_mut(values.len().max(1)) {
            for (x, v) in line.iter_mut().zip(values) {
                *x *= v;
            }
        }
    }
}

multiversion! {
    fn divide(lines: &mut [f32], values: &[f32]) {
        for line in lines.chunks_exact_mut(values.len().max(1)) {
            for (x, v) in line.iter_mut().zip(values) {
                *x /= v;
            }
        }
    }
}

multiversion! {
    fn divide_number(run: &mut [f32], divisor: f32) {
        for x in run {
            *x /= divisor;
        }
    }
}

multiversion! {
    /// Adds a number to each element.
    pub(crate) fn add_number(run: &mut [f32], value: f32) {
        for x in run {
            *x += value;
        }
    }
}

multiversion! {
    fn multiply_number(run: &mut [f32], factor: f32) {
        for x in run {
            *x *= factor;
        }
    }
}
