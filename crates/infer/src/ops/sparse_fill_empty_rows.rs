//! SparseFillEmptyRows-16: adds an element in the first column of every empty row of a sparse
//! matrix.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/sparse/sparse-fill-empty-rows-16.html>

use crate::rule::prelude::*;

/// SparseFillEmptyRows-16.
#[derive(Debug)]
pub struct SparseFillEmptyRows;

no_attributes!(SparseFillEmptyRows);

impl Op for SparseFillEmptyRows {
    fn input_names(&self) -> &'static [&'static str] {
        &["values", "dense_shape", "indices", "default_value"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(4..=4)?;
        let element_type = cx.mixed([0, 3])?;
        for input in [1, 2] {
            cx.expect_index(input)?;
        }
        let index_type = cx.same_type([1, 2])?;
        for (input, rank) in [(0, 1), (1, 1), (2, 2), (3, 0)] {
            cx.expect_rank(input, rank..=rank)?;
        }
        let (values, dense, indices) = (cx.shape(0), cx.shape(1), cx.shape(2));
        require!(1; dense.dim(0).contains(2), "is {dense}: only matrices can be filled");
        let given = values.dim(0).meet(indices.dim(0)).filter(|_| indices.dim(1).contains(2));
        let Some(given) = given else {
            let message = "there must be a row and a column for each of the values";
            return Err(RuleError::at(2, format!("is {indices}: {message}, {values}")));
        };
        cx.because("which rows are empty is known only when running");
        let (rows, filled) = rows(cx, given)?;
        cx.set(0, index_type, [filled, Dim::fixed(2)]);
        cx.set(1, element_type, [filled]);
        cx.set(2, ElementType::Boolean, [rows]);
        Ok(())
    }

    fn traits(&self) -> OpTraits {
        OpTraits::moving(InputSet::of([0, 3])).mixing()
    }
}

/// The number of rows, and the number of elements after filling.
fn rows(cx: &InferCx<'_>, given: Dim) -> Result<(Dim, Dim), RuleError> {
    let Some(sizes) = cx.intervals(1) else {
        return Ok((Dim::any(), Dim::range(given.min(), Dim::INF)));
    };
    let bound = |axis: usize| sizes.get(axis).copied().map_or(Dim::any(), Dim::from);
    let rows = bound(0);
    let Some(indices) = cx.ints(2) else {
        let most = given.plus(rows).max();
        return Ok((rows, Dim::range(given.min().max(rows.min()), most)));
    };
    let mut used: Vec<i64> = Vec::new();
    for (i, index) in indices.iter().enumerate() {
        let limit = bound(i % 2);
        require!(
            2; (0..limit.max()).contains(index),
            "{index} is out of range for an axis of {limit}"
        );
        if i % 2 == 0 {
            used.push(*index);
        }
    }
    used.sort_unstable();
    used.dedup();
    let used = i64::try_from(used.len()).unwrap_or(i64::MAX);
    Ok((rows, given.plus(rows.offset(used.saturating_neg()))))
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    #[test]
    fn rule() {
        let case = |values, dense, indices| {
            let default = Input::shape(F32, "[]");
            let inputs = [Input::shape(F32, values), dense, indices, default];
            Case::of("SparseFillEmptyRows", "opset16").inputs(inputs)
        };
        let (dense, late) = (Input::ints(I32, &[5, 6]), Input::shape(I32, "2"));
        let some = [Ok("i32[5..9,2]"), Ok("f32[5..9]"), Ok("boolean[5]")];
        case("4", dense.clone(), Input::shape(I32, "4,2")).expect(&some);
        let open = [Ok("i32[4..,2]"), Ok("f32[4..]"), Ok("boolean[?]")];
        case("4", late.clone(), Input::shape(I32, "?,2")).expect(&open);
        let wrong = Input::shape(I32, "3,2");
        case("4", late, wrong).expect(&[Err("input 2 (indices): is [3,2]: there must be a row")]);
        let cube = Input::ints(I32, &[5, 6, 7]);
        case("4", cube, Input::shape(I32, "4,2")).expect(&[Err("only matrices can be filled")]);
        let other = Input::shape(I64, "4,2");
        case("4", dense, other).expect(&[Err("is i64, but an earlier input is i32")]);
    }
}
