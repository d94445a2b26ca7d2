//! Proposal-1, -4: the best boxes per image that a network proposes around anchors; from version 4
//! on with their scores.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/detection/proposal-4.html>
//!
//! With `framework="tensorflow"` x and y are swapped, which the specification leaves to the
//! framework: the first coordinate of a box is along the height of the image.

use crate::rule::prelude::*;
use crate::rules::detection::{divided, rows};

/// Proposal of all versions.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // the attributes of the specification
pub struct Proposal {
    pub base_size: f32,
    pub pre_nms_topn: usize,
    pub post_nms_topn: usize,
    pub nms_thresh: f32,
    pub feat_stride: f32,
    pub min_size: f32,
    pub ratio: Vec<f32>,
    pub scale: Vec<f32>,
    pub clip_before_nms: bool,
    pub clip_after_nms: bool,
    pub normalize: bool,
    pub box_size_scale: f32,
    pub box_coordinate_scale: f32,
    pub tensorflow: bool,
}

impl Parse for Proposal {
    type Kind = ();

    fn parse((): (), attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        Ok(Proposal {
            base_size: attrs.single("base_size", None)?,
            pre_nms_topn: attrs.size("pre_nms_topn")?,
            post_nms_topn: attrs.size("post_nms_topn")?,
            nms_thresh: attrs.single("nms_thresh", None)?,
            feat_stride: attrs.single("feat_stride", None)?,
            min_size: attrs.single("min_size", None)?,
            ratio: attrs.list("ratio")?,
            scale: attrs.list("scale")?,
            clip_before_nms: attrs.bool_or("clip_before_nms", true),
            clip_after_nms: attrs.bool_or("clip_after_nms", false),
            normalize: attrs.bool_or("normalize", false),
            box_size_scale: attrs.single("box_size_scale", Some(1.0))?,
            box_coordinate_scale: attrs.single("box_coordinate_scale", Some(1.0))?,
            tensorflow: attrs.choice_or(
                "framework",
                &[("", false), ("tensorflow", true)],
                false,
            )?,
        })
    }
}

impl Op for Proposal {
    fn input_names(&self) -> &'static [&'static str] {
        &["class_probs", "bbox_deltas", "image_shape"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(3..=3)?;
        let element_type = cx.mixed_real(0..3)?;
        cx.expect_rank(0, 4..=4)?;
        cx.expect_rank(1, 4..=4)?;
        cx.expect_rank(2, 1..=1)?;
        let batch = cx.same_dim("items", [(0, 0), (1, 0)])?;
        cx.same_dim("rows", [(0, 2), (1, 2)])?;
        cx.same_dim("columns", [(0, 3), (1, 3)])?;
        let anchors = divided(0, cx.shape(0).dim(1), Dim::fixed(2))?;
        let deltas = divided(1, cx.shape(1).dim(1), Dim::fixed(4))?;
        let own = Dim::of(self.ratio.len().saturating_mul(self.scale.len()));
        let met = anchors.meet(own);
        require!(0; met.is_some(), "is for {anchors} anchors, ratio and scale give {own}");
        require!(1; deltas.meet(own).is_some(), "is for {deltas} anchors, class_probs for {own}");
        let info = cx.shape(2).dim(0);
        require!(2; info.contains(3) || info.contains(4), "holds {info} elements, not 3 or 4");
        let count = batch.times(Dim::of(self.post_nms_topn));
        cx.set(0, element_type, rows(count, 5));
        cx.set(1, element_type, [count]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    #[test]
    fn rule() {
        let check = |shapes: [&str; 3], expected: &[Result<&str, &str>]| {
            let case = [
                ("base_size", "16"),
                ("pre_nms_topn", "40"),
                ("post_nms_topn", "8"),
                ("nms_thresh", "0.7"),
                ("feat_stride", "16"),
                ("min_size", "1"),
                ("ratio", "0.5,1"),
                ("scale", "1,2"),
            ];
            let of = Case::of("Proposal", "opset4");
            let case = case.iter().fold(of, |case, (name, value)| case.attr(name, value));
            case.inputs(shapes.map(|s| Input::shape(F16, s))).expect(expected);
        };
        check(["2,8,3,4", "2,16,3,4", "3"], &[Ok("f16[16,5]"), Ok("f16[16]")]);
        check(["?,8,?,4", "...", "?"], &[Ok("f16[?,5]"), Ok("f16[?]")]);
        check(["...", "1..2,?,3,4", "4"], &[Ok("f16[8..16,5]"), Ok("f16[8..16]")]);
        check(["2,8,3,4", "3,16,3,4", "3"], &[Err("has 3 items, an earlier input has 2")]);
        check(["2,9,3,4", "2,16,3,4", "3"], &[Err("9 is not a multiple of 2")]);
        check(["2,8,3,4", "2,20,3,4", "3"], &[Err("is for 5 anchors, class_probs for 4")]);
        check(["2,6,3,4", "2,12,3,4", "3"], &[Err("is for 3 anchors, ratio and scale give 4")]);
        check(["2,8,3,4", "2,16,3,4", "5"], &[Err("holds 5 elements, not 3 or 4")]);
    }
}
