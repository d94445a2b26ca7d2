//! ExperimentalDetectronDetectionOutput-6: refines regions class by class and lists the best.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/detection/experimental-detectron-detection-output-6.html>
//!
//! Class 0 is the background and never listed, and boxes are clipped at 0 only. OpenVINO does so
//! for any `class_agnostic_box_regression` and image size.

use crate::rule::prelude::*;
use crate::rules::detection::rows;

/// ExperimentalDetectronDetectionOutput-6.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // the attributes of the specification
pub struct ExperimentalDetectronDetectionOutput {
    pub score_threshold: f32,
    pub nms_threshold: f32,
    num_classes: i64,
    pub post_nms_count: i64,
    pub max_detections_per_image: usize,
    pub max_delta_log_wh: f32,
    pub deltas_weights: [f32; 4],
}

impl Parse for ExperimentalDetectronDetectionOutput {
    type Kind = ();

    fn parse((): (), attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        attrs.ignore(&["class_agnostic_box_regression"]);
        let weights: Vec<f32> = attrs.list("deltas_weights")?;
        let deltas_weights = <[f32; 4]>::try_from(weights).map_err(|found| {
            AttrError::new("deltas_weights", format!("holds {} values, not 4", found.len()))
        })?;
        Ok(ExperimentalDetectronDetectionOutput {
            score_threshold: attrs.single("score_threshold", None)?,
            nms_threshold: attrs.single("nms_threshold", None)?,
            num_classes: attrs.int_in("num_classes", None, 0..)?,
            post_nms_count: attrs.int("post_nms_count")?,
            max_detections_per_image: attrs.size("max_detections_per_image")?,
            max_delta_log_wh: attrs.single("max_delta_log_wh", None)?,
            deltas_weights,
        })
    }
}

impl Op for ExperimentalDetectronDetectionOutput {
    fn input_names(&self) -> &'static [&'static str] {
        &["input_rois", "input_deltas", "input_scores", "input_im_info"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(4..=4)?;
        let element_type = cx.same_real(0..4)?;
        cx.expect_rows(0, 2, 4)?;
        cx.expect_rows(1, 2, self.num_classes.saturating_mul(4))?;
        cx.expect_rows(2, 2, self.num_classes)?;
        cx.expect_rows(3, 2, 3)?;
        let images = cx.shape(3).dim(0);
        require!(3; images.contains(1), "is of {images} images, must be of one");
        cx.same_dim("regions", [(0, 0), (1, 0), (2, 0)])?;
        let count = Dim::of(self.max_detections_per_image);
        let list: PartialShape = [count].into_iter().collect();
        cx.set(0, element_type, rows(count, 4));
        cx.set(1, ElementType::I32, list.clone());
        cx.set(2, element_type, list);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    #[test]
    fn rule() {
        let check = |weights: &str, shapes: [&str; 4], expected: &[Result<&str, &str>]| {
            let case = [
                ("score_threshold", "0.05"),
                ("nms_threshold", "0.5"),
                ("num_classes", "3"),
                ("post_nms_count", "10"),
                ("max_detections_per_image", "6"),
                ("max_delta_log_wh", "4"),
                ("deltas_weights", weights),
            ];
            let of = Case::of("ExperimentalDetectronDetectionOutput", "opset6");
            let case = case.iter().fold(of, |case, (name, value)| case.attr(name, value));
            case.inputs(shapes.map(|s| Input::shape(F16, s))).expect(expected);
        };
        let (weights, all) = ("10,10,5,5", [Ok("f16[6,4]"), Ok("i32[6]"), Ok("f16[6]")]);
        check(weights, ["8,4", "8,12", "8,3", "1,3"], &all);
        check(weights, ["...", "?,?", "?,3", "..."], &all);
        check(weights, ["8,4", "8,9", "8,3", "1,3"], &[Err("the last axis must have 12 elements")]);
        check(weights, ["8,4", "7,12", "8,3", "1,3"], &[Err("has 7 regions")]);
        check(weights, ["8,4", "8,12", "8,3", "2,3"], &[Err("is of 2 images, must be of one")]);
        check(
            "1,2",
            ["8,4", "8,12", "8,3", "1,3"],
            &[Err("deltas_weights: holds 2 values, not 4")],
        );
    }
}
