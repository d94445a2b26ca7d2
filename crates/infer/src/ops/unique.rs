//! Unique-10: the distinct elements of a tensor, or its distinct slices along an axis.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/movement/unique-10.html>

use crate::rule::prelude::*;
use crate::rules::axes;

/// Unique-10.
#[derive(Debug)]
pub struct Unique {
    sorted: bool,
    index_type: ElementType,
    count_type: ElementType,
}

impl Parse for Unique {
    type Kind = ();

    fn parse((): (), attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        Ok(Unique {
            sorted: attrs.bool_or("sorted", true),
            index_type: attrs.index_type_or("index_element_type", ElementType::I64)?,
            count_type: attrs.index_type_or("count_element_type", ElementType::I64)?,
        })
    }
}

impl Unique {
    /// Whether the result is sorted; otherwise it is in order of first occurrence.
    pub fn sorted(&self) -> bool {
        self.sorted
    }

    /// The shape of the result, and the number of elements or slices searched.
    fn shape(&self, cx: &mut InferCx<'_>) -> Result<(PartialShape, Dim), RuleError> {
        // If there are any elements, at least one is distinct.
        let found = |searched: Dim| Dim::range(searched.min().min(1), searched.max());
        if cx.input_count() == 1 {
            let searched = cx.shape(0).volume();
            return Ok((PartialShape::from_iter([found(searched)]), searched));
        }
        let Some(dims) = cx.shape(0).dims() else {
            return Ok((PartialShape::unranked(), Dim::any()));
        };
        let Some(axis) = cx.int(1) else {
            let out = dims.iter().map(|d| Dim::range(0, d.max())).collect();
            return Ok((out, Dim::any()));
        };
        let axis = axes::normalize_of(1, axis, dims.len())?;
        let searched = cx.shape(0).dim(axis);
        Ok((cx.shape(0).clone().with_dim(axis, found(searched)), searched))
    }
}

impl Op for Unique {
    fn input_names(&self) -> &'static [&'static str] {
        &["data", "axis"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(1..=2)?;
        cx.expect_index(1)?;
        cx.expect_one(1, "axis")?;
        cx.because("how many elements are different is known only when running");
        let (shape, searched) = self.shape(cx)?;
        let found = PartialShape::from_iter([Dim::range(searched.min().min(1), searched.max())]);
        cx.set(0, cx.element_type(0), shape);
        cx.set(1, self.index_type, found.clone());
        cx.set(2, self.index_type, [searched]);
        cx.set(3, self.count_type, found);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    #[test]
    fn rule() {
        let case = |shape| Case::of("Unique", "opset10").inputs([Input::shape(F32, shape)]);
        let flat = [Ok("f32[1..6]"), Ok("i64[1..6]"), Ok("i64[6]"), Ok("i64[1..6]")];
        case("2,3").expect(&flat);
        case("0").expect(&[Ok("f32[0]"), Ok("i64[0]"), Ok("i64[0]"), Ok("i64[0]")]);
        case("...").expect(&[Ok("f32[?]"), Ok("i64[?]"), Ok("i64[?]"), Ok("i64[?]")]);
        let along = |shape, axis| {
            let inputs = [Input::shape(I8, shape), axis];
            let op = Case::of("Unique", "opset10").attr("index_element_type", "i32");
            op.attr("sorted", "false").attr("count_element_type", "i32").inputs(inputs)
        };
        let axis = |axis| Input::scalar(I64, axis);
        let some = [Ok("i8[2,1..5]"), Ok("i32[1..5]"), Ok("i32[5]"), Ok("i32[1..5]")];
        along("2,5", axis(-1)).expect(&some);
        let late = [Ok("i8[..2,..5]"), Ok("i32[?]"), Ok("i32[?]"), Ok("i32[?]")];
        along("2,5", Input::shape(I64, "1")).expect(&late);
        along("2,5", axis(2)).expect(&[Err("input 1 (axis): axis 2 is out of range for rank 2")]);
        along("2", Input::shape(I64, "2")).expect(&[Err("input 1 (axis): must hold one axis")]);
    }
}
