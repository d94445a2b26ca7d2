//! PriorBoxClustered-1: boxes of given widths and heights around every cell of a grid.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/detection/prior-box-clustered-1.html>

use crate::rule::prelude::*;
use crate::rules::detection::{infer_prior_boxes, variances};

/// PriorBoxClustered-1.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // the attributes of the specification
pub struct PriorBoxClustered {
    /// Width and height of each box.
    pub sizes: Vec<(f32, f32)>,
    pub clip: bool,
    /// Horizontal and vertical distance of the centres; 0 if it follows from the image.
    pub step: (f32, f32),
    pub offset: f32,
    pub variance: Vec<f32>,
}

impl Parse for PriorBoxClustered {
    type Kind = ();

    fn parse((): (), attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        let mut sides = |name| Ok(attrs.list_opt(name)?.unwrap_or_else(|| vec![1.0]));
        let (widths, heights): (Vec<f32>, Vec<f32>) = (sides("width")?, sides("height")?);
        if widths.len() != heights.len() {
            let message = format!("holds {} values, width {}", heights.len(), widths.len());
            return Err(AttrError::new("height", message));
        }
        let step = attrs.single("step", Some(0.0))?;
        let mut own =
            |name| Ok(Some(attrs.single(name, Some(0.0))?).filter(|s| *s != 0.0).unwrap_or(step));
        let step = (own("step_w")?, own("step_h")?);
        let offset = attrs.single("offset", None)?;
        let sizes = widths.into_iter().zip(heights).collect();
        let (clip, variance) = (attrs.bool_or("clip", true), variances(attrs)?);
        Ok(PriorBoxClustered { sizes, clip, step, offset, variance })
    }
}

impl Op for PriorBoxClustered {
    fn input_names(&self) -> &'static [&'static str] {
        &["output_size", "image_size"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        infer_prior_boxes(cx, Dim::of(self.sizes.len()))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    #[test]
    fn rule() {
        let check = |width: &str, size: Input, expected| {
            let case = Case::of("PriorBoxClustered", "opset1").attr("offset", "0.5");
            let case = case.attr("width", width).attr("height", "15,8");
            case.inputs([size, Input::shape(I64, "2")]).expect(&[expected]);
        };
        check("10,20", Input::ints(I64, &[3, 4]), Ok("f32[2,96]"));
        check("10,20", Input::shape(I32, "?"), Ok("f32[2,?]"));
        check("10", Input::shape(I32, "?"), Err("attribute height: holds 2 values, width 1"));
    }
}
