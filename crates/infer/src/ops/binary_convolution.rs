//! BinaryConvolution-1: a convolution of bits, in which 0 stands for -1.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/convolution/binary-convolution-1.html>
//!
//! As in OpenVINO's CPU plugin, `pad_value` is a real number (0 adds nothing), and the bits of the
//! filters begin with the lowest of each byte.

use crate::ops::convolution::{Convolution, Kind};
use crate::rule::prelude::*;

/// BinaryConvolution-1.
#[derive(Debug)]
pub struct BinaryConvolution {
    convolution: Convolution,
    pad: f64,
}

impl Parse for BinaryConvolution {
    type Kind = ();

    fn parse((): (), attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        attrs.choice("mode", &[("xnor-popcount", ())])?;
        let pad = attrs.float("pad_value")?;
        let convolution = Convolution::parse(Kind::Plain, attrs)?;
        match convolution.windows().len() {
            2 => Ok(BinaryConvolution { convolution, pad }),
            axes => Err(AttrError::new("strides", format!("{axes} values; there are 2 axes"))),
        }
    }
}

impl BinaryConvolution {
    /// Windows and filters.
    pub fn convolution(&self) -> &Convolution {
        &self.convolution
    }

    /// The padding value.
    pub fn pad(&self) -> f64 {
        self.pad
    }
}

impl Op for BinaryConvolution {
    fn input_names(&self) -> &'static [&'static str] {
        &["data", "filters"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(2..=2)?;
        let element_type = cx.expect_number(0)?;
        cx.expect_type(1, "u1", |t| t == ElementType::U1)?;
        let shape = self.convolution.shape(cx)?;
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
        let op = |strides: &str, data: &str, filters: Input, expected| {
            let case = Case::of("BinaryConvolution", "opset1").attr("strides", strides);
            let case = case.attr("mode", "xnor-popcount").attr("pad_value", "0");
            case.inputs([Input::shape(F32, data), filters]).expect(&[expected]);
        };
        let u1 = |shape| Input::shape(U1, shape);
        op("1,1", "1,3,8,?", u1("4,3,5,5"), Ok("f32[1,4,4,1..]"));
        op("2,1", "...", u1("4,3,5,5"), Ok("f32[?,4,1..,1..]"));
        op("1,1", "1,3,8,8", u1("4,2,5,5"), Err("has 3 channels, the filters are for 2"));
        op("1,1", "1,3,8,8", Input::shape(F32, "4,3,5,5"), Err("must be u1, not f32"));
        op("1", "1,3,8", u1("4,3,5"), Err("attribute strides: 1 values; there are 2 axes"));
    }
}
