//! ShapeOf-1, ShapeOf-3: the shape of a tensor as a tensor.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/shape/shape-of-3.html>

use crate::lattice::value::Interval;
use crate::rule::prelude::*;

/// The versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Always i64.
    V1,
    /// With `output_type`.
    V3,
}

/// ShapeOf-1 and ShapeOf-3.
#[derive(Debug)]
pub struct ShapeOf {
    output_type: ElementType,
}

impl Parse for ShapeOf {
    type Kind = Kind;

    fn parse(kind: Kind, attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        // OpenVINO also writes output_type for version 1, where it has no meaning.
        let output_type = attrs.index_type_or("output_type", ElementType::I64)?;
        let output_type = if kind == Kind::V1 { ElementType::I64 } else { output_type };
        Ok(ShapeOf { output_type })
    }
}

impl Op for ShapeOf {
    fn input_names(&self) -> &'static [&'static str] {
        &["data"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(1..=1)?;
        let shape = match cx.rank(0) {
            Some(rank) => PartialShape::fixed(&[rank]),
            None => {
                cx.because("the rank of the data is unknown");
                PartialShape::of_rank(1)
            }
        };
        cx.set(0, self.output_type, shape);
        Ok(())
    }

    fn value(&self, cx: &ValueCx<'_>) -> Option<PartialValue> {
        let dims = cx.input(0)?.shape.dims()?;
        let values = dims.iter().map(|d| Interval::from(*d)).collect();
        Some(PartialValue::ints(self.output_type, &[dims.len()], values))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    #[test]
    fn rule() {
        let of = |version, shape| Case::of("ShapeOf", version).inputs([Input::shape(F32, shape)]);
        of("opset1", "2,?,3..4").expect(&[Ok("i64[3] = {2, 0.., 3..4}")]);
        of("opset3", "...").attr("output_type", "i32").expect(&[Ok("i32[?]")]);
        of("opset3", "[]").expect(&[Ok("i64[0] = {}")]);
        of("opset3", "1").attr("output_type", "f32").expect(&[Err("must be i32 or i64, not f32")]);
    }
}
