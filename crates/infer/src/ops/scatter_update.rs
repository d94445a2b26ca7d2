//! ScatterUpdate-3: updates of whole slices, by their index along one axis.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/movement/scatter-update-3.html>

use crate::rule::prelude::*;
use crate::rules::axes;
use crate::rules::scatter::{self, Reduction};

/// ScatterUpdate-3.
#[derive(Debug)]
pub struct ScatterUpdate;

no_attributes!(ScatterUpdate);

impl Op for ScatterUpdate {
    fn input_names(&self) -> &'static [&'static str] {
        &["data", "indices", "updates", "axis"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(4..=4)?;
        let element_type = scatter::element_type(cx, 2, Reduction::None)?;
        cx.expect_integer(1)?;
        cx.expect_integer(3)?;
        let (data, indices, updates) = (cx.shape(0), cx.shape(1), cx.shape(2));
        cx.expect_one(3, "axis")?;
        require!(0; data.rank() != Some(0), "is a scalar, which has no slices");
        if let (Some(d), Some(i)) = (data.dims(), indices.dims()) {
            let rank = d.len() + i.len() - 1;
            cx.expect_rank(2, rank..=rank)?;
            if let Some(axis) = cx.int(3) {
                let axis = axes::normalize_of(3, axis, d.len())?;
                let (before, behind) = (d.iter().take(axis), d.iter().skip(axis + 1));
                let expected: PartialShape = before.chain(i).chain(behind).copied().collect();
                let fits = updates.is_compatible(&expected);
                require!(2; fits, "is {updates}, but must be {expected} for data {data}");
            }
        }
        cx.set(0, element_type, data.clone());
        Ok(())
    }

    fn value(&self, cx: &ValueCx<'_>) -> Option<PartialValue> {
        scatter::replaced(cx, 2, false)
    }

    fn traits(&self) -> OpTraits {
        Reduction::None.traits()
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    #[test]
    fn rule() {
        for (data, indices, updates, axis, expected) in [
            ("2,6,3", "2,2", "2,2,2,3", 1, Ok("f32[2,6,3]")),
            ("5,3", "[]", "3", 0, Ok("f32[5,3]")),
            ("5,?", "4", "5,?", -1, Ok("f32[5,?]")),
            ("...", "4", "5,?", -1, Ok("f32[...]")),
            ("5,3", "2", "3,2", 0, Err("input 2 (updates): is [3,2], but must be [2,3]")),
            ("5,3", "2", "2", 0, Err("input 2 (updates): must have rank 2, not 1")),
            ("5,3", "2", "5,2", 2, Err("input 3 (axis): axis 2 is out of range for rank 2")),
            ("[]", "1", "1", 0, Err("input 0 (data): is a scalar")),
        ] {
            let inputs = [
                Input::shape(F32, data),
                Input::shape(I32, indices),
                Input::shape(F32, updates),
                Input::scalar(I64, axis),
            ];
            Case::of("ScatterUpdate", "opset3").inputs(inputs).expect(&[expected]);
        }
        let inputs = [
            Input::shape(F32, "5"),
            Input::shape(I32, "1"),
            Input::shape(F16, "1"),
            Input::scalar(I64, 0),
        ];
        let mixed = "is f16, but an earlier input is f32";
        Case::of("ScatterUpdate", "opset3").inputs(inputs).expect(&[Err(mixed)]);
    }

    #[test]
    fn values() {
        let data = Input::ints(I64, &[1, 2, 3]);
        let updates = Input::bounds(I64, &[(4, 9)]).shaped(&[]);
        let inputs = [data, Input::scalar(I64, 1), updates, Input::scalar(I64, 0)];
        let case = Case::of("ScatterUpdate", "opset3").inputs(inputs);
        case.expect(&[Ok("i64[3] = {1, 4..9, 3}")]);
    }
}
