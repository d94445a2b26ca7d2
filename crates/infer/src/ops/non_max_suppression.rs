//! NonMaxSuppression-1, -3, -4, -5, -9, NMSRotated-13: of overlapping boxes, keeps the one with the
//! best score.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/sort/non-max-suppression-9.html>
//!
//! By the specification of versions 1 to 4, the output is padded with -1 to a size that for
//! versions 1 and 3 may be less than the number of selected boxes. OpenVINO's files declare that
//! size, but OpenVINO returns only the selected boxes, as in versions 5 and 9. So does irrun: the
//! specified size is the nominal one, for reports only.

use crate::rule::prelude::*;
use crate::rules::detection::{rows, up_to};

/// The versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Indices only, as i64.
    V1,
    /// Indices only.
    V3,
    /// As version 3, with another nominal size.
    V4,
    /// Indices, scores and their number; soft suppression may lower scores. Versions 5 and 9.
    V5,
    /// NMSRotated: as version 5 without soft suppression, for boxes with an angle.
    Rotated,
}

/// The encoding of a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// y and x of any two opposite corners.
    Corner,
    /// x and y of the centre, width and height.
    Center,
    /// As `Center`, and an angle.
    Rotated {
        /// Whether angles turn clockwise.
        clockwise: bool,
    },
}

/// NonMaxSuppression of all versions.
#[derive(Debug)]
pub struct NonMaxSuppression {
    kind: Kind,
    encoding: Encoding,
    sorted: bool,
    output_type: ElementType,
}

impl Parse for NonMaxSuppression {
    type Kind = Kind;

    fn parse(kind: Kind, attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        let encodings = [("corner", Encoding::Corner), ("center", Encoding::Center)];
        let encoding = match kind {
            Kind::Rotated => Encoding::Rotated { clockwise: attrs.bool_or("clockwise", true) },
            _ => attrs.choice_or("box_encoding", &encodings, Encoding::Corner)?,
        };
        let sorted = attrs.bool_or("sort_result_descending", true);
        let output_type = match kind {
            Kind::V1 => ElementType::I64,
            _ => attrs.element_type_or("output_type", ElementType::I64)?,
        };
        Ok(NonMaxSuppression { kind, encoding, sorted, output_type })
    }
}

impl NonMaxSuppression {
    /// The encoding of a box.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Whether boxes are ordered by score across classes and batches.
    pub fn sorted(&self) -> bool {
        self.sorted
    }

    fn expect_scalars(&self, cx: &InferCx<'_>) -> Result<(), RuleError> {
        let rank = if matches!(self.kind, Kind::V5 | Kind::Rotated) { 1 } else { 0 };
        cx.expect_axes(2)?;
        for input in 3..cx.input_count() {
            cx.expect_real(input)?;
        }
        for input in 2..cx.input_count() {
            cx.expect_rank(input, 0..=rank)?;
            cx.expect_one(input, "element")?;
        }
        Ok(())
    }
}

impl Op for NonMaxSuppression {
    fn input_names(&self) -> &'static [&'static str] {
        &[
            "boxes",
            "scores",
            "max_output_boxes_per_class",
            "iou_threshold",
            "score_threshold",
            "soft_nms_sigma",
        ]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(match self.kind {
            Kind::V1 | Kind::V3 | Kind::V4 => 2..=5,
            Kind::V5 => 2..=6,
            Kind::Rotated => 5..=5,
        })?;
        for input in 0..2 {
            cx.expect_real(input)?;
        }
        self.expect_scalars(cx)?;
        let rotated = matches!(self.encoding, Encoding::Rotated { .. });
        cx.expect_rows(0, 3, if rotated { 5 } else { 4 })?;
        cx.expect_rank(1, 3..=3)?;
        let batch = cx.same_dim("batches", [(0, 0), (1, 0)])?;
        let boxes = cx.same_dim("boxes", [(0, 1), (1, 2)])?;
        let classes = cx.shape(1).dim(1);
        cx.because("the number of selected boxes depends on the data");
        let most = most(cx);
        let full = least(boxes, most).times(batch).times(classes);
        let count = match self.kind {
            Kind::V1 | Kind::V3 if cx.nominal() => least(boxes, most.times(classes)),
            Kind::V4 if cx.nominal() => full,
            _ => up_to(full),
        };
        cx.set(0, self.output_type, rows(count, 3));
        cx.set(1, ElementType::F32, rows(count, 3));
        cx.set(2, self.output_type, PartialShape::fixed(&[1]));
        Ok(())
    }
}

