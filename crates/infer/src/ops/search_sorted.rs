//! SearchSorted-15, Bucketize-3: insertion positions of values in a sorted sequence.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/sort/search-sorted-15.html>

use crate::rule::prelude::*;

/// SearchSorted-15.
#[derive(Debug)]
pub struct SearchSorted {
    right: bool,
    output_type: ElementType,
}

impl Parse for SearchSorted {
    type Kind = ();

    fn parse((): (), attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        let right = attrs.bool_or("right_mode", false);
        let output_type = attrs.index_type_or("output_type", ElementType::I64)?;
        Ok(SearchSorted { right, output_type })
    }
}

impl SearchSorted {
    /// Whether a value goes after equal ones.
    pub fn right(&self) -> bool {
        self.right
    }
}

impl Op for SearchSorted {
    fn input_names(&self) -> &'static [&'static str] {
        &["sorted_sequence", "values"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(2..=2)?;
        cx.expect_number(0)?;
        cx.expect_number(1)?;
        cx.same_type([0, 1])?;
        cx.expect_rank(0, 1..=usize::MAX)?;
        let (sorted, values) = (cx.shape(0), cx.shape(1));
        let shape = match (sorted.dims(), values.dims()) {
            (None | Some([] | [_]), _) => values.clone(),
            (Some([outer @ .., _]), None) => {
                outer.iter().copied().chain([values.dim(outer.len())]).collect()
            }
            (Some(s), Some(v)) => {
                require!(
                    1; s.len() == v.len(),
                    "is {values}: it must have the rank of the sequences, {sorted}"
                );
                let last = s.len() - 1;
                let merge = |(i, (s, v)): (usize, (&Dim, &Dim))| {
                    if i == last { Some(*v) } else { v.meet(*s) }
                };
                let merged: Option<PartialShape> = s.iter().zip(v).enumerate().map(merge).collect();
                let message = || {
                    let rule = "all axes but the last must be those of the sequences";
                    format!("is {values}: {rule}, {sorted}")
                };
                merged.ok_or_else(|| RuleError::at(1, message()))?
            }
        };
        cx.set(0, self.output_type, shape);
        Ok(())
    }
}

/// Bucketize-3: for each element the interval between sorted boundaries that it is in.
///
/// <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/condition/bucketize-3.html>
#[derive(Debug)]
pub struct Bucketize {
    output_type: ElementType,
    with_right_bound: bool,
}

impl Parse for Bucketize {
    type Kind = ();

    fn parse((): (), attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        let output_type = attrs.index_type_or("output_type", ElementType::I64)?;
        let with_right_bound = attrs.bool_or("with_right_bound", true);
        Ok(Bucketize { output_type, with_right_bound })
    }
}

impl Bucketize {
    /// Whether a boundary belongs to the interval below it.
    pub fn with_right_bound(&self) -> bool {
        self.with_right_bound
    }
}

impl Op for Bucketize {
    fn input_names(&self) -> &'static [&'static str] {
        &["data", "buckets"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(2..=2)?;
        cx.expect_number(0)?;
        cx.expect_number(1)?;
        cx.expect_rank(1, 1..=1)?;
        cx.set(0, self.output_type, cx.shape(0).clone());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    #[test]
    fn search_sorted() {
        let case = |sorted, values| {
            let inputs = [Input::shape(F32, sorted), Input::shape(F32, values)];
            Case::of("SearchSorted", "opset15").attr("right_mode", "true").inputs(inputs)
        };
        case("7", "?,3").expect(&[Ok("i64[?,3]")]);
        case("7", "[]").expect(&[Ok("i64[]")]);
        case("?,2,7", "4,?,1..3").attr("output_type", "i32").expect(&[Ok("i32[4,2,1..3]")]);
        case("4,7", "...").expect(&[Ok("i64[4,?]")]);
        case("...", "4,2").expect(&[Ok("i64[4,2]")]);
        case("4,7", "3,2").expect(&[Err("input 1 (values): is [3,2]: all axes but the last")]);
        case("4,7", "2").expect(&[Err("is [2]: it must have the rank of the sequences, [4,7]")]);
        case("[]", "2").expect(&[Err("input 0 (sorted_sequence): must have rank at least 1")]);
        let mixed = [Input::shape(F32, "2"), Input::shape(I32, "2")];
        Case::of("SearchSorted", "opset15").inputs(mixed).expect(&[Err("is i32, but an earlier")]);
    }

    #[test]
    fn bucketize() {
        let case = |buckets| {
            let inputs = [Input::shape(F32, "2,?"), Input::shape(I32, buckets)];
            Case::of("Bucketize", "opset3").inputs(inputs)
        };
        case("?").expect(&[Ok("i64[2,?]")]);
        case("0").attr("output_type", "i32").expect(&[Ok("i32[2,?]")]);
        case("2,2").expect(&[Err("input 1 (buckets): must have rank 1, not 2")]);
    }
}
