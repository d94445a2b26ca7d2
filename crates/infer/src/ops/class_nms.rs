//! MatrixNms-8, MulticlassNms-8, -9: non-maximum suppression per class and image.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/sort/multiclass-non-max-suppression-9.html>
//!
//! As in OpenVINO, MatrixNms sorts by class only across the batch. If classes have boxes of their
//! own, MulticlassNms numbers them box by box, all classes of a box before the next box.

use crate::rule::prelude::*;
use crate::rules::detection::{capped, rows, up_to};

/// The operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// MatrixNms: overlaps lower scores.
    Matrix,
    /// MulticlassNms-8: all classes share the boxes.
    V8,
    /// MulticlassNms-9: with a third input, each class has boxes of its own.
    V9,
}

/// The effect of overlaps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Choice {
    /// They suppress boxes.
    Greedy {
        /// Boxes with a greater overlap are suppressed.
        overlap: f32,
        /// If below 1, an overlap threshold above 0.5 is multiplied by this after each box.
        eta: f32,
    },
    /// They lower scores.
    Matrix {
        /// Boxes with a score above this remain.
        after: f32,
        /// The parameter of Gaussian decay; `None` for linear decay.
        sigma: Option<f32>,
    },
}

/// The order of the selected boxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// By class.
    Class,
    /// By score.
    Score,
    /// Any.
    Any,
}

/// NMS class by class.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // the attributes of the specification
pub struct ClassNms {
    kind: Kind,
    output_type: ElementType,
    pub order: Order,
    pub sort_result_across_batch: bool,
    pub score_threshold: f32,
    pub nms_top_k: i64,
    pub keep_top_k: i64,
    pub background_class: i64,
    pub normalized: bool,
    pub choice: Choice,
}

impl Parse for ClassNms {
    type Kind = Kind;

    fn parse(kind: Kind, attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        let orders = [
            ("none", Order::Any),
            ("classid", Order::Class),
            ("class", Order::Class),
            ("score", Order::Score),
        ];
        // The specification calls it sort_result, files call it sort_result_type.
        let order = attrs.choice_or("sort_result", &orders, Order::Any)?;
        let choice = match kind {
            Kind::Matrix => {
                let decays = [("linear", false), ("gaussian", true)];
                let gaussian = attrs.choice_or("decay_function", &decays, false)?;
                let sigma = attrs.single("gaussian_sigma", Some(2.0))?;
                let after = attrs.single("post_threshold", Some(0.0))?;
                Choice::Matrix { after, sigma: gaussian.then_some(sigma) }
            }
            Kind::V8 | Kind::V9 => {
                let eta = attrs.single("nms_eta", Some(1.0))?;
                if !(0.0..=1.0).contains(&eta) {
                    return Err(AttrError::new("nms_eta", format!("{eta} is not in 0..=1")));
                }
                Choice::Greedy { overlap: attrs.single("iou_threshold", Some(0.0))?, eta }
            }
        };
        Ok(ClassNms {
            kind,
            output_type: attrs.index_type_or("output_type", ElementType::I64)?,
            order: attrs.choice_or("sort_result_type", &orders, order)?,
            sort_result_across_batch: attrs.bool_or("sort_result_across_batch", false),
            score_threshold: attrs.single("score_threshold", Some(0.0))?,
            nms_top_k: attrs.int_in("nms_top_k", Some(-1), -1..)?,
            keep_top_k: attrs.int_in("keep_top_k", Some(-1), -1..)?,
            background_class: attrs.int_in("background_class", Some(-1), -1..)?,
            normalized: attrs.bool_or("normalized", true),
            choice,
        })
    }
}

