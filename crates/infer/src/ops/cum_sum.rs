//! CumSum-3: cumulative sums along an axis.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/arithmetic/cumsum-3.html>

use crate::rule::prelude::*;
use crate::rules::axes;

/// CumSum-3.
#[derive(Debug)]
pub struct CumSum {
    exclusive: bool,
    reverse: bool,
}

impl Parse for CumSum {
    type Kind = ();

    fn parse((): (), attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        let exclusive = attrs.bool_or("exclusive", false);
        Ok(CumSum { exclusive, reverse: attrs.bool_or("reverse", false) })
    }
}

impl CumSum {
    /// Whether an element is excluded from its own sum.
    pub fn is_exclusive(&self) -> bool {
        self.exclusive
    }

    /// Whether sums begin at the end of the axis.
    pub fn is_reverse(&self) -> bool {
        self.reverse
    }
}

impl Op for CumSum {
    fn input_names(&self) -> &'static [&'static str] {
        &["data", "axis"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(1..=2)?;
        let element_type = cx.expect_number(0)?;
        if cx.input_count() > 1 {
            let count = cx.shape(1).volume();
            require!(1; count.contains(1), "must hold one element, not {count}");
            axes::of_input(cx, cx.rank(0).map(|rank| rank.max(1)), 1)?;
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
        let op = Case::of("CumSum", "opset3");
        let data = |shape| Input::shape(I32, shape);
        for (shape, axis, expected) in [
            ("2,?,3..4", Input::scalar(I64, -1), Ok("i32[2,?,3..4]")),
            ("...", Input::scalar(I32, 9), Ok("i32[...]")),
            ("2,3", Input::shape(I64, "[]"), Ok("i32[2,3]")),
            ("[]", Input::scalar(I64, -1), Ok("i32[]")),
            ("2,3", Input::scalar(I64, 2), Err("input 1 (axis): axis 2 is out of range")),
            ("2,3", Input::ints(I64, &[0, 1]), Err("(axis): must hold one element, not 2")),
            ("2,3", Input::shape(F32, "[]"), Err("(axis): must be an integer type, not f32")),
        ] {
            op.clone().inputs([data(shape), axis]).expect(&[expected]);
        }
        op.clone().inputs([data("5")]).expect(&[Ok("i32[5]")]);
        op.inputs([Input::shape(Boolean, "5")]).expect(&[Err("must be a numeric type")]);
    }
}
