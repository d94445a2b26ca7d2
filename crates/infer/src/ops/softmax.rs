//! Softmax-1, Softmax-8 and LogSoftmax-5: the softmax along an axis, and its logarithm.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/activation/softmax-8.html>

use crate::rule::prelude::*;
use crate::rules::axes;

/// The operations of this file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// SoftMax-1: the axis counts from the front.
    V1,
    /// SoftMax-8.
    V8,
    /// LogSoftmax-5.
    Log,
}

/// An operation of this file.
#[derive(Debug)]
pub struct Softmax {
    kind: Kind,
    axis: i64,
}

impl Parse for Softmax {
    type Kind = Kind;

    fn parse(kind: Kind, attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        let axis = match kind {
            Kind::V1 => attrs.int_in("axis", Some(1), 0..)?,
            Kind::V8 | Kind::Log => attrs.int_or("axis", 1)?,
        };
        Ok(Softmax { kind, axis })
    }
}

impl Softmax {
    /// Whether the result is the logarithm.
    pub fn is_log(&self) -> bool {
        self.kind == Kind::Log
    }

    /// The axis, for a tensor of this rank; 0 for a scalar.
    ///
    /// # Errors
    /// When it is out of range.
    pub fn axis(&self, rank: usize) -> Result<usize, RuleError> {
        axes::normalize_attribute("axis", self.axis, rank.max(1))
    }
}

impl Op for Softmax {
    fn input_names(&self) -> &'static [&'static str] {
        &["data"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(1..=1)?;
        let element_type = cx.expect_real(0)?;
        if let Some(rank) = cx.rank(0) {
            self.axis(rank)?;
        }
        cx.set(0, element_type, cx.shape(0).clone());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    #[test]
    fn rule() {
        for (kind, version, axis, shape, expected) in [
            ("SoftMax", "opset1", "0", "2,?", Ok("f32[2,?]")),
            ("SoftMax", "opset1", "-1", "2,3", Err("attribute axis: -1 is not in 0..")),
            ("SoftMax", "opset8", "-2", "2..4,3", Ok("f32[2..4,3]")),
            ("SoftMax", "opset8", "2", "2,3", Err("axis 2 is out of range for rank 2, [-2, 1]")),
            ("SoftMax", "opset8", "7", "...", Ok("f32[...]")),
            ("LogSoftmax", "opset5", "-1", "0,5", Ok("f32[0,5]")),
            ("LogSoftmax", "opset5", "0", "[]", Ok("f32[]")),
            ("SoftMax", "opset8", "1", "[]", Err("axis 1 is out of range")),
        ] {
            let case = Case::of(kind, version).attr("axis", axis);
            case.inputs([Input::shape(F32, shape)]).expect(&[expected]);
        }
        let plain = Case::of("SoftMax", "opset8");
        plain.clone().inputs([Input::shape(F16, "4")]).expect(&[Err("axis 1 is out of range")]);
        plain.inputs([Input::shape(I32, "4,4")]).expect(&[Err("must be a floating-point type")]);
    }
}
