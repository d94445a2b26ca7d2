//! ROIPooling-1: pools boxes of feature maps into a fixed number of bins.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/detection/roi-pooling-1.html>
//!
//! The operation is new in opset 2; files that say opset 1 mean the same.

use crate::rule::prelude::*;
use crate::rules::boxes;

/// ROIPooling-1.
#[derive(Debug)]
pub struct RoiPooling {
    bins: (usize, usize),
    scale: f64,
    bilinear: bool,
}

impl Parse for RoiPooling {
    type Kind = ();

    fn parse((): (), attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        let mut count = |name: &str| boxes::count(attrs, name, None, 0);
        let bins = (count("pooled_h")?, count("pooled_w")?);
        // Other names for pooled_h and pooled_w; these two count.
        for name in ["output_size", "output_roi"] {
            let sizes = attrs.list_opt::<u32>(name)?.map_or(2, |sizes| sizes.len());
            if sizes != 2 {
                let message = format!("holds {sizes} values; give a height and a width");
                return Err(AttrError::new(name, message));
            }
        }
        let bilinear = attrs.choice_or("method", &[("max", false), ("bilinear", true)], false)?;
        Ok(RoiPooling { bins, scale: boxes::scale(attrs)?, bilinear })
    }
}

impl RoiPooling {
    /// Bins along the height and the width.
    pub fn bins(&self) -> (usize, usize) {
        self.bins
    }

    /// The scale from box coordinates to the feature maps; `None` if boxes are fractions of the
    /// maps.
    pub fn scale(&self) -> Option<f64> {
        (!self.bilinear).then_some(self.scale)
    }
}

impl Op for RoiPooling {
    fn input_names(&self) -> &'static [&'static str] {
        &["data", "rois"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(2..=2)?;
        cx.same_type(0..2)?;
        let (element_type, count) = boxes::boxes(cx, 5)?;
        let (height, width) = self.bins;
        let out = [count, cx.shape(0).dim(1), Dim::of(height), Dim::of(width)];
        cx.set(0, element_type, out);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    #[test]
    fn rule() {
        let run = |scale: &str, data: Input, rois: &str, expected| {
            let case = Case::of("ROIPooling", "opset2").inputs([data, Input::shape(F32, rois)]);
            let case = case.attr("pooled_h", "6").attr("pooled_w", "7").attr("method", "bilinear");
            case.attr("spatial_scale", scale).expect(&[expected]);
        };
        let data = |shape| Input::shape(F32, shape);
        run("0.0625", data("1,512,14,14"), "300,5", Ok("f32[300,512,6,7]"));
        run("1", data("?,2..3,?,?"), "?,?", Ok("f32[?,2..3,6,7]"));
        run("1", data("..."), "...", Ok("f32[?,?,6,7]"));
        run("1", data("1,2,8,8"), "3,4", Err("holds 4 numbers for each box, not 5"));
        run("1", Input::shape(F16, "1,2,8,8"), "3,5", Err("is f32, but an earlier input is f16"));
        run("-1", data("1,2,8,8"), "3,5", Err("spatial_scale: -1 is not a positive number"));
    }

    #[test]
    fn sizes_are_a_height_and_a_width() {
        let attrs = [("pooled_h", "6"), ("pooled_w", "7"), ("spatial_scale", "1")];
        for (name, value, expected) in [
            ("output_size", "6,7", Ok("f32[3,2,6,7]")),
            ("output_roi", "6, 7", Ok("f32[3,2,6,7]")),
            ("output_size", "6", Err("attribute output_size: holds 1 values; give a height")),
            ("output_roi", "6,7,8", Err("attribute output_roi: holds 3 values; give a height")),
            ("output_roi", "6,x", Err("attribute output_roi: \"x\" is not a number")),
            ("output_size", "6,-1", Err("attribute output_size: \"-1\" is not a number")),
        ] {
            let case =
                attrs.iter().fold(Case::of("ROIPooling", "opset2"), |c, (k, v)| c.attr(k, v));
            let inputs = [Input::shape(F32, "1,2,8,8"), Input::shape(F32, "3,5")];
            case.attr(name, value).inputs(inputs).expect(&[expected]);
        }
        for (given, missing) in [("pooled_h", "pooled_w"), ("pooled_w", "pooled_h")] {
            let case = Case::of("ROIPooling", "opset2").attr(given, "6").attr("spatial_scale", "1");
            let expected = format!("attribute {missing}: is missing");
            case.expect(&[Err(&expected)]);
        }
    }
}
