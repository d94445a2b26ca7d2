//! Transpose-1: permutes axes.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/movement/transpose-1.html>

use crate::rule::prelude::*;
use crate::rules::axes;
use smallvec::SmallVec;

/// Transpose-1.
#[derive(Debug)]
pub struct Transpose;

no_attributes!(Transpose);

/// The order given by input 1; an empty list reverses the axes.
///
/// # Errors
/// When it is not a permutation of the axes.
pub fn order(values: &[i64], rank: usize) -> Result<SmallVec<[usize; 6]>, RuleError> {
    if values.is_empty() {
        return Ok((0..rank).rev().collect());
    }
    let order = axes::normalize_unique(values, rank, 1)?;
    require!(1; order.len() == rank, "holds {} axes, but the data has rank {rank}", order.len());
    Ok(order)
}

impl Op for Transpose {
    fn input_names(&self) -> &'static [&'static str] {
        &["arg", "input_order"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(2..=2)?;
        cx.expect_integer(1)?;
        cx.expect_rank(1, 1..=1)?;
        let (Some(dims), count) = (cx.shape(0).dims(), cx.shape(1).volume()) else {
            let rank = cx.shape(1).volume().size().filter(|n| *n > 0);
            cx.because("the rank of the data is unknown");
            let shape = rank.map_or_else(PartialShape::unranked, PartialShape::of_rank);
            cx.set(0, cx.element_type(0), shape);
            return Ok(());
        };
        let rank = i64::try_from(dims.len()).unwrap_or(i64::MAX);
        let (fits, none) = (count.contains(rank), count.contains(0));
        require!(1; fits || none, "holds {count} axes, but the data has rank {rank}");
        let shape = match cx.ints(1) {
            Some(values) => {
                let order = order(&values, dims.len())?;
                order.iter().map(|&axis| cx.shape(0).dim(axis)).collect()
            }
            None => {
                cx.because("the order is known only when running");
                PartialShape::of_rank(dims.len())
            }
        };
        cx.set(0, cx.element_type(0), shape);
        Ok(())
    }

    fn value(&self, cx: &ValueCx<'_>) -> Option<PartialValue> {
        let data = cx.value(0)?;
        (data.sizes.len() <= 1).then(|| data.clone())
    }

    fn traits(&self) -> OpTraits {
        OpTraits::moving(InputSet::one(0))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    #[test]
    fn rule() {
        let case = |shape, order: &[i64]| {
            let inputs = [Input::shape(F32, shape), Input::ints(I32, order)];
            Case::of("Transpose", "opset1").inputs(inputs)
        };
        case("2,?,4", &[2, 0, 1]).expect(&[Ok("f32[4,2,?]")]);
        case("2,3", &[]).expect(&[Ok("f32[3,2]")]);
        case("...", &[1, 0]).expect(&[Ok("f32[?,?]")]);
        case("2,3", &[0]).expect(&[Err("holds 1 axes, but the data has rank 2")]);
        case("2,3", &[1, 1]).expect(&[Err("input 1 (input_order): axis 1 is named twice")]);
        case("2,3", &[0, 2]).expect(&[Err("axis 2 is out of range for rank 2")]);
        let late = [Input::shape(F32, "2,3"), Input::shape(I32, "2")];
        Case::of("Transpose", "opset1").inputs(late).expect(&[Ok("f32[?,?]")]);
    }
}
