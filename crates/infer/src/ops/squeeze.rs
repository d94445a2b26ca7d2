//! Squeeze-1, Squeeze-15, Unsqueeze-1: removes or inserts axes of size 1.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/shape/squeeze-15.html>

use crate::lattice::shape::Dims;
use crate::rule::prelude::*;
use crate::rules::axes;

/// The operations and versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Squeeze-1.
    Squeeze,
    /// Squeeze-15, with `allow_axis_skip`.
    Squeeze15,
    /// Unsqueeze-1.
    Unsqueeze,
}

/// Squeeze and Unsqueeze.
#[derive(Debug)]
pub struct Squeeze {
    kind: Kind,
    /// Whether an axis that may have another size than 1 makes the rank unknown. Otherwise its size
    /// is assumed to be 1.
    allow_axis_skip: bool,
}

impl Parse for Squeeze {
    type Kind = Kind;

    fn parse(kind: Kind, attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        let skip = kind == Kind::Squeeze15 && attrs.bool_or("allow_axis_skip", false);
        Ok(Squeeze { kind, allow_axis_skip: skip })
    }
}

impl Op for Squeeze {
    fn input_names(&self) -> &'static [&'static str] {
        &["data", "axes"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        let least = if self.kind == Kind::Unsqueeze { 2 } else { 1 };
        cx.expect_inputs(least..=2)?;
        if cx.input_count() == 2 {
            cx.expect_axes(1)?;
            cx.expect_rank(1, 0..=1)?;
        }
        let shape = match self.kind {
            Kind::Unsqueeze => unsqueezed(cx)?,
            _ => self.squeezed(cx)?,
        };
        cx.set(0, cx.element_type(0), shape);
        Ok(())
    }

    fn value(&self, cx: &ValueCx<'_>) -> Option<PartialValue> {
        cx.passed_through(0)
    }

    fn traits(&self) -> OpTraits {
        OpTraits::moving(InputSet::one(0))
    }
}

impl Squeeze {
    fn squeezed(&self, cx: &mut InferCx<'_>) -> Result<PartialShape, RuleError> {
        let Some(dims) = cx.shape(0).dims() else {
            return Ok(cx.unranked("the rank of the data is unknown"));
        };
        // No axes, or an empty list of them, means every axis of size 1.
        let all = cx.input_count() == 1 || cx.shape(1).volume().value() == Some(0);
        if all {
            if dims.iter().any(|d| !d.is_static() && d.contains(1)) {
                return Ok(cx.unranked("it depends on which sizes turn out to be 1"));
            }
            return Ok(dims.iter().copied().filter(|d| d.value() != Some(1)).collect());
        }
        let Some(values) = cx.ints(1) else {
            cx.because("the axes are known only when running");
            let ones = dims.iter().filter(|d| d.contains(1)).count();
            if ones == 0 {
                return Ok(cx.shape(0).clone());
            }
            // Listed axes are assumed to have size 1 if none may be skipped, as in OpenVINO. If one
            // has not, the run reports that the result differs from the planned shape.
            let gone = cx.shape(1).volume().size().filter(|_| !self.allow_axis_skip);
            return Ok(match gone.filter(|n| *n <= ones).and_then(|n| dims.len().checked_sub(n)) {
                Some(rank) => PartialShape::of_rank(rank),
                None => PartialShape::unranked(),
            });
        };
        let axes = axes::normalize_all(&values, dims.len().max(1), 1)?;
        let mut kept = Dims::new();
        for (axis, dim) in dims.iter().enumerate() {
            if !axes.contains(&axis) {
                kept.push(*dim);
                continue;
            }
            let open = !dim.is_static() && dim.contains(1);
            if self.allow_axis_skip && open {
                return Ok(cx.unranked("it depends on which sizes turn out to be 1"));
            }
            // Ignored since 2024.3; before, it was an error.
            if !dim.contains(1) {
                kept.push(*dim);
            }
        }
        Ok(PartialShape::Ranked(kept))
    }
}

