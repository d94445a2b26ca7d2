//! GatherElements-6: single elements, each by an index along one axis.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/movement/gather-elements-6.html>

use crate::rule::prelude::*;
use crate::rules::{axes, gather};

/// GatherElements-6.
#[derive(Debug)]
pub struct GatherElements {
    axis: i64,
}

impl Parse for GatherElements {
    type Kind = ();

    fn parse((): (), attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        Ok(GatherElements { axis: attrs.int("axis")? })
    }
}

impl GatherElements {
    /// The axis of the indices.
    ///
    /// # Errors
    /// When it is out of range for this rank.
    pub fn axis(&self, rank: usize) -> Result<usize, RuleError> {
        axes::normalize_attribute("axis", self.axis, rank)
    }
}

impl Op for GatherElements {
    fn input_names(&self) -> &'static [&'static str] {
        &["data", "indices"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(2..=2)?;
        cx.expect_integer(1)?;
        cx.expect_rank(1, 1..=usize::MAX)?;
        let (data, indices) = (cx.shape(0), cx.shape(1));
        let shape = match data.rank() {
            None => indices.clone(),
            Some(rank) => {
                let axis = self.axis(rank)?;
                let message = || {
                    let rule = "must be as the data on all axes but";
                    format!("is {indices}, data {data}: {rule} {axis}")
                };
                let others = data.clone().with_dim(axis, Dim::any());
                indices.meet(&others).ok_or_else(|| RuleError::at(1, message()))?
            }
        };
        cx.because("the shape of the indices is unknown");
        cx.set(0, cx.element_type(0), shape);
        Ok(())
    }

    fn value(&self, cx: &ValueCx<'_>) -> Option<PartialValue> {
        gather::of_list(cx)
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
    fn value() {
        let (data, indices) = (Input::bounds(I64, &[(2, 2), (1, 9)]), Input::ints(I32, &[-1, 0]));
        let case = Case::of("GatherElements", "opset6").attr("axis", "0");
        case.inputs([data, indices]).expect(&[Ok("i64[2] = {1..9, 2}")]);
    }

    #[test]
    fn rule() {
        for (data, indices, axis, expected) in [
            ("3,4", "3,6", "1", Ok("f32[3,6]")),
            ("4,4,?", "1,?,5", "0", Ok("f32[1,4,5]")),
            ("3,4", "...", "-1", Ok("f32[3,?]")),
            ("...", "3,?", "0", Ok("f32[3,?]")),
            (
                "3,4",
                "2,6",
                "1",
                Err("input 1 (indices): is [2,6], data [3,4]: must be as the data"),
            ),
            ("3,4", "3", "1", Err("input 1 (indices): is [3], data [3,4]")),
            ("3,4", "3,4", "2", Err("axis 2 is out of range for rank 2")),
            ("[]", "1", "0", Err("axis 0 is out of range for a scalar")),
        ] {
            let inputs = [Input::shape(F32, data), Input::shape(I32, indices)];
            let case = Case::of("GatherElements", "opset6").attr("axis", axis);
            case.inputs(inputs).expect(&[expected]);
        }
    }
}