impl Op for ClassNms {
    fn input_names(&self) -> &'static [&'static str] {
        &["boxes", "scores", "roisnum"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(2..=if self.kind == Kind::V9 { 3 } else { 2 })?;
        let element_type = cx.same_real(0..2)?;
        cx.expect_rows(0, 3, 4)?;
        let own_boxes = cx.input_count() == 3;
        let (images, classes, boxes) = if own_boxes {
            cx.expect_integer(2)?;
            cx.expect_rank(1, 2..=2)?;
            cx.expect_rank(2, 1..=1)?;
            let classes = cx.same_dim("classes", [(0, 0), (1, 0)])?;
            (cx.shape(2).dim(0), classes, cx.same_dim("boxes", [(0, 1), (1, 1)])?)
        } else {
            cx.expect_rank(1, 3..=3)?;
            let images = cx.same_dim("images", [(0, 0), (1, 0)])?;
            (images, cx.shape(1).dim(1), cx.same_dim("boxes", [(0, 1), (1, 2)])?)
        };
        let of_image = capped(boxes, self.nms_top_k).times(up_to(classes));
        let count = capped(of_image, self.keep_top_k).times(up_to(images));
        cx.because("the number of selected boxes depends on the data");
        cx.set(0, element_type, rows(count, 6));
        cx.set(1, self.output_type, rows(count, 1));
        cx.set(2, self.output_type, [images]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    type Expected<'a> = &'a [Result<&'a str, &'a str>];

    fn check(kind: &'static str, attrs: &[(&str, &str)], inputs: &[Input], expected: Expected<'_>) {
        let case = Case::of(kind, "opset9");
        let case = attrs.iter().fold(case, |case, (name, value)| case.attr(name, value));
        case.inputs(inputs.to_vec()).expect(expected);
    }

    #[test]
    fn rule() {
        let f = |shape: &str| Input::shape(F16, shape);
        let shared = [f("2,6,4"), f("2,3,6")];
        let limits = [("nms_top_k", "5"), ("keep_top_k", "8")];
        for kind in ["MatrixNms", "MulticlassNms"] {
            let all = [Ok("f16[..36,6]"), Ok("i64[..36,1]"), Ok("i64[2]")];
            check(kind, &[], &shared, &all);
            let less = [Ok("f16[..16,6]"), Ok("i64[..16,1]"), Ok("i64[2]")];
            check(kind, &limits, &shared, &less);
            check(kind, &limits[..1], &shared, &[Ok("f16[..30,6]")]);
            check(
                kind,
                &limits,
                &[f("..."), f("?,?,?")],
                &[Ok("f16[?,6]"), Ok("i64[?,1]"), Ok("i64[?]")],
            );
            check(
                kind,
                &limits,
                &[f("1..2,?,4"), f("...")],
                &[Ok("f16[..16,6]"), Ok("i64[..16,1]"), Ok("i64[1..2]")],
            );
            check(
                kind,
                &[("output_type", "i32")],
                &shared,
                &[Ok("f16[..36,6]"), Ok("i32[..36,1]")],
            );
            let narrow = [("output_type", "i16")];
            check(kind, &narrow, &shared, &[Err("output_type: must be i32 or i64, not i16")]);
            check(kind, &[("nms_top_k", "-2")], &shared, &[Err("nms_top_k: -2 is not in -1..")]);
            check(
                kind,
                &[],
                &[f("2,6,4"), f("3,3,6")],
                &[Err("has 3 images, an earlier input has 2")],
            );
            check(
                kind,
                &[],
                &[f("2,6,5"), f("2,3,6")],
                &[Err("the last axis must have 4 elements")],
            );
        }
    }

    #[test]
    fn boxes_of_classes() {
        let f = |shape: &str| Input::shape(F16, shape);
        let limits = [("nms_top_k", "5"), ("keep_top_k", "8")];
        let own = [f("3,6,4"), f("3,6"), Input::shape(I32, "2")];
        check(
            "MulticlassNms",
            &limits,
            &own,
            &[Ok("f16[..16,6]"), Ok("i64[..16,1]"), Ok("i64[2]")],
        );
        check("MulticlassNms", &[("nms_eta", "1.5")], &own, &[Err("nms_eta: 1.5 is not in 0..=1")]);
        check("MatrixNms", &[], &own, &[Err("it takes 2 inputs, not 3")]);
    }
}
