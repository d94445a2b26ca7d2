//! LRN-1: divides elements by a power of the sum of squares around them.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/normalization/lrn-1.html>
//!
//! Squares up to `size / 2` elements away count, as the specification says; for even sizes OpenVINO
//! counts those up to `(size - 1) / 2` away.

use crate::rule::prelude::*;
use crate::rules::axes;

/// LRN-1.
#[derive(Debug)]
pub struct Lrn {
    alpha: f64,
    beta: f64,
    bias: f64,
    size: usize,
}

impl Parse for Lrn {
    type Kind = ();

    fn parse((): (), attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        Ok(Lrn {
            alpha: attrs.float("alpha")?,
            beta: attrs.float("beta")?,
            bias: attrs.float("bias")?,
            size: attrs.size("size")?,
        })
    }
}

impl Lrn {
    /// Factor of the mean of squares.
    pub fn alpha(&self) -> f64 {
        self.alpha
    }

    /// The exponent.
    pub fn beta(&self) -> f64 {
        self.beta
    }

    /// Added to the mean of squares.
    pub fn bias(&self) -> f64 {
        self.bias
    }

    /// Side length of the region of squares, at least 1.
    pub fn size(&self) -> usize {
        self.size
    }
}

impl Op for Lrn {
    fn input_names(&self) -> &'static [&'static str] {
        &["data", "axes"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(2..=2)?;
        let element_type = cx.expect_real(0)?;
        axes::of_input(cx, cx.rank(0), 1)?;
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
        let op = Case::of("LRN", "opset1").attr("alpha", "1e-4").attr("beta", "0.75");
        let op = op.attr("bias", "1");
        for (size, shape, axes, expected) in [
            ("5", "6,?,10", Input::ints(I64, &[1, -1]), Ok("f32[6,?,10]")),
            ("5", "...", Input::ints(I32, &[1]), Ok("f32[...]")),
            ("5", "6,12", Input::shape(I64, "?"), Ok("f32[6,12]")),
            ("5", "6,12", Input::ints(I64, &[2]), Err("input 1 (axes): axis 2 is out of range")),
            ("0", "6,12", Input::ints(I64, &[1]), Err("attribute size: 0 is not in 1..")),
        ] {
            let inputs = [Input::shape(F32, shape), axes];
            op.clone().attr("size", size).inputs(inputs).expect(&[expected]);
        }
    }
}
