//! ROIAlign-3, ROIAlign-9 and ROIAlignRotated-15: pools boxes of feature maps from interpolated
//! samples.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/detection/roi-align-9.html>
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/detection/roi-align-rotated-15.html>
//!
//! As in OpenVINO, the maximum is 0 if all samples are negative.

use crate::rule::prelude::*;
use crate::rules::boxes;

/// The operations and their versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// ROIAlign without `aligned_mode`.
    V3,
    /// ROIAlign.
    V9,
    /// ROIAlignRotated.
    Rotated,
}

/// The alignment of boxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alignment {
    /// Scaled; boxes are at least 1 wide and high.
    Asymmetric,
    /// Scaled and shifted by half an element.
    HalfPixelForNn,
    /// Shifted by half a pixel, scaled, and shifted back by half an element.
    HalfPixel,
    /// As `HalfPixelForNn`, and rotated.
    Rotated {
        /// Whether angles are clockwise.
        clockwise: bool,
    },
}

/// An operation of this file.
#[derive(Debug)]
pub struct RoiAlign {
    bins: (usize, usize),
    samples: usize,
    scale: f64,
    max: bool,
    alignment: Alignment,
}

impl Parse for RoiAlign {
    type Kind = Kind;

    fn parse(kind: Kind, attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        let mut count = |name: &str, least| boxes::count(attrs, name, None, least);
        let bins = (count("pooled_h", 1)?, count("pooled_w", 1)?);
        let samples = count("sampling_ratio", 0)?;
        let alignments = [
            ("asymmetric", Alignment::Asymmetric),
            ("half_pixel_for_nn", Alignment::HalfPixelForNn),
            ("half_pixel", Alignment::HalfPixel),
        ];
        let alignment = match kind {
            Kind::V3 => Alignment::Asymmetric,
            Kind::V9 => attrs.choice_or("aligned_mode", &alignments, Alignment::Asymmetric)?,
            Kind::Rotated => {
                Alignment::Rotated { clockwise: attrs.bool_or("clockwise_mode", false) }
            }
        };
        let max = match kind {
            Kind::Rotated => false,
            _ => attrs.choice("mode", &[("max", true), ("avg", false)])?,
        };
        Ok(RoiAlign { bins, samples, scale: boxes::scale(attrs)?, max, alignment })
    }
}

impl RoiAlign {
    /// Bins along the height and the width.
    pub fn bins(&self) -> (usize, usize) {
        self.bins
    }

    /// Samples per axis of a bin; 0 for as many as the bin has elements.
    pub fn samples(&self) -> usize {
        self.samples
    }

    /// The scale from box coordinates to the feature maps.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// Whether it takes the maximum rather than the mean.
    pub fn is_max(&self) -> bool {
        self.max
    }

    /// The alignment of boxes.
    pub fn alignment(&self) -> Alignment {
        self.alignment
    }
}

impl Op for RoiAlign {
    fn input_names(&self) -> &'static [&'static str] {
        &["data", "rois", "batch_indices"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(3..=3)?;
        let size = if matches!(self.alignment, Alignment::Rotated { .. }) { 5 } else { 4 };
        cx.same_type(0..2)?;
        let (element_type, count) = boxes::boxes(cx, size)?;
        cx.expect_integer(2)?;
        cx.expect_rank(2, 1..=1)?;
        let batches = cx.shape(2).dim(0);
        let message = || format!("holds {batches} indices for {count} boxes");
        let count = count.meet(batches).ok_or_else(|| RuleError::at(2, message()))?;
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

    fn case(kind: &'static str, version: &'static str, shapes: [&str; 3]) -> Case {
        let [data, rois, batches] = shapes;
        let inputs = [Input::shape(F16, data), Input::shape(F16, rois), Input::shape(U8, batches)];
        let case = Case::of(kind, version).inputs(inputs).attr("pooled_h", "6");
        case.attr("pooled_w", "7").attr("sampling_ratio", "2").attr("spatial_scale", "0.5")
    }

    #[test]
    fn rule() {
        let run = |shapes, expected| {
            let case = case("ROIAlign", "opset9", shapes).attr("mode", "avg");
            case.attr("aligned_mode", "half_pixel").expect(&[expected]);
        };
        run(["7,256,200,200", "1000,4", "1000"], Ok("f16[1000,256,6,7]"));
        run(["?,2..4,?,?", "?,?", "3..5"], Ok("f16[3..5,2..4,6,7]"));
        run(["...", "...", "..."], Ok("f16[?,?,6,7]"));
        run(["7,256,200,200", "9,5", "9"], Err("input 1 (rois): holds 5 numbers for each box"));
        run(["7,256,200,200", "9,4", "8"], Err("holds 8 indices for 9 boxes"));
        run(["7,256,200", "9,4", "9"], Err("input 0 (data): must have rank 4, not 3"));
        let rotated = case("ROIAlignRotated", "opset15", ["1,2,8,8", "9,5", "9"]);
        rotated.attr("clockwise_mode", "true").expect(&[Ok("f16[9,2,6,7]")]);
    }

    #[test]
    fn attributes() {
        let case = case("ROIAlign", "opset3", ["1,2,8,8", "9,4", "9"]);
        case.expect(&[Err("attribute mode: is missing")]);
        case.clone().attr("mode", "min").expect(&[Err("\"min\" is not one of max, avg")]);
        case.attr("mode", "max").expect(&[Ok("f16[9,2,6,7]")]);
        let bad = Case::of("ROIAlign", "opset3").attr("pooled_h", "0");
        bad.expect(&[Err("attribute pooled_h: 0 is not in 1..=")]);
    }
}
