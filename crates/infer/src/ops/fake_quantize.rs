//! FakeQuantize-1: rounds elements to a number of quantized values between limits.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/quantization/fake-quantize-1.html>

use crate::rule::prelude::*;
use crate::rules::broadcast::AutoBroadcast;

/// FakeQuantize-1.
#[derive(Debug)]
pub struct FakeQuantize {
    levels: usize,
    broadcast: AutoBroadcast,
}

impl Parse for FakeQuantize {
    type Kind = ();

    fn parse((): (), attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        let levels = attrs.count_in("levels", None, 2..)?;
        Ok(FakeQuantize { levels, broadcast: AutoBroadcast::parse(attrs, AutoBroadcast::Numpy)? })
    }
}

impl FakeQuantize {
    /// Number of quantized values, at least 2.
    pub fn levels(&self) -> usize {
        self.levels
    }

    /// The broadcasting of the limits.
    pub fn broadcast(&self) -> AutoBroadcast {
        self.broadcast
    }
}

impl Op for FakeQuantize {
    fn input_names(&self) -> &'static [&'static str] {
        &["X", "input_low", "input_high", "output_low", "output_high"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(5..=5)?;
        let element_type = cx.mixed_real(0..5)?;
        let mut shape = cx.shape(0).clone();
        for input in 1..5 {
            shape = repeated(cx, self.broadcast, &shape, input)?;
        }
        cx.set(0, element_type, shape);
        Ok(())
    }

    fn traits(&self) -> OpTraits {
        OpTraits::PURE.mixing()
    }
}

/// The shape of the data, to which an input must broadcast.
///
/// # Errors
/// When it does not.
pub(crate) fn repeated(
    cx: &mut InferCx<'_>,
    rule: AutoBroadcast,
    data: &PartialShape,
    input: usize,
) -> Result<PartialShape, RuleError> {
    let own = cx.shape(input);
    let all = rule.apply(data, own, cx.symbols()).ok();
    all.and_then(|all| data.meet(&all)).ok_or_else(|| {
        RuleError::at(input, format!("is {own}, which cannot be repeated to {data}"))
    })
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    #[test]
    fn rule() {
        let op = |attrs: &[(&str, &str)], shapes: [&str; 5], expected| {
            let case = Case::of("FakeQuantize", "opset1");
            let case = attrs.iter().fold(case, |case, (name, value)| case.attr(name, value));
            case.inputs(shapes.map(|s| Input::shape(F32, s))).expect(&[expected]);
        };
        let levels = [("levels", "256")];
        op(&levels, ["2,3,?", "[]", "3,1", "1", "1,1,1"], Ok("f32[2,3,?]"));
        op(&levels, ["2,?,4..5", "[]", "3,1", "1", "..."], Ok("f32[2,3,4..5]"));
        op(&levels, ["...", "3", "3", "3", "3"], Ok("f32[...]"));
        op(&levels, ["1,3", "2,3", "1", "1", "1"], Err("input 1 (input_low): is [2,3], which"));
        op(&levels, ["3", "3", "3", "1,3", "3"], Err("input 3 (output_low): is [1,3], which"));
        let pdpd = [("levels", "2"), ("auto_broadcast", "pdpd"), ("axis", "1")];
        op(&pdpd, ["2,3,4", "3", "3", "1", "1"], Ok("f32[2,3,4]"));
        let none = [("levels", "2"), ("auto_broadcast", "none")];
        op(&none, ["2,3", "2,3", "2,3", "2,3", "1"], Err("input 4 (output_high): is [1]"));
        op(&[("levels", "1")], ["1"; 5], Err("attribute levels: 1 is not in 2.."));
    }

    #[test]
    fn f32_beside_f16_gives_the_type_of_the_data() {
        Case::of("FakeQuantize", "opset1")
            .attr("levels", "256")
            .inputs([
                Input::shape(F16, "2,3"),
                Input::shape(F32, "1"),
                Input::shape(F32, "1"),
                Input::shape(F16, "1"),
                Input::shape(F32, "1"),
            ])
            .expect(&[Ok("f16[2,3]")]);
    }
}
