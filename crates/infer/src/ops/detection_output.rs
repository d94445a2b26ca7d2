//! DetectionOutput-1, -8: decodes boxes, suppresses overlapping ones and lists the best.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/detection/detectionoutput-8.html>
//!
//! `top_k` limits the candidates per class before suppression, as in the original implementation.
//! In the specification it limits the results after it.

use crate::rule::prelude::*;
use crate::rules::detection::divided;

/// The versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// With `num_classes`.
    V1,
    /// The number of classes follows from the shapes.
    V8,
}

/// All versions of DetectionOutput.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // the attributes of the specification
pub struct DetectionOutput {
    num_classes: Option<i64>,
    pub background_label_id: i64,
    pub top_k: i64,
    pub keep_top_k: i64,
    pub variance_encoded_in_target: bool,
    /// Whether boxes are predicted as centre and size rather than as corners.
    pub by_centre: bool,
    pub share_location: bool,
    pub nms_threshold: f32,
    pub confidence_threshold: f32,
    pub clip_after_nms: bool,
    pub clip_before_nms: bool,
    pub decrease_label_id: bool,
    pub normalized: bool,
    /// Width and height of the image.
    pub image: (f32, f32),
    pub objectness_score: f32,
}

impl Parse for DetectionOutput {
    type Kind = Kind;

    fn parse(kind: Kind, attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        let codes = [
            ("caffe.PriorBoxParameter.CORNER", false),
            ("caffe.PriorBoxParameter.CENTER_SIZE", true),
        ];
        let keep: Vec<i64> = attrs.list("keep_top_k")?;
        let keep = keep.first().copied();
        Ok(DetectionOutput {
            num_classes: match kind {
                Kind::V1 => Some(attrs.int_in("num_classes", None, 1..)?),
                Kind::V8 => None,
            },
            background_label_id: attrs.int_or("background_label_id", 0)?,
            top_k: attrs.int_or("top_k", -1)?,
            keep_top_k: keep.ok_or_else(|| AttrError::new("keep_top_k", "is empty"))?,
            variance_encoded_in_target: attrs.bool_or("variance_encoded_in_target", false),
            by_centre: attrs.choice_or("code_type", &codes, false)?,
            share_location: attrs.bool_or("share_location", true),
            nms_threshold: attrs.single("nms_threshold", None)?,
            confidence_threshold: attrs.single("confidence_threshold", Some(0.0))?,
            clip_after_nms: attrs.bool_or("clip_after_nms", false),
            clip_before_nms: attrs.bool_or("clip_before_nms", false),
            decrease_label_id: attrs.bool_or("decrease_label_id", false),
            normalized: attrs.bool_or("normalized", false),
            image: (
                attrs.single("input_width", Some(1.0))?,
                attrs.single("input_height", Some(1.0))?,
            ),
            objectness_score: attrs.single("objectness_score", Some(0.0))?,
        })
    }
}

impl DetectionOutput {
    /// Elements of a prior box: four corners, preceded by the index of the image if they are in
    /// pixels.
    pub fn prior_size(&self) -> usize {
        if self.normalized { 4 } else { 5 }
    }

    /// The number of prior boxes and of classes.
    fn counts(&self, cx: &InferCx<'_>) -> Result<(Dim, Dim), RuleError> {
        let dim = |input: usize, axis: usize| cx.shape(input).dim(axis);
        let mut priors = divided(2, dim(2, 2), Dim::of(self.prior_size()))?;
        if cx.input_count() == 5 {
            priors = agree(3, priors, divided(3, dim(3, 1), Dim::fixed(2))?, "prior boxes")?;
        }
        if self.share_location {
            priors = agree(0, priors, divided(0, dim(0, 1), Dim::fixed(4))?, "prior boxes")?;
        }
        let mut classes = self.num_classes.map_or(Dim::any(), Dim::fixed);
        classes = agree(1, classes, divided(1, dim(1, 1), priors)?, "classes")?;
        priors = agree(1, priors, divided(1, dim(1, 1), classes)?, "prior boxes")?;
        if !self.share_location {
            classes = agree(0, classes, divided(0, dim(0, 1), priors.scaled(4))?, "classes")?;
            let each = classes.scaled(4);
            priors = agree(0, priors, divided(0, dim(0, 1), each)?, "prior boxes")?;
        }
        Ok((priors, classes))
    }
}

fn agree(input: usize, known: Dim, found: Dim, what: &str) -> Result<Dim, RuleError> {
    known.meet(found).ok_or_else(|| {
        RuleError::at(input, format!("is for {found} {what}, but there are {known}"))
    })
}

