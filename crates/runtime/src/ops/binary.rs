//! Arithmetic on two tensors: one kernel per element type for all broadcasts.

use super::unary::real_function;
use crate::kernel::dispatch::kernel_for;
use crate::prelude::*;
use infer::InputSet;
use infer::ops::binary::{Binary, Kind};
use kernels::binary::{self as k, Lane, Operands};
use kernels::broadcast::Broadcast;
use kernels::convert::Element;
use kernels::unary::Unary;
use std::marker::PhantomData;

impl Lower for Binary {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let element_type = cx.element_type(0);
        let op = match self.kind() {
            Kind::Add => k::Binary::Add,
            Kind::Subtract => k::Binary::Subtract,
            Kind::Multiply => k::Binary::Multiply,
            Kind::Divide if self.floor() => k::Binary::Divide,
            Kind::Divide => k::Binary::DivideTruncated,
            Kind::FloorMod => k::Binary::FloorMod,
            Kind::Mod => k::Binary::Mod,
            Kind::Power => k::Binary::Power,
            Kind::Maximum => k::Binary::Maximum,
            Kind::Minimum => k::Binary::Minimum,
            Kind::SquaredDifference => k::Binary::SquaredDifference,
            Kind::BitwiseAnd => k::Binary::And,
            Kind::BitwiseOr => k::Binary::Or,
            Kind::BitwiseXor => k::Binary::Xor,
            Kind::BitwiseLeftShift => k::Binary::ShiftLeft,
            Kind::BitwiseRightShift => k::Binary::ShiftRight,
        };
        let b = self.broadcast().aligned(cx.sizes(0), cx.sizes(1));
        let plan = Broadcast::new(cx.output_sizes(0)?, [cx.sizes(0), &b]);
        if plan.is_dense(0)
            && let Some(function) = common_power(self, cx)
        {
            return real_function(element_type, function)
                .ok_or_else(|| LowerError::element_type(0, element_type));
        }
        binary(cx, op, plan)
    }
}

/// Exponents that have functions of their own.
const COMMON_POWERS: [(f64, Unary); 5] = [
    (-1.0, Unary::Reciprocal {}),
    (-0.5, Unary::PowerOfMinusHalf {}),
    (0.5, Unary::PowerOfHalf {}),
    (2.0, Unary::Square {}),
    (3.0, Unary::Cube {}),
];

/// The function that a power with one known exponent is.
pub(crate) fn common_power(op: &Binary, cx: &LowerCx<'_>) -> Option<Unary> {
    let element_type = cx.element_type(0);
    let is_power = op.kind() == Kind::Power && element_type.is_real();
    cx.constant(1).filter(|_| is_power && cx.count(1) == 1)?;
    let exponent = *cx.floats(1).ok()?.first()?;
    let (_, function) = COMMON_POWERS.iter().find(|(known, _)| *known == exponent)?;
    // Other powers of f64 are libm's.
    let holds = element_type != ElementType::F64 || exponent == 2.0;
    holds.then_some(*function)
}

/// The kernel of a binary function, for the element type of input 0.
///
/// # Errors
/// For types without arithmetic.
pub(crate) fn binary(
    cx: &LowerCx<'_>,
    op: k::Binary,
    plan: Broadcast<2>,
) -> Result<Box<dyn Kernel>, LowerError> {
    let element_type = cx.element_type(0);
    // Integer division by 0 is an error; float division gives infinities.
    let divides = matches!(
        op,
        k::Binary::Divide | k::Binary::DivideTruncated | k::Binary::Mod | k::Binary::FloorMod
    );
    let checked = divides && element_type.is_integral() && !cx.constant(1).is_some_and(has_no_zero);
    if element_type == ElementType::Boolean {
        return Ok(Box::new(BinaryKernel::<u8> { op, plan, checked, of: PhantomData }));
    }
    kernel_for!(cx, 0, number T => BinaryKernel::<T> { op, plan, checked, of: PhantomData })
}

/// Whether no element of a tensor of i32 or i64 is 0.
fn has_no_zero(tensor: &Tensor) -> bool {
    let of_i32 = || tensor.as_slice::<i32>().is_some_and(|all| !all.contains(&0));
    let of_i64 = || tensor.as_slice::<i64>().is_some_and(|all| !all.contains(&0));
    of_i32() || of_i64()
}

struct BinaryKernel<T> {
    op: k::Binary,
    plan: Broadcast<2>,
    /// Whether a divisor of 0 is an error.
    checked: bool,
    of: PhantomData<T>,
}

impl<T: Element<Lane: Lane>> Kernel for BinaryKernel<T> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        if self.checked && cx.tensor(1).cast::<T>().is_some_and(|b| b.contains(&T::default())) {
            return Err(KernelError::at(1, "holds a 0, by which integers cannot be divided"));
        }
        let operands = match (cx.is_in_place(0), cx.is_in_place(1)) {
            (true, _) => Operands::over_first(cx.output(0), cx.input(1)),
            (_, true) => Operands::over_second(cx.input(0), cx.output(0)),
            _ => Operands::separate(cx.input(0), cx.input(1), cx.output(0)),
        };
        self.op.run::<T>(cx.threads(), &self.plan, operands);
        Ok(())
    }

    fn reuse(&self) -> Reuse {
        Reuse::InPlace(InputSet::of_which(2, |k| self.plan.is_dense(k)))
    }

    fn name(&self) -> &'static str {
        "binary"
    }
}
