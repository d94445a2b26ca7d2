//! GatherTree-1: the sequences of a beam search, from token and parent of each step.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/movement/gather-tree-1.html>

use crate::rule::prelude::*;

/// GatherTree-1.
#[derive(Debug)]
pub struct GatherTree;

no_attributes!(GatherTree);

impl Op for GatherTree {
    fn input_names(&self) -> &'static [&'static str] {
        &["step_ids", "parent_ids", "max_seq_len", "end_token"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(4..=4)?;
        cx.expect_number(0)?;
        let element_type = cx.same_type(0..4)?;
        for (input, rank) in [(0, 3), (1, 3), (2, 1), (3, 0)] {
            cx.expect_rank(input, rank..=rank)?;
        }
        let (steps, parents, lengths) = (cx.shape(0), cx.shape(1), cx.shape(2));
        let shape = steps.meet(parents).and_then(|s| s.meet(&PartialShape::of_rank(3)));
        let Some(shape) = shape else {
            return Err(RuleError::at(1, format!("is {parents}, but step_ids are {steps}")));
        };
        let batch = shape.dim(1);
        let message = || format!("is {lengths}, but the batch is {batch}");
        let batch = batch.meet(lengths.dim(0)).ok_or_else(|| RuleError::at(2, message()))?;
        cx.set(0, element_type, shape.with_dim(1, batch));
        Ok(())
    }

    fn traits(&self) -> OpTraits {
        OpTraits::moving(InputSet::of([0, 3]))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    #[test]
    fn rule() {
        for (steps, parents, lengths, end, expected) in [
            ("100,1,10", "100,1,10", "1", "[]", Ok("i32[100,1,10]")),
            ("?,?,10", "4,?,?", "2", "[]", Ok("i32[4,2,10]")),
            ("...", "...", "...", "...", Ok("i32[?,?,?]")),
            ("4,2,3", "4,2,4", "2", "[]", Err("input 1 (parent_ids): is [4,2,4], but step_ids")),
            ("4,2,3", "4,2,3", "3", "[]", Err("input 2 (max_seq_len): is [3], but the batch is 2")),
            ("4,2", "4,2", "2", "[]", Err("input 0 (step_ids): must have rank 3, not 2")),
            ("4,2,3", "4,2,3", "2", "1", Err("input 3 (end_token): must have rank 0, not 1")),
        ] {
            let inputs = [steps, parents, lengths, end].map(|s| Input::shape(I32, s));
            Case::of("GatherTree", "opset1").inputs(inputs).expect(&[expected]);
        }
    }
}
