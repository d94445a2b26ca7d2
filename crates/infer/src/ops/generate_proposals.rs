//! GenerateProposals-9, ExperimentalDetectronGenerateProposalsSingleImage-6: the best boxes per
//! image that a network proposes around anchors.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/detection/generate-proposals-9.html>

use crate::rule::prelude::*;
use crate::rules::detection::{rows, up_to};

/// The operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// GenerateProposals: a batch.
    Batch,
    /// ExperimentalDetectronGenerateProposalsSingleImage: no batch axis, and a fixed number of
    /// results.
    Single,
}

/// GenerateProposals.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // the attributes of the specification
pub struct GenerateProposals {
    pub kind: Kind,
    pub min_size: f32,
    pub nms_threshold: f32,
    pub pre_nms_count: usize,
    pub post_nms_count: usize,
    pub normalized: bool,
    pub nms_eta: f32,
    roi_num_type: ElementType,
}

impl Parse for GenerateProposals {
    type Kind = Kind;

    fn parse(kind: Kind, attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        let batch = kind == Kind::Batch;
        Ok(GenerateProposals {
            kind,
            min_size: attrs.single("min_size", None)?,
            nms_threshold: attrs.single("nms_threshold", None)?,
            pre_nms_count: attrs.count_in("pre_nms_count", None, 0..)?,
            post_nms_count: attrs.count_in("post_nms_count", None, 0..)?,
            normalized: batch && attrs.bool_or("normalized", true),
            nms_eta: if batch { attrs.single("nms_eta", Some(1.0))? } else { 1.0 },
            roi_num_type: match kind {
                Kind::Batch => attrs.element_type_or("roi_num_type", ElementType::I64)?,
                Kind::Single => ElementType::I64,
            },
        })
    }
}

impl GenerateProposals {
    fn single(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_rank(0, 1..=1)?;
        let info = cx.shape(0).dim(0);
        require!(0; info.contains(3) || info.contains(4), "holds {info} elements, not 3 or 4");
        cx.expect_rows(1, 2, 4)?;
        cx.expect_rank(2, 3..=3)?;
        cx.expect_rank(3, 3..=3)?;
        anchors_agree(cx, [(2, 0), (3, 0)])?;
        let height = cx.same_dim("rows", [(2, 1), (3, 1)])?;
        let width = cx.same_dim("columns", [(2, 2), (3, 2)])?;
        let all = height.times(width).times(cx.shape(3).dim(0));
        let own = cx.shape(1).dim(0);
        require!(1; own.meet(all).is_some(), "holds {own} anchors, there are {all} scores");
        let (element_type, count) = (cx.same_type(0..4)?, Dim::of(self.post_nms_count));
        cx.set(0, element_type, rows(count, 4));
        cx.set(1, element_type, [count]);
        Ok(())
    }

    fn batch(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_rank(0, 2..=2)?;
        let info = cx.shape(0).dim(1);
        require!(0; info.contains(3) || info.contains(4), "is {}, the last axis must have 3 or 4 elements", cx.shape(0));
        cx.expect_rows(1, 4, 4)?;
        cx.expect_rank(2, 4..=4)?;
        cx.expect_rank(3, 4..=4)?;
        anchors_agree(cx, [(2, 1), (3, 1)])?;
        cx.same_dim("anchors", [(1, 2), (3, 1)])?;
        cx.same_dim("rows", [(1, 0), (2, 2), (3, 2)])?;
        cx.same_dim("columns", [(1, 1), (2, 3), (3, 3)])?;
        let images = cx.same_dim("images", [(0, 0), (2, 0), (3, 0)])?;
        let count = up_to(images).times(up_to(Dim::of(self.post_nms_count)));
        let element_type = cx.mixed(0..4)?;
        cx.because("the number of proposals depends on the data");
        cx.set(0, element_type, rows(count, 4));
        cx.set(1, element_type, [count]);
        cx.set(2, self.roi_num_type, [images]);
        Ok(())
    }
}

