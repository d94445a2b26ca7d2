//! SliceScatter-15: updates of a slice of a tensor.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/movement/slice-scatter-15.html>

use super::slice::{Named, ranges, sliced};
use crate::rule::prelude::*;
use crate::rules::scatter;

/// SliceScatter-15.
#[derive(Debug)]
pub struct SliceScatter;

no_attributes!(SliceScatter);

impl SliceScatter {
    /// The ranges of starts, stops, steps and axes, for data of this rank.
    ///
    /// # Errors
    /// As [`ranges`].
    pub fn ranges(
        &self,
        [starts, stops, steps]: [&[i64]; 3],
        axes: Option<&[i64]>,
        rank: usize,
    ) -> Result<Named, RuleError> {
        // Its inputs come one position after those of a Slice.
        let behind = |e: RuleError| RuleError { input: e.input.map(|i| i + 1), ..e };
        ranges(starts, stops, steps, axes, rank).map_err(behind)
    }

    /// Checks the shape of the updates against that of the slice.
    ///
    /// # Errors
    /// When they differ.
    pub fn check(&self, updates: &PartialShape, slice: &PartialShape) -> Result<(), RuleError> {
        let fits = updates.is_compatible(slice);
        require!(1; fits, "is {updates}, but the slice is {slice}");
        Ok(())
    }
}

impl Op for SliceScatter {
    fn input_names(&self) -> &'static [&'static str] {
        &["data", "updates", "start", "stop", "step", "axes"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(5..=6)?;
        let element_type = cx.mixed(0..2)?;
        for input in 2..cx.input_count() {
            cx.expect_integer(input)?;
            cx.expect_rank(input, 1..=1)?;
        }
        for input in 0..2 {
            cx.expect_rank(input, 1..=usize::MAX)?;
        }
        let data = cx.shape(0);
        if let Some(dims) = data.dims() {
            cx.expect_rank(1, dims.len()..=dims.len())?;
            let slice = sliced(cx, dims, 2)?;
            self.check(cx.shape(1), &slice)?;
        }
        let shape = match (data.rank(), cx.rank(1)) {
            (None, Some(rank)) => PartialShape::of_rank(rank),
            _ => data.clone(),
        };
        cx.set(0, element_type, shape);
        Ok(())
    }

    fn value(&self, cx: &ValueCx<'_>) -> Option<PartialValue> {
        let (data, updates) = (cx.value(0)?, cx.value(1)?);
        let [size] = data.sizes[..] else { return None };
        let lists = [&cx.ints(2)?[..], &cx.ints(3)?, &cx.ints(4)?];
        let ranges = self.ranges(lists, cx.ints(5).as_deref(), 1).ok()?;
        let (_, range) = ranges.first()?;
        scatter::written(data, updates, &range.positions(size)?)
    }

    fn traits(&self) -> OpTraits {
        OpTraits::moving(InputSet::of([0, 1])).mixing()
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    #[test]
    fn value() {
        let i = |v: &[i64]| Input::ints(I64, v);
        let data = Input::bounds(I64, &[(2, 2), (1, 9), (3, 4), (8, 8)]);
        let inputs = [data, i(&[5, 6]), i(&[-1]), i(&[0]), i(&[-2])];
        let case = Case::of("SliceScatter", "opset15").inputs(inputs);
        case.expect(&[Ok("i64[4] = {2, 6, 3..4, 5}")]);
    }

    #[test]
    fn rule() {
        let late = || Input::shape(I64, "1");
        let i = |v: &[i64]| Input::ints(I64, v);
        for (data, updates, start, step, axes, expected) in [
            ("2,5", "2,3", i(&[-25]), i(&[2]), i(&[1]), Ok("f32[2,5]")),
            ("?,5", "?,?", i(&[0]), i(&[1]), i(&[0]), Ok("f32[?,5]")),
            ("...", "2", i(&[0]), i(&[1]), i(&[0]), Ok("f32[?]")),
            ("...", "...", i(&[0]), i(&[1]), i(&[0]), Ok("f32[...]")),
            ("2,5", "...", Input::shape(I64, "..."), i(&[2]), i(&[1]), Ok("f32[2,5]")),
            ("...", "?,3", Input::shape(I64, "?"), late(), late(), Ok("f32[?,?]")),
            (
                "...",
                "[]",
                i(&[0]),
                i(&[1]),
                i(&[0]),
                Err("input 1 (updates): must have rank at least 1"),
            ),
            ("2,5", "2,3", late(), i(&[2]), i(&[1]), Ok("f32[2,5]")),
            (
                "2,5",
                "2,2",
                i(&[0]),
                i(&[2]),
                i(&[1]),
                Err("input 1 (updates): is [2,2], but the slice is [2,3]"),
            ),
            ("2,5", "2", i(&[0]), i(&[2]), i(&[1]), Err("input 1 (updates): must have rank 2")),
            (
                "2,5",
                "2,4",
                Input::bounds(I64, &[(2, 4)]),
                i(&[1]),
                i(&[1]),
                Err("input 1 (updates): is [2,4], but the slice is [2,1..3]"),
            ),
            (
                "2,5",
                "2,5",
                i(&[0]),
                i(&[0]),
                i(&[1]),
                Err("input 4 (step): the step of axis 1 is 0"),
            ),
            (
                "2,5",
                "2,5",
                i(&[0]),
                i(&[1]),
                i(&[2]),
                Err("input 5 (axes): axis 2 is out of range"),
            ),
            (
                "[]",
                "[]",
                i(&[0]),
                i(&[1]),
                i(&[0]),
                Err("input 0 (data): must have rank at least 1"),
            ),
        ] {
            let inputs =
                [Input::shape(F32, data), Input::shape(F32, updates), start, i(&[25]), step, axes];
            Case::of("SliceScatter", "opset15").inputs(inputs).expect(&[expected]);
        }
    }
}
