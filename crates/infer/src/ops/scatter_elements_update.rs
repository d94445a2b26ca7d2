//! ScatterElementsUpdate-3, ScatterElementsUpdate-12: updates of single elements, each with an
//! index along one axis.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/movement/scatter-elements-update-12.html>

use crate::rule::prelude::*;
use crate::rules::axes;
use crate::rules::scatter::{self, Reduction};

/// The versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Updates replace elements.
    V3,
    /// With `reduction` and `use_init_val`.
    V12,
}

/// ScatterElementsUpdate of all versions.
#[derive(Debug)]
pub struct ScatterElementsUpdate {
    reduction: Reduction,
    use_init_val: bool,
}

impl Parse for ScatterElementsUpdate {
    type Kind = Kind;

    fn parse(kind: Kind, attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        if kind == Kind::V3 {
            return Ok(ScatterElementsUpdate { reduction: Reduction::None, use_init_val: true });
        }
        let reduction = Reduction::parse(attrs, ("mean", Reduction::Mean))?;
        Ok(ScatterElementsUpdate { reduction, use_init_val: attrs.bool_or("use_init_val", true) })
    }
}

impl ScatterElementsUpdate {
    /// How an element is combined with its updates.
    pub fn reduction(&self) -> Reduction {
        self.reduction
    }

    /// Whether the old element takes part in the reduction.
    pub fn use_init_val(&self) -> bool {
        self.use_init_val
    }
}

impl Op for ScatterElementsUpdate {
    fn input_names(&self) -> &'static [&'static str] {
        &["data", "indices", "updates", "axis"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(4..=4)?;
        let element_type = scatter::element_type(cx, 2, self.reduction)?;
        cx.expect_whole(1)?;
        cx.expect_whole(3)?;
        let (data, indices, updates) = (cx.shape(0), cx.shape(1), cx.shape(2));
        cx.expect_one(3, "axis")?;
        require!(2; updates.is_compatible(indices), "is {updates}, but the indices are {indices}");
        if let Some(rank) = data.rank() {
            cx.expect_rank(1, rank..=rank)?;
            cx.expect_rank(2, rank..=rank)?;
        }
        if let (Some(d), Some(axis)) = (data.dims(), cx.int(3)) {
            let axis = axes::normalize_of(3, axis, d.len())?;
            for (other, dim) in d.iter().enumerate().filter(|(other, _)| *other != axis) {
                let least = indices.dim(other).min().max(updates.dim(other).min());
                let fits = least <= dim.max();
                require!(1; fits, "is {indices}: axis {other} has more elements than data {data}");
            }
        }
        cx.set(0, element_type, data.clone());
        Ok(())
    }

    fn value(&self, cx: &ValueCx<'_>) -> Option<PartialValue> {
        (self.reduction == Reduction::None).then(|| scatter::replaced(cx, 2, true)).flatten()
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
        let case = |data, indices, updates, axis| {
            let inputs = [
                Input::shape(F32, data),
                Input::shape(I32, indices),
                Input::shape(F32, updates),
                Input::scalar(I64, axis),
            ];
            Case::of("ScatterElementsUpdate", "opset12").inputs(inputs)
        };
        for (data, indices, updates, axis, expected) in [
            ("3,4", "2,4", "2,4", 0, Ok("f32[3,4]")),
            ("3,?", "2,9", "2,9", -1, Ok("f32[3,?]")),
            ("3,4", "9,2", "9,2", 0, Ok("f32[3,4]")),
            ("...", "2", "?", 0, Ok("f32[...]")),
            ("3,4", "4,4", "4,4", 1, Err("axis 0 has more elements than data [3,4]")),
            ("3,4", "2,4", "2,3", 0, Err("input 2 (updates): is [2,3], but the indices are [2,4]")),
            ("3,4", "2", "2", 0, Err("input 1 (indices): must have rank 2, not 1")),
            ("3,4", "2,4", "2,4", 2, Err("input 3 (axis): axis 2 is out of range for rank 2")),
        ] {
            case(data, indices, updates, axis).expect(&[expected]);
        }
        case("3", "3", "3", 0).attr("reduction", "sub").expect(&[Err("is not one of none, sum")]);
        let truth = || Input::shape(Boolean, "3");
        let inputs = [truth(), Input::shape(I32, "3"), truth(), Input::scalar(I64, 0)];
        let case = Case::of("ScatterElementsUpdate", "opset12").inputs(inputs);
        case.clone().attr("reduction", "mean").expect(&[Err("boolean has no reduction Mean")]);
        case.attr("reduction", "sum").expect(&[Ok("boolean[3]")]);
    }

    #[test]
    fn values() {
        let data = Input::bounds(I64, &[(1, 8), (2, 2), (3, 3)]);
        let inputs =
            [data, Input::ints(I64, &[-1]), Input::ints(I64, &[7]), Input::ints(I64, &[0])];
        let case = Case::of("ScatterElementsUpdate", "opset3").inputs(inputs);
        case.expect(&[Ok("i64[3] = {1..8, 2, 7}")]);
    }
}