/// Checks that there are four deltas for each score.
fn anchors_agree(cx: &InferCx<'_>, [deltas, scores]: [(usize, usize); 2]) -> Result<(), RuleError> {
    let dim = |(input, axis): (usize, usize)| cx.shape(input).dim(axis);
    let (found, anchors) = (dim(deltas), dim(scores));
    let fits = found.meet(anchors.scaled(4)).is_some();
    require!(deltas.0; fits, "has {found} deltas for {anchors} anchors of four each");
    Ok(())
}

impl Op for GenerateProposals {
    fn input_names(&self) -> &'static [&'static str] {
        &["im_info", "anchors", "deltas", "scores"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(4..=4)?;
        for input in 0..4 {
            cx.expect_real(input)?;
        }
        match self.kind {
            Kind::Batch => self.batch(cx),
            Kind::Single => self.single(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    fn check(kind: &'static str, shapes: [&str; 4], expected: &[Result<&str, &str>]) {
        let case = Case::of(kind, "opset9").attr("min_size", "1").attr("nms_threshold", "0.6");
        let case = case.attr("pre_nms_count", "10").attr("post_nms_count", "6");
        case.inputs(shapes.map(|s| Input::shape(F16, s))).expect(expected);
    }

    #[test]
    fn batch() {
        let kind = "GenerateProposals";
        check(
            kind,
            ["2,4", "2,3,5,4", "2,20,2,3", "2,5,2,3"],
            &[Ok("f16[..12,4]"), Ok("f16[..12]"), Ok("i64[2]")],
        );
        check(
            kind,
            ["?,?", "...", "?,?,?,?", "..."],
            &[Ok("f16[?,4]"), Ok("f16[?]"), Ok("i64[?]")],
        );
        check(
            kind,
            ["...", "...", "1..3,?,?,?", "..."],
            &[Ok("f16[..18,4]"), Ok("f16[..18]"), Ok("i64[1..3]")],
        );
        check(
            kind,
            ["2,5", "2,3,5,4", "2,20,2,3", "2,5,2,3"],
            &[Err("the last axis must have 3 or 4")],
        );
        check(
            kind,
            ["2,4", "2,3,5,4", "2,16,2,3", "2,5,2,3"],
            &[Err("has 16 deltas for 5 anchors")],
        );
        check(
            kind,
            ["2,4", "2,4,5,4", "2,20,2,3", "2,5,2,3"],
            &[Err("has 3 columns, an earlier input has 4")],
        );
        check(
            kind,
            ["1,4", "2,3,5,4", "2,20,2,3", "2,5,2,3"],
            &[Err("has 2 images, an earlier input has 1")],
        );
    }

    #[test]
    fn single() {
        let kind = "ExperimentalDetectronGenerateProposalsSingleImage";
        check(kind, ["3", "30,4", "20,2,3", "5,2,3"], &[Ok("f16[6,4]"), Ok("f16[6]")]);
        check(kind, ["...", "?,?", "...", "?,?,3"], &[Ok("f16[6,4]"), Ok("f16[6]")]);
        check(
            kind,
            ["3", "31,4", "20,2,3", "5,2,3"],
            &[Err("holds 31 anchors, there are 30 scores")],
        );
        let mixed = [(F16, "3"), (F32, "30,4"), (F16, "20,2,3"), (F16, "5,2,3")];
        let mixed = mixed.map(|(t, s)| Input::shape(t, s));
        let case = Case::of(kind, "opset6").attr("min_size", "1").attr("nms_threshold", "0.6");
        let case = case.attr("pre_nms_count", "10").attr("post_nms_count", "6");
        case.inputs(mixed).expect(&[Err("is f32, but an earlier input is f16")]);
        check(kind, ["2", "30,4", "20,2,3", "5,2,3"], &[Err("holds 2 elements, not 3 or 4")]);
    }
}
