//! ScatterNDUpdate-3, ScatterNDUpdate-15: updates of slices, by tuples of indices.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/movement/scatter-nd-update-15.html>

use crate::rule::prelude::*;
use crate::rules::scatter::{self, Reduction};

/// The versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Updates replace elements.
    V3,
    /// With `reduction`.
    V15,
}

/// ScatterNDUpdate of all versions.
#[derive(Debug)]
pub struct ScatterNdUpdate {
    reduction: Reduction,
}

impl Parse for ScatterNdUpdate {
    type Kind = Kind;

    fn parse(kind: Kind, attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        let reduction = match kind {
            Kind::V3 => Reduction::None,
            Kind::V15 => Reduction::parse(attrs, ("sub", Reduction::Sub))?,
        };
        Ok(ScatterNdUpdate { reduction })
    }
}

impl ScatterNdUpdate {
    /// How an element is combined with its updates.
    pub fn reduction(&self) -> Reduction {
        self.reduction
    }
}

impl Op for ScatterNdUpdate {
    fn input_names(&self) -> &'static [&'static str] {
        &["data", "indices", "updates"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(3..=3)?;
        let element_type = scatter::element_type(cx, 2, self.reduction)?;
        cx.expect_integer(1)?;
        cx.expect_rank(0, 1..=usize::MAX)?;
        cx.expect_rank(1, 1..=usize::MAX)?;
        let (data, indices, updates) = (cx.shape(0), cx.shape(1), cx.shape(2));
        if let (Some(d), Some((tuple, places))) =
            (data.dims(), indices.dims().and_then(<[Dim]>::split_last))
        {
            let least = tuple.min();
            let fits = least <= Dim::of(d.len()).min();
            require!(1; fits, "is {indices}: {least} indices are too many for data {data}");
            if let Some(tuple) = tuple.size() {
                let slice = d.iter().skip(tuple);
                let expected: PartialShape = places.iter().chain(slice).copied().collect();
                // A single update may be any tensor with one element.
                let one = expected.rank() == Some(0) && updates.volume().contains(1);
                let fits = one || updates.is_compatible(&expected);
                require!(2; fits, "is {updates}, but must be {expected} for data {data}");
            }
        }
        cx.set(0, element_type, data.clone());
        Ok(())
    }

    fn value(&self, cx: &ValueCx<'_>) -> Option<PartialValue> {
        let tuple = *cx.value(1)?.sizes.last()?;
        (self.reduction == Reduction::None && tuple == 1)
            .then(|| scatter::replaced(cx, 2, true))
            .flatten()
    }

    fn traits(&self) -> OpTraits {
        self.reduction.traits()
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    #[test]
    fn rule() {
        for (data, indices, updates, expected) in [
            ("1000,256,10,15", "25,125,3", "25,125,15", Ok("f32[1000,256,10,15]")),
            ("3,?", "2,1", "2,7", Ok("f32[3,?]")),
            ("3,4", "2,?", "...", Ok("f32[3,4]")),
            ("3", "1", "1", Ok("f32[3]")),
            ("3", "1", "[]", Ok("f32[3]")),
            ("...", "2,2", "2", Ok("f32[...]")),
            ("3,4", "2,3", "2", Err("input 1 (indices): is [2,3]: 3 indices are too many")),
            ("3,4", "2,1", "2,3", Err("input 2 (updates): is [2,3], but must be [2,4]")),
            ("[]", "1", "1", Err("input 0 (data): must have rank at least 1")),
            ("3", "[]", "1", Err("input 1 (indices): must have rank at least 1")),
        ] {
            let inputs =
                [Input::shape(F32, data), Input::shape(I32, indices), Input::shape(F32, updates)];
            let case = Case::of("ScatterNDUpdate", "opset15").inputs(inputs);
            case.attr("reduction", "sub").expect(&[expected]);
        }
    }

    #[test]
    fn values() {
        let inputs = [
            Input::ints(I64, &[1, 2, 3]),
            Input::ints(I64, &[0, -1]).shaped(&[2, 1]),
            Input::ints(I64, &[8, 9]),
        ];
        let case = Case::of("ScatterNDUpdate", "opset4").inputs(inputs);
        case.expect(&[Ok("i64[3] = {8, 2, 9}")]);
    }
}
