//! Roll-7: shifts elements along axes; elements that leave one end enter at the other.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/movement/roll-7.html>

use crate::rule::prelude::*;
use crate::rules::axes;

/// Roll-7.
#[derive(Debug)]
pub struct Roll;

no_attributes!(Roll);

impl Op for Roll {
    fn input_names(&self) -> &'static [&'static str] {
        &["data", "shift", "axes"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(3..=3)?;
        cx.expect_index(1)?;
        cx.expect_index(2)?;
        cx.expect_rank(1, 0..=1)?;
        let (shift, axes) = (cx.shape(1), cx.shape(2));
        if shift.rank() == Some(1) {
            let message =
                "a 1-D shift needs as many axes as shifts; a scalar shift serves all axes";
            require!(1; shift.is_compatible(axes), "is {shift}, axes are {axes}: {message}");
        }
        cx.expect_rank(2, 0..=1)?;
        if let (Some(rank), Some(values)) = (cx.rank(0), cx.ints(2)) {
            // OpenVINO allows one axis for a scalar; rolling it changes nothing.
            axes::normalize_all(&values, rank.max(1), 2)?;
        }
        cx.set(0, cx.element_type(0), cx.shape(0).clone());
        Ok(())
    }

    fn traits(&self) -> OpTraits {
        OpTraits::moving(InputSet::one(0))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ElementType::*;
    use ir::ElementType;

    #[test]
    fn rule() {
        let op = Case::of("Roll", "opset7");
        let data = |shape| Input::shape(F32, shape);
        for (shape, shift, axes, expected) in [
            ("3..5,?,10", Input::scalar(I64, 5), Input::ints(I32, &[0, 1]), Ok("f32[3..5,?,10]")),
            ("4,3", Input::ints(I64, &[1, 2, 1]), Input::ints(I64, &[0, 1, 0]), Ok("f32[4,3]")),
            ("...", Input::shape(I64, "..."), Input::ints(I64, &[-100]), Ok("f32[...]")),
            ("[]", Input::scalar(I64, 1), Input::scalar(I64, -1), Ok("f32[]")),
            ("4", Input::shape(I64, "1..3"), Input::shape(I64, "2..4"), Ok("f32[4]")),
            (
                "4",
                Input::shape(I64, "1..3"),
                Input::shape(I64, "4..6"),
                Err("input 1 (shift): is [1..3], axes are [4..6]"),
            ),
            (
                "[]",
                Input::scalar(I64, 1),
                Input::scalar(I64, 1),
                Err("input 2 (axes): axis 1 is out of range for rank 1, [-1, 0]"),
            ),
            (
                "3,3",
                Input::ints(I64, &[1, 1]),
                Input::ints(I64, &[0, -5]),
                Err("input 2 (axes): axis -5 is out of range for rank 2, [-2, 1]"),
            ),
            (
                "4,3",
                Input::ints(I64, &[1]),
                Input::scalar(I64, 0),
                Err("input 1 (shift): is [1], axes are []"),
            ),
            (
                "4",
                Input::shape(I64, "1,1"),
                Input::ints(I64, &[0]),
                Err("input 1 (shift): must have rank 0 to 1, not 2"),
            ),
            (
                "4",
                Input::scalar(I16, 1),
                Input::ints(I64, &[0]),
                Err("input 1 (shift): must be i32 or i64, not i16"),
            ),
        ] {
            op.clone().inputs([data(shape), shift, axes]).expect(&[expected]);
        }
        op.inputs([data("4")]).expect(&[Err("it takes 3 inputs, not 1")]);
    }
}
