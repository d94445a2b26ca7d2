//! What is done to each element of a product or convolution before it leaves the cache.

use crate::kernel::RunCx;
use kernels::gemm::Step;
use kernels::quantize::{ColumnQuantizers, Quantizer, Quantizers};
use kernels::unary::Unary;
use smallvec::SmallVec;

/// One step, in the order of the operations that it stands for. Its operands are inputs of the
/// node behind those of the product itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Then {
    /// Adds.
    Add(Operand),
    /// Adds the values of levels that an input of the shape of the result has: each level times a
    /// scale, and what the first one is.
    AddLevels(usize, f32, f32),
    /// Multiplies.
    Multiply(Operand),
    /// Applies a function.
    Apply(Unary),
    /// Rounds to a level, and gives its value: the level times a scale, and what the first one is.
    Quantize(Quantizer, f32, f32),
    /// Rounds to levels of each column, by the parameters that an input holds, up to the last
    /// level, and gives their values.
    QuantizeColumns(usize, f32),
}

/// How levels are found that are written in place of values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Round {
    /// In one way.
    Alike(Quantizer),
    /// Those of each column by the parameters that an input holds, up to the last level.
    Columns(usize, f32),
}

impl Round {
    /// The same with the parameters.
    pub(crate) fn levels<'r>(self, cx: &RunCx<'r>) -> Quantizers<'r> {
        match self {
            Round::Alike(to) => Quantizers::Uniform(to),
            Round::Columns(input, most) => {
                Quantizers::Columns(ColumnQuantizers::new(cx.input(input), most))
            }
        }
    }
}

/// How an operand meets the result, whose last axis are the columns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Operand {
    /// One number.
    Number(f32),
    /// An input with one element for each column.
    Columns(usize),
    /// An input of the shape of the result.
    Matrix(usize),
}

impl Then {
    /// The same for a node that has `by` more inputs before its operands.
    pub(crate) fn moved(self, by: usize) -> Then {
        match self {
            Then::Add(operand) => Then::Add(operand.moved(by)),
            Then::Multiply(operand) => Then::Multiply(operand.moved(by)),
            Then::AddLevels(input, scale, low) => Then::AddLevels(input + by, scale, low),
            Then::QuantizeColumns(input, most) => Then::QuantizeColumns(input + by, most),
            Then::Apply(_) | Then::Quantize(..) => self,
        }
    }
}

impl Operand {
    fn moved(self, by: usize) -> Operand {
        match self {
            Operand::Number(_) => self,
            Operand::Columns(input) => Operand::Columns(input + by),
            Operand::Matrix(input) => Operand::Matrix(input + by),
        }
    }
}

/// Whether products do all of these while sums are in registers.
pub(crate) fn are_absorbed(then: &[Then]) -> bool {
    let step = |then: &Then| match *then {
        Then::Add(Operand::Columns(_)) => Some(Step::AddColumns(&[])),
        Then::Add(Operand::Matrix(_)) => Some(Step::AddMatrix { values: &[], stride: 0 }),
        Then::Apply(function) => Some(Step::Apply(function)),
        _ => None,
    };
    let steps: Option<SmallVec<[Step<'_>; 4]>> = then.iter().map(step).collect();
    steps.is_some_and(|steps| kernels::gemm::are_absorbed(&steps))
}

/// The steps with their operands, for a result whose rows have `columns` elements.
pub(crate) fn steps<'r>(then: &[Then], cx: &RunCx<'r>, columns: usize) -> SmallVec<[Step<'r>; 4]> {
    let step = |then: &Then| match *then {
        Then::Add(Operand::Number(value)) => Step::Add(value),
        Then::Add(Operand::Columns(input)) => Step::AddColumns(cx.input(input)),
        Then::Add(Operand::Matrix(input)) => {
            Step::AddMatrix { values: cx.input(input), stride: columns }
        }
        Then::AddLevels(input, scale, low) => {
            Step::AddLevels { levels: cx.input(input), stride: columns, scale, low }
        }
        Then::Multiply(Operand::Number(value)) => Step::Scale(value),
        Then::Multiply(Operand::Columns(input)) => Step::ScaleColumns(cx.input(input)),
        Then::Multiply(Operand::Matrix(input)) => {
            Step::MultiplyMatrix { values: cx.input(input), stride: columns }
        }
        Then::Apply(function) => Step::Apply(function),
        Then::Quantize(to, scale, low) => Step::Quantize { to, scale, low },
        Then::QuantizeColumns(input, most) => {
            Step::QuantizeColumns(ColumnQuantizers::new(cx.input(input), most))
        }
    };
    then.iter().map(step).collect()
}
