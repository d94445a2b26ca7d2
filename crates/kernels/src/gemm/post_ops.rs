//! What is done to a block of a product while it is still in the cache.

use crate::base::par::{Slice, Threads};
use crate::base::scratch::InOut;
use crate::math::quantize::{
    ColumnQuantizers, Quantizer, quantize_dequantize, quantize_dequantize_columns,
};
use crate::math::unary::{Unary, unary_f32};
use crate::multiversion;
use std::ops::Range;

/// One step on every element `c[i][j]` of a product of `m` rows and `n` columns.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    /// Adds `v[j]`.
    AddColumns(&'a [f32]),
    /// Adds `v[i]`.
    AddRows(&'a [f32]),
    /// Multiplies by `v[j]`.
    ScaleColumns(&'a [f32]),
    /// Adds a number.
    Add(f32),
    /// Multiplies by a number.
    Scale(f32),
    /// Adds an element of a matrix whose rows are `stride` apart.
    AddMatrix {
        /// The matrix.
        values: &'a [f32],
        /// Distance between its rows.
        stride: usize,
    },
    /// Adds the values of levels, `level · scale + low`, of a matrix whose rows are `stride` apart.
    AddLevels {
        /// The matrix.
        levels: &'a [u8],
        /// Distance between its rows.
        stride: usize,
        /// The distance between values.
        scale: f32,
        /// The value of the first level.
        low: f32,
    },
    /// Multiplies by an element of a matrix whose rows are `stride` apart.
    MultiplyMatrix {
        /// The matrix.
        values: &'a [f32],
        /// Distance between its rows.
        stride: usize,
    },
    /// Applies a function.
    Apply(Unary),
    /// Rounds to a level and gives its value, `level · scale + low`.
    Quantize {
        /// The level of an element.
        to: Quantizer,
        /// The distance between values.
        scale: f32,
        /// The value of the first level.
        low: f32,
    },
    /// Rounds to the levels of each column and gives their values.
    QuantizeColumns(ColumnQuantizers<'a>),
}

impl<'a> Step<'a> {
    /// Whether it does the same to every row.
    pub(crate) fn ignores_row(&self) -> bool {
        !matches!(
            self,
            Step::AddRows(_)
                | Step::AddMatrix { .. }
                | Step::AddLevels { .. }
                | Step::MultiplyMatrix { .. }
        )
    }

    /// The same step for a product that begins at row `first`.
    pub fn from_row(self, first: usize) -> Step<'a> {
        match self {
            Step::AddRows(v) => Step::AddRows(&v[first..]),
            Step::AddMatrix { values, stride } => {
                Step::AddMatrix { values: values.get(first * stride..).unwrap_or_default(), stride }
            }
            Step::MultiplyMatrix { values, stride } => {
                let values = values.get(first * stride..).unwrap_or_default();
                Step::MultiplyMatrix { values, stride }
            }
            Step::AddLevels { levels, stride, scale, low } => {
                let levels = levels.get(first * stride..).unwrap_or_default();
                Step::AddLevels { levels, stride, scale, low }
            }
            other => other,
        }
    }

    /// The same step for a part of the columns, from column `first` on.
    pub fn from_column(self, first: usize) -> Step<'a> {
        match self {
            Step::AddColumns(v) => Step::AddColumns(&v[first..]),
            Step::ScaleColumns(v) => Step::ScaleColumns(&v[first..]),
            Step::QuantizeColumns(levels) => Step::QuantizeColumns(levels.after(first)),
            Step::AddMatrix { values, stride } => {
                Step::AddMatrix { values: values.get(first..).unwrap_or_default(), stride }
            }
            Step::MultiplyMatrix { values, stride } => {
                Step::MultiplyMatrix { values: values.get(first..).unwrap_or_default(), stride }
            }
            Step::AddLevels { levels, stride, scale, low } => {
                let levels = levels.get(first..).unwrap_or_default();
                Step::AddLevels { levels, stride, scale, low }
            }
            other => other,
        }
    }
}

/// Applies the steps to `run`, which begins at row `i`, column `j`.
pub fn apply_steps(steps: &[Step<'_>], i: usize, j: usize, run: &mut [f32]) {
    let len = run.len();
    steps.iter().for_each(|step| step.apply((i, j), len, run));
}

/// Applies the steps to whole rows of `columns` elements, of which the first is row `first`.
pub(crate) fn apply_to_rows(steps: &[Step<'_>], first: usize, columns: usize, rows: &mut [f32]) {
    for step in steps {
        if step.ignores_row() {
            step.apply((first, 0), columns, rows);
            continue;
        }
        for (i, row) in rows.chunks_exact_mut(columns).enumerate() {
            step.apply((first + i, 0), columns, row);
        }
    }
}

impl Step<'_> {
    /// Applies the step to lines of `len` elements, which begin at row `i`, column `j`; to several
    /// only if it ignores the row.
    pub(super) fn apply(&self, (i, j): (usize, usize), len: usize, lines: &mut [f32]) {
        match *self {
            Step::AddColumns(v) => add(lines, &v[j..j + len]),
            Step::AddRows(v) => add_number(lines, v[i]),
            Step::ScaleColumns(v) => multiply(lines, &v[j..j + len]),
            Step::Add(value) => add_number(lines, value),
            Step::Scale(factor) => multiply_number(lines, factor),
            Step::AddMatrix { values, stride } => add(lines, &values[i * stride + j..][..len]),
            Step::AddLevels { levels, stride, scale, low } => {
                add_levels(lines, &levels[i * stride + j..][..len], (scale, low));
            }
            Step::MultiplyMatrix { values, stride } => {
                multiply(lines, &values[i * stride + j..][..len]);
            }
            Step::Apply(function) => {
                unary_f32(Threads::single(), function, &InOut::in_place(lines));
            }
            Step::Quantize { to, scale, low } => quantize_dequantize(to, scale, low, lines),
            Step::QuantizeColumns(levels) => {
                quantize_dequantize_columns(levels.after(j), len, lines)
            }
        }
    }
}

/// Applies steps to whole rows, which are still in the cache; `stride` is the distance between rows
/// of C.
///
/// # Safety
/// The rows and columns are within C, and no other thread uses them.
pub(crate) unsafe fn finish(
    steps: &[Step<'_>],
    rows: Range<usize>,
    columns: Range<usize>,
    stride: usize,
    c: Slice<f32>,
) {
    // Whole rows without gaps are one run.
    let whole = columns.start == 0 && columns.end == stride;
    for step in steps {
        let count = if whole && step.ignores_row() { rows.len() } else { 1 };
        for row in rows.clone().step_by(count.max(1)) {
            // SAFETY: the caller's promise.
            let lines = unsafe {
                let start = c.at(row * stride + columns.start);
                std::slice::from_raw_parts_mut(start, columns.len() * count)
            };
            step.apply((row, columns.start), columns.len(), lines);
        }
    }
}

/// Whether all of these are done before a block leaves the registers.
pub fn are_absorbed(steps: &[Step<'_>]) -> bool {
    RegisterPostOps::of(steps).1.is_empty()
}

/// What is done to the sums of a block, in this order.
#[derive(Clone, Copy)]
pub(crate) struct BlockPostOps {
    /// What is added to each row, unless null.
    pub(crate) bias: *const f32,
    /// A matrix that is added, unless null, and the distance between its rows.
    pub(crate) add: (*const f32, usize),
    /// A function of each.
    pub(crate) function: Activation,
}

impl BlockPostOps {
    /// The sums stay as they are.
    #[cfg(target_arch = "x86_64")]
    pub(crate) const NOTHING: BlockPostOps = BlockPostOps {
        bias: std::ptr::null(),
        add: (std::ptr::null(), 0),
        function: Activation::Identity,
    };
}

/// A function of so few instructions that it is applied to sums in registers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Activation {
    /// The sum itself.
    Identity,
    /// Kept above 0; NaN becomes 0.
    Relu,
    /// Kept between two numbers; NaN stays.
    Clamp(f32, f32),
    /// What is below 0 multiplied by a number above 0, at most 1.
    LeakyRelu(f32),
    /// As [`Unary::HSwish`](crate::math::unary::Unary::HSwish).
    HSwish,
}

/// The steps that are done before a block leaves the registers.
#[derive(Clone, Copy)]
pub(crate) struct RegisterPostOps<'a> {
    bias: Option<&'a [f32]>,
    add: Option<(&'a [f32], usize)>,
    function: Activation,
}

impl<'a> RegisterPostOps<'a> {
    /// The first steps, as far as they are of this kind and in this order, and the others.
    pub(crate) fn of<'s>(steps: &'s [Step<'a>]) -> (RegisterPostOps<'a>, &'s [Step<'a>]) {
        let mut absorbed =
            RegisterPostOps { bias: None, add: None, function: Activation::Identity };
        let mut rest = steps;
        if let [Step::AddColumns(values), after @ ..] = rest {
            (absorbed.bias, rest) = (Some(*values), after);
        }
        if let [Step::AddMatrix { values, stride }, after @ ..] = rest {
            (absorbed.add, rest) = (Some((*values, *stride)), after);
        }
        if let [Step::Apply(function), after @ ..] = rest {
            let function = match *function {
                Unary::Relu {} => Some(Activation::Relu),
                Unary::Clamp { low, high } => Some(Activation::Clamp(low as f32, high as f32)),
                // The larger of a number and its product, which by 0 may be NaN.
                Unary::LeakyRelu { alpha } if alpha as f32 > 0.0 && alpha <= 1.0 => {
                    Some(Activation::LeakyRelu(alpha as f32))
                }
                Unary::HSwish {} => Some(Activation::HSwish),
                _ => None,
            };
            if let Some(function) = function {
                (absorbed.function, rest) = (function, after);
            }
        }
        (absorbed, rest)
    }

    /// Panics unless the operands reach as far as `m` rows of `n` columns.
    pub(crate) fn check(&self, m: usize, n: usize) {
        assert!(self.bias.is_none_or(|v| v.len() >= n), "there are too few values to add");
        let reach = |(v, stride): (&[f32], usize)| v.len() >= (m - 1) * stride + n;
        assert!(self.add.is_none_or(reach), "the matrix to add is too small");
    }

    /// Those of the block at a row and a column, for operands that have been checked.
    pub(crate) fn at(&self, row: usize, column: usize) -> BlockPostOps {
        let none = std::ptr::null();
        // `check` has shown that the operands reach as far as C.
        BlockPostOps {
            bias: self.bias.map_or(none, |v| v.as_ptr().wrapping_add(column)),
            add: self.add.map_or((none, 0), |(v, stride)| {
                (v.as_ptr().wrapping_add(row * stride + column), stride)
            }),
            function: self.function,
        }
    }
}

multiversion! {
    /// Adds values to each line of as many elements.
    pub(crate) fn add(lines: &mut [f32], values: &[f32]) {
        for line in lines.chunks_exact_mut(values.len().max(1)) {
            for (x, v) in line.iter_mut().zip(values) {
                *x += v;
            }
        }
    }
}

multiversion! {
    fn add_levels(line: &mut [f32], levels: &[u8], values: (f32, f32)) {
        let (scale, low) = values;
        for (x, level) in line.iter_mut().zip(levels) {
            *x += f32::from(*level) * scale + low;
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
    /// Adds a number to each.
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
