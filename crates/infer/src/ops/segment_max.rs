//! SegmentMax-16: maxima of segments, which are runs of slices along the first axis.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/arithmetic/segment-max-16.html>
//!
//! Slices of segments from `num_segments` on are ignored, as in OpenVINO.

use crate::rule::prelude::*;
use crate::rules::sizes;

/// SegmentMax-16.
#[derive(Debug)]
pub struct SegmentMax {
    lowest: bool,
}

impl Parse for SegmentMax {
    type Kind = ();

    fn parse((): (), attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        Ok(SegmentMax { lowest: attrs.choice("fill_mode", &[("zero", false), ("lowest", true)])? })
    }
}

impl SegmentMax {
    /// Whether an empty segment gives the lowest finite value; otherwise it gives 0.
    pub fn lowest(&self) -> bool {
        self.lowest
    }
}

impl Op for SegmentMax {
    fn input_names(&self) -> &'static [&'static str] {
        &["data", "segment_ids", "num_segments"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(2..=3)?;
        let element_type = cx.expect_number(0)?;
        for input in 1..cx.input_count() {
            cx.expect_index(input)?;
        }
        cx.expect_rank(0, 1..=usize::MAX)?;
        cx.expect_rank(1, 1..=1)?;
        cx.expect_rank(2, 0..=0)?;
        let (data, ids) = (cx.shape(0), cx.shape(1));
        require!(
            1; ids.dim(0).meet(data.dim(0)).is_some(),
            "is {ids}: there must be one for each slice of the data {data}"
        );
        let segments = segments(cx)?;
        let shape = match data.rank() {
            Some(_) => data.clone().with_dim(0, segments),
            None => cx.unranked("the rank of the data is unknown"),
        };
        cx.set(0, element_type, shape);
        Ok(())
    }
}

/// The number of segments.
fn segments(cx: &mut InferCx<'_>) -> Result<Dim, RuleError> {
    let ids = cx.ints(1);
    if let Some(ids) = &ids {
        require!(1; ids.is_sorted(), "must be sorted");
        let first = ids.first().copied().unwrap_or(0);
        require!(1; first >= 0, "{first} is not a segment");
    }
    if cx.input_count() < 3 {
        cx.because("the last segment is known only when running");
        let last = |ids: Vec<i64>| ids.last().map_or(0, |last| last.saturating_add(1));
        return Ok(ids.map_or(Dim::any(), |ids| Dim::fixed(last(ids))));
    }
    sizes::count(cx, 2, "segments")
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    #[test]
    fn rule() {
        let case = |data, ids, count: Option<Input>| {
            let inputs = [Input::shape(F32, data), ids].into_iter().chain(count);
            Case::of("SegmentMax", "opset16").attr("fill_mode", "ZERO").inputs(inputs)
        };
        let ids = |v: &[i64]| Input::ints(I64, v);
        case("4,2..3", ids(&[0, 1, 1, 3]), None).expect(&[Ok("f32[4,2..3]")]);
        case("4", ids(&[0, 1, 1, 3]), Some(Input::scalar(I32, 2))).expect(&[Ok("f32[2]")]);
        case("?,2", Input::shape(I32, "?"), None).expect(&[Ok("f32[?,2]")]);
        case("?,2", Input::shape(I32, "?"), Some(Input::scalar(I64, 7))).expect(&[Ok("f32[7,2]")]);
        case("0,2", ids(&[]), None).expect(&[Ok("f32[0,2]")]);
        case("...", ids(&[0]), None).expect(&[Ok("f32[...]")]);
        case("3", ids(&[0, 1]), None).expect(&[Err("is [2]: there must be one for each slice")]);
        case("2", ids(&[1, 0]), None).expect(&[Err("input 1 (segment_ids): must be sorted")]);
        case("2", ids(&[-1, 0]), None).expect(&[Err("input 1 (segment_ids): -1 is not a segment")]);
        let negative = Some(Input::scalar(I64, -2));
        case("1", ids(&[0]), negative).expect(&[Err("-2 is not a number of segments")]);
        case("[]", ids(&[]), None).expect(&[Err("must have rank at least 1")]);
    }
}
