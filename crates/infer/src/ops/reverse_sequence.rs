//! ReverseSequence-1: reverses the beginning of each sequence of a batch.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/movement/reverse-sequence-1.html>

use crate::rule::prelude::*;
use crate::rules::axes;

/// ReverseSequence-1.
#[derive(Debug)]
pub struct ReverseSequence {
    batch_axis: i64,
    seq_axis: i64,
}

impl Parse for ReverseSequence {
    type Kind = ();

    fn parse((): (), attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        let (batch_axis, seq_axis) = (attrs.int_or("batch_axis", 0)?, attrs.int_or("seq_axis", 1)?);
        Ok(ReverseSequence { batch_axis, seq_axis })
    }
}

impl ReverseSequence {
    /// The axis of the sequences, and the axis along which they are reversed.
    ///
    /// # Errors
    /// When one is out of range for this rank, or both are equal.
    pub fn axes(&self, rank: usize) -> Result<(usize, usize), RuleError> {
        let batch = axes::normalize_attribute("batch_axis", self.batch_axis, rank)?;
        let sequence = axes::normalize_attribute("seq_axis", self.seq_axis, rank)?;
        require!(
            attribute "seq_axis"; batch != sequence,
            "batch_axis and seq_axis are both {batch}"
        );
        Ok((batch, sequence))
    }
}

impl Op for ReverseSequence {
    fn input_names(&self) -> &'static [&'static str] {
        &["data", "seq_lengths"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(2..=2)?;
        cx.expect_number(1)?;
        cx.expect_rank(0, 2..=usize::MAX)?;
        cx.expect_rank(1, 1..=1)?;
        let mut shape = cx.shape(0).clone();
        if let Some(rank) = shape.rank() {
            let (axis, _) = self.axes(rank)?;
            let (batch, lengths) = (shape.dim(axis), cx.shape(1));
            let message = || format!("is {lengths}, but the batch is {batch}");
            let batch = batch.meet(lengths.dim(0)).ok_or_else(|| RuleError::at(1, message()))?;
            shape = shape.with_dim(axis, batch);
        }
        cx.set(0, cx.element_type(0), shape);
        Ok(())
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
        for (data, lengths, batch, sequence, expected) in [
            ("4,10,100", "4", "0", "1", Ok("f32[4,10,100]")),
            ("?,?,?", "3", "0", "-1", Ok("f32[3,?,?]")),
            ("2,4,..5", "2..3", "2", "1", Ok("f32[2,4,2..3]")),
            ("...", "3", "0", "1", Ok("f32[...]")),
            ("4,10", "3", "0", "1", Err("input 1 (seq_lengths): is [3], but the batch is 4")),
            ("4,10", "4", "0", "2", Err("axis 2 is out of range for rank 2")),
            ("4,10", "4", "1", "-1", Err("batch_axis and seq_axis are both 1")),
            ("4", "4", "0", "1", Err("input 0 (data): must have rank at least 2, not 1")),
        ] {
            let inputs = [Input::shape(F32, data), Input::shape(I32, lengths)];
            let case = Case::of("ReverseSequence", "opset1").inputs(inputs);
            let case = case.attr("batch_axis", batch).attr("seq_axis", sequence);
            case.expect(&[expected]);
        }
    }
}