fn unsqueezed(cx: &mut InferCx<'_>) -> Result<PartialShape, RuleError> {
    let count = cx.shape(1).volume();
    let (Some(dims), Some(added)) = (cx.shape(0).dims(), count.size()) else {
        return Ok(cx.unranked("the rank of the result is known only when running"));
    };
    require!(1; added > 0, "names no axis");
    let Some(values) = cx.ints(1) else {
        cx.because("the axes are known only when running");
        return Ok(PartialShape::of_rank(dims.len() + added));
    };
    // An axis that is named twice counts once, and so do an axis and its negative number.
    let mut values = values;
    values.sort_unstable();
    values.dedup();
    let mut axes = axes::normalize_all(&values, dims.len() + values.len(), 1)?;
    axes.sort_unstable();
    axes.dedup();
    let mut out: Dims = dims.into();
    for axis in axes {
        let place = axis.min(out.len());
        out.insert(place, Dim::fixed(1));
    }
    Ok(PartialShape::Ranked(out))
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    #[test]
    fn squeeze() {
        let data = |shape| Input::shape(F32, shape);
        let case = |version| Case::of("Squeeze", version);
        for (shape, axes, expected) in [
            ("1,2,1,?", vec![0, -2], Ok("f32[2,?]")),
            ("1,2,1,?", vec![3], Ok("f32[1,2,1]")),
            ("1,2,3..4", vec![0, 1, 2], Ok("f32[2,3..4]")),
            ("1,2", vec![2], Err("input 1 (axes): axis 2 is out of range for rank 2")),
            ("1,2,1", vec![], Ok("f32[2]")),
            ("1,?", vec![], Ok("f32[...]")),
            ("...", vec![0], Ok("f32[...]")),
        ] {
            case("opset1").inputs([data(shape), Input::ints(I64, &axes)]).expect(&[expected]);
        }
        case("opset1").inputs([data("1,3")]).expect(&[Ok("f32[3]")]);
        case("opset1").inputs([data("1,?,3"), Input::shape(I64, "1")]).expect(&[Ok("f32[?,?]")]);
        for axes in ["1", "[]", "..."].map(|shape| Input::shape(I64, shape)) {
            case("opset1").inputs([data("2,3..5"), axes]).expect(&[Ok("f32[2,3..5]")]);
        }
        let skip = case("opset15").attr("allow_axis_skip", "true");
        skip.inputs([data("1,2"), Input::ints(I64, &[0, 1])]).expect(&[Ok("f32[2]")]);
    }

    #[test]
    fn unsqueeze() {
        let case = |shape, axes: &[i64]| {
            let inputs = [Input::shape(F32, shape), Input::ints(I64, axes)];
            Case::of("Unsqueeze", "opset1").inputs(inputs)
        };
        case("2,?", &[0, -1]).expect(&[Ok("f32[1,2,?,1]")]);
        case("2,3,4", &[1, 1, 3, 3]).expect(&[Ok("f32[2,1,3,1,4]")]);
        case("2,3,4", &[-1, 4, -1]).expect(&[Ok("f32[2,3,4,1]")]);
        case("2,3,4", &[4, 4, -2, -2, -1, -1]).expect(&[Ok("f32[2,3,4,1,1]")]);
        case("2", &[3]).expect(&[Err("input 1 (axes): axis 3 is out of range for rank 2")]);
        case("2", &[]).expect(&[Err("input 1 (axes): names no axis")]);
        let late = [Input::shape(F32, "2"), Input::shape(I64, "2")];
        Case::of("Unsqueeze", "opset1").inputs(late).expect(&[Ok("f32[?,?,?]")]);
        let scalar = [Input::scalar(I64, 7), Input::ints(I64, &[0])];
        Case::of("Unsqueeze", "opset1").inputs(scalar).expect(&[Ok("i64[1] = {7}")]);
    }
}
