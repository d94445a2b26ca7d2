//! ExperimentalDetectronROIFeatureExtractor-6: ROIAlign over a pyramid of feature maps. The size of
//! a region selects the map.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/detection/experimental-detectron-roi-feature-extractor-6.html>
//!
//! The second output has the regions in their order, as in OpenVINO; by the specification they are
//! reordered. An empty region has no features.

use crate::rule::prelude::*;
use crate::rules::detection::rows;

/// ExperimentalDetectronROIFeatureExtractor-6.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // the attributes of the specification
pub struct ExperimentalDetectronRoiFeatureExtractor {
    pub output_size: usize,
    /// 0 if it follows from the size of a region.
    pub sampling_ratio: usize,
    pub pyramid_scales: Vec<f32>,
    pub aligned: bool,
}

impl Parse for ExperimentalDetectronRoiFeatureExtractor {
    type Kind = ();

    fn parse((): (), attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        let pyramid_scales: Vec<f32> = attrs.list("pyramid_scales")?;
        let levels = attrs.input_count().saturating_sub(1);
        if pyramid_scales.len() < levels {
            let message = format!("holds {} values for {levels} levels", pyramid_scales.len());
            return Err(AttrError::new("pyramid_scales", message));
        }
        Ok(ExperimentalDetectronRoiFeatureExtractor {
            output_size: attrs.size("output_size")?,
            sampling_ratio: attrs.count_in("sampling_ratio", None, 0..1 << 10)?,
            pyramid_scales,
            aligned: attrs.bool_or("aligned", false),
        })
    }
}

impl Op for ExperimentalDetectronRoiFeatureExtractor {
    fn input_names(&self) -> &'static [&'static str] {
        &["rois"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(2..=usize::MAX)?;
        let inputs = cx.input_count();
        let element_type = cx.same_real(0..inputs)?;
        cx.expect_rows(0, 2, 4)?;
        for level in 1..inputs {
            cx.expect_rank(level, 4..=4)?;
            let items = cx.shape(level).dim(0);
            require!(level; items.contains(1), "holds {items} items, must hold one");
        }
        let channels = cx.same_dim("channels", (1..inputs).map(|level| (level, 1)))?;
        let (count, side) = (cx.shape(0).dim(0), Dim::of(self.output_size));
        cx.set(0, element_type, [count, channels, side, side]);
        cx.set(1, element_type, rows(count, 4));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    #[test]
    fn rule() {
        let check = |scales: &str, shapes: [&str; 3], expected: &[Result<&str, &str>]| {
            let case = Case::of("ExperimentalDetectronROIFeatureExtractor", "opset6");
            let case = case.attr("output_size", "7").attr("sampling_ratio", "2");
            let case = case.attr("pyramid_scales", scales);
            case.inputs(shapes.map(|s| Input::shape(F32, s))).expect(expected);
        };
        let shapes = ["5,4", "1,2,16,16", "1,2,8,8"];
        check("4,8", shapes, &[Ok("f32[5,2,7,7]"), Ok("f32[5,4]")]);
        check("4,8", ["...", "...", "1,2,?,?"], &[Ok("f32[?,2,7,7]"), Ok("f32[?,4]")]);
        check("4,8", ["?,?", "...", "?,?,?,?"], &[Ok("f32[?,?,7,7]"), Ok("f32[?,4]")]);
        check("4,8", ["5,4", "1,2,16,16", "1,3,8,8"], &[Err("has 3 channels")]);
        check("4,8", ["5,4", "1,2,16,16", "2,2,8,8"], &[Err("holds 2 items, must hold one")]);
        check("4", shapes, &[Err("pyramid_scales: holds 1 values for 2 levels")]);
    }
}