/// The most boxes selected per class; a negative number is no limit.
fn most(cx: &InferCx<'_>) -> Dim {
    if cx.input_count() <= 2 {
        return Dim::fixed(0);
    }
    let value = cx.interval(2);
    value.filter(|v| v.lo >= 0).map_or(Dim::any(), |v| Dim::from(v).unlabelled())
}

fn least(a: Dim, b: Dim) -> Dim {
    Dim::range(a.min().min(b.min()), a.max().min(b.max()))
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    #[test]
    fn rule() {
        let f = |shape: &str| Input::shape(F32, shape);
        let check = |opset, inputs: &[Input], expected: &[Result<&str, &str>]| {
            Case::of("NonMaxSuppression", opset).inputs(inputs.to_vec()).expect(expected);
        };
        let three = Input::ints(I64, &[3]);
        let (boxes, scores) = (f("2,7,4"), f("2,5,7"));
        let all = |indices, scores| [Ok(indices), Ok(scores), Ok("i64[1]")];
        check(
            "opset9",
            &[boxes.clone(), scores.clone(), three.clone()],
            &all("i64[..30,3]", "f32[..30,3]"),
        );
        check("opset5", &[boxes.clone(), scores.clone()], &all("i64[0,3]", "f32[0,3]"));
        check(
            "opset9",
            &[boxes.clone(), scores.clone(), Input::bounds(I64, &[(1, 2)])],
            &[Ok("i64[..20,3]")],
        );
        check(
            "opset9",
            &[boxes.clone(), scores.clone(), Input::shape(I64, "[]")],
            &[Ok("i64[..70,3]")],
        );
        check("opset9", &[f("..."), f("?,?,?"), three.clone()], &[Ok("i64[?,3]")]);
        check("opset9", &[f("1,?,4"), f("..."), three.clone()], &[Ok("i64[?,3]")]);
        check("opset9", &[f("1,?,4"), f("1,1..2,?"), three.clone()], &[Ok("i64[..6,3]")]);
        let scalar = Input::scalar(I64, 1);
        check("opset3", &[boxes.clone(), scores.clone(), scalar], &[Ok("i64[..10,3]")]);
        check(
            "opset4",
            &[boxes.clone(), scores.clone(), three.clone()],
            &[Err("input 2 (max_output_boxes_per_class): must have rank 0, not 1")],
        );
        check(
            "opset9",
            &[boxes.clone(), f("2,5,6")],
            &[Err("input 1 (scores): has 6 boxes, an earlier input has 7")],
        );
        check(
            "opset9",
            &[f("2,7,5"), scores.clone()],
            &[Err("input 0 (boxes): is [2,7,5], the last axis must have 4 elements")],
        );
        check("opset9", &[f("7,4"), scores], &[Err("input 0 (boxes): must have rank 3, not 2")]);
        check("opset9", &[boxes], &[Err("it takes 2 to 6 inputs, not 1")]);
    }

    /// The sizes that OpenVINO's files declare.
    #[test]
    fn nominal() {
        let size = |opset, boxes: &str, most: Input, expected| {
            let [boxes, scores] = [boxes, "2,5,7"].map(|s| Input::shape(F32, s));
            let case = Case::of("NonMaxSuppression", opset).inputs([boxes, scores, most]);
            case.nominal().expect(&[Ok(expected)]);
        };
        let most = |n| Input::scalar(I64, n);
        size("opset1", "2,7,4", most(3), "i64[7,3]");
        size("opset3", "2,7,4", most(1), "i64[5,3]");
        size("opset4", "2,7,4", most(3), "i64[30,3]");
        size("opset4", "?,?,4", most(9), "i64[70,3]");
        size("opset4", "2,7,4", most(-1), "i64[..70,3]");
        size("opset1", "2,7,4", Input::shape(I64, "[]"), "i64[..7,3]");
        size("opset5", "2,7,4", most(3), "i64[..30,3]");
    }

    #[test]
    fn rotated() {
        let rotated = |boxes: &str, expected: &[Result<&str, &str>]| {
            let one = || Input::shape(F16, "[]");
            let [boxes, scores] = [boxes, "2,5,7"].map(|s| Input::shape(F32, s));
            let inputs = [boxes, scores, Input::ints(I64, &[3]), one(), one()];
            Case::of("NMSRotated", "opset13").inputs(inputs).expect(expected);
        };
        rotated("2,7,5", &[Ok("i64[..30,3]"), Ok("f32[..30,3]"), Ok("i64[1]")]);
        rotated("2,7,4", &[Err("the last axis must have 5 elements")]);
    }
}
