//! FakeConvert-13: rounds elements to the values of an 8-bit floating-point type.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/quantization/fake-convert-13.html>
//!
//! Values out of range become the largest finite value, as in OpenVINO. Its Convert gives infinity
//! or NaN instead.

use crate::ops::fake_quantize::repeated;
use crate::rule::prelude::*;
use crate::rules::broadcast::AutoBroadcast;

/// FakeConvert-13.
#[derive(Debug)]
pub struct FakeConvert {
    destination: ElementType,
}

impl Parse for FakeConvert {
    type Kind = ();

    fn parse((): (), attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        let types = [("f8e4m3", ElementType::F8E4M3), ("f8e5m2", ElementType::F8E5M2)];
        Ok(FakeConvert { destination: attrs.choice("destination_type", &types)? })
    }
}

impl FakeConvert {
    /// The 8-bit type: f8e4m3 or f8e5m2.
    pub fn destination(&self) -> ElementType {
        self.destination
    }
}

impl Op for FakeConvert {
    fn input_names(&self) -> &'static [&'static str] {
        &["data", "scale", "shift"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(2..=3)?;
        let inputs = cx.input_count();
        let element_type = cx.same_real(0..inputs)?;
        let mut shape = cx.shape(0).clone();
        for input in 1..inputs {
            shape = repeated(cx, AutoBroadcast::Numpy, &shape, input)?;
        }
        if inputs > 2 {
            let (scale, shift) = (cx.shape(1), cx.shape(2));
            require!(2; shift.is_compatible(scale), "is {shift}, scale is {scale}");
        }
        cx.set(0, element_type, shape);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    #[test]
    fn rule() {
        let op = |to: &str, shapes: &[&str], expected| {
            let case = Case::of("FakeConvert", "opset13").attr("destination_type", to);
            case.inputs(shapes.iter().map(|s| Input::shape(BF16, s))).expect(&[expected]);
        };
        op("f8e4m3", &["2,3,?", "3,1", "3,1"], Ok("bf16[2,3,?]"));
        op("f8e5m2", &["...", "1"], Ok("bf16[...]"));
        op("f8e5m2", &["?,3", "2,3"], Ok("bf16[2,3]"));
        op("f8e4m3", &["2,3", "3", "1"], Err("input 2 (shift): is [1], scale is [3]"));
        op("f8e4m3", &["2,3", "4"], Err("input 1 (scale): is [4], which cannot be repeated"));
        op("f8e4m3", &["2,3"], Err("it takes 2 to 3 inputs, not 1"));
        op("f8", &["2", "1"], Err("\"f8\" is not one of f8e4m3, f8e5m2"));
    }
}