impl Op for DetectionOutput {
    fn input_names(&self) -> &'static [&'static str] {
        &["box_logits", "class_preds", "proposals", "aux_class_preds", "aux_box_preds"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(3..=5)?;
        require!(cx.input_count() != 4, "it takes 3 or 5 inputs, not 4");
        // Converters wrote f32 prior boxes with f16 predictions.
        cx.expect_real(2)?;
        let element_type = cx.same_real((0..cx.input_count()).filter(|i| *i != 2))?;
        for input in 0..cx.input_count() {
            let rank = if input == 2 { 3 } else { 2 };
            cx.expect_rank(input, rank..=rank)?;
        }
        let items = (0..cx.input_count()).filter(|i| *i != 2).map(|i| (i, 0));
        let batch = cx.same_dim("items", items)?;
        let own = cx.shape(2);
        let fits = own.dim(0).contains(1) || own.dim(0).meet(batch).is_some();
        require!(2; fits, "has {} items, must have 1 or {batch}", own.dim(0));
        let rows = if self.variance_encoded_in_target { 1 } else { 2 };
        require!(2; own.dim(1).contains(rows), "is {own}, axis 1 must have {rows} elements");
        if cx.input_count() == 5 {
            cx.same_dim("box predictions", [(0, 1), (4, 1)])?;
        }
        let (priors, classes) = self.counts(cx)?;
        let each = match (self.keep_top_k, self.top_k) {
            (keep, _) if keep > 0 => Dim::fixed(keep),
            (-1, top) if top > 0 => classes.scaled(top),
            _ => priors.times(classes),
        };
        let dims = [Dim::fixed(1), Dim::fixed(1), batch.times(each), Dim::fixed(7)];
        cx.set(0, element_type, dims);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    type Attr<'a> = (&'a str, &'a str);

    fn check(
        opset: &'static str,
        attrs: &[Attr<'_>],
        shapes: &[&str],
        expected: Result<&str, &str>,
    ) {
        let case = Case::of("DetectionOutput", opset).attr("nms_threshold", "0.5");
        let case = case.attr("normalized", "true");
        let case = if opset == "opset1" { case.attr("num_classes", "3") } else { case };
        let case = attrs.iter().fold(case, |case, (name, value)| case.attr(name, value));
        case.inputs(shapes.iter().map(|s| Input::shape(F32, s))).expect(&[expected]);
    }

    #[test]
    fn rule() {
        let keep = [("keep_top_k", "10")];
        let all = [("keep_top_k", "-1")];
        let top = [("keep_top_k", "-1"), ("top_k", "4")];
        let plain = ["2,24", "2,18", "1,2,24"];
        for opset in ["opset1", "opset8"] {
            check(opset, &keep, &plain, Ok("f32[1,1,20,7]"));
            check(opset, &all, &plain, Ok("f32[1,1,36,7]"));
            check(opset, &top, &plain, Ok("f32[1,1,24,7]"));
            check(opset, &keep, &["?,?", "?,?", "1,2,24"], Ok("f32[1,1,?,7]"));
            check(opset, &keep, &["...", "1..3,?", "..."], Ok("f32[1,1,10..30,7]"));
            check(opset, &all, &["2,24", "2,18", "..."], Ok("f32[1,1,36,7]"));
            let other = [&keep[..], &[("share_location", "false")]].concat();
            check(opset, &other, &["2,72", "2,18", "1,2,24"], Ok("f32[1,1,20,7]"));
            check(opset, &keep, &["2,24", "3,18", "1,2,24"], Err("has 3 items"));
            check(opset, &keep, &["2,24", "2,18", "1,1,24"], Err("axis 1 must have 2 elements"));
            check(opset, &keep, &["2,28", "2,18", "1,2,24"], Err("is for 7 prior boxes"));
            check(opset, &keep, &["2,24", "2,17", "1,2,24"], Err("17 is not a multiple of"));
            check(opset, &keep, &["2,24", "2,18", "1,2,24", "2,12"], Err("3 or 5 inputs, not 4"));
        }
    }

    #[test]
    fn f32_beside_f16_gives_the_type_of_the_data() {
        Case::of("DetectionOutput", "opset8")
            .attr("nms_threshold", "0.5")
            .attr("keep_top_k", "10")
            .attr("normalized", "true")
            .inputs([
                Input::shape(F16, "2,24"),
                Input::shape(F16, "2,18"),
                Input::shape(F32, "1,2,24"),
            ])
            .expect(&[Ok("f16[1,1,20,7]")]);
    }
}
