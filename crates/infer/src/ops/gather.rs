//! Gather-1, Gather-7, Gather-8: slices of a tensor along an axis, by index.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/movement/gather-8.html>

use crate::lattice::shape::Dims;
use crate::rule::prelude::*;
use crate::rules::{axes, gather};

/// The versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Without batches.
    V1,
    /// With `batch_dims`.
    V7,
    /// With indices that may count from the end.
    V8,
}

/// Gather of all versions.
#[derive(Debug)]
pub struct Gather {
    batch_dims: i64,
}

impl Parse for Gather {
    type Kind = Kind;

    fn parse(kind: Kind, attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        let batch_dims = if kind == Kind::V1 { 0 } else { attrs.int_or("batch_dims", 0)? };
        Ok(Gather { batch_dims })
    }
}

impl Gather {
    /// Number of leading axes that data and indices share.
    ///
    /// # Errors
    /// When it exceeds the rank of the indices.
    pub fn batch_dims(&self, indices_rank: usize) -> Result<usize, RuleError> {
        let rank = i64::try_from(indices_rank).unwrap_or(i64::MAX);
        let batch = self.batch_dims + if self.batch_dims < 0 { rank } else { 0 };
        let found = self.batch_dims;
        let normal = usize::try_from(batch).ok().filter(|b| *b <= indices_rank);
        let message = || format!("batch_dims {found} is out of range for indices of rank {rank}");
        normal.ok_or_else(|| RuleError::new(message()).about("batch_dims"))
    }
}

impl Op for Gather {
    fn input_names(&self) -> &'static [&'static str] {
        &["data", "indices", "axis"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(3..=3)?;
        cx.expect_integer(1)?;
        cx.expect_integer(2)?;
        cx.expect_one(2, "axis")?;
        let shape = self.shape(cx)?;
        cx.set(0, cx.element_type(0), shape);
        Ok(())
    }

    fn value(&self, cx: &ValueCx<'_>) -> Option<PartialValue> {
        gather::of_list(cx)
    }

    fn traits(&self) -> OpTraits {
        OpTraits::moving(InputSet::one(0))
    }
}

impl Gather {
    fn shape(&self, cx: &mut InferCx<'_>) -> Result<PartialShape, RuleError> {
        let (data, indices) = (cx.shape(0), cx.shape(1));
        let (Some(d), Some(i)) = (data.dims(), indices.dims()) else {
            return Ok(cx.unranked("the rank of data or indices is unknown"));
        };
        let batch = self.batch_dims(i.len())?;
        require!(
            0; d.len() > batch && !d.is_empty(),
            "is {data}, which has no axis to gather along after {batch} batch axes"
        );
        let mut out = Dims::new();
        for (axis, (a, b)) in d.iter().zip(i).take(batch).enumerate() {
            let message =
                || format!("is {indices}: batch axis {axis} must be {a} as in the data {data}");
            out.push(a.meet(*b).ok_or_else(|| RuleError::at(1, message()))?);
        }
        let Some(axis) = cx.int(2) else {
            cx.because("the axis is known only when running");
            let rank = d.len() + i.len() - batch - 1;
            out.resize(rank, Dim::any());
            return Ok(PartialShape::Ranked(out));
        };
        let axis = axes::normalize_of(2, axis, d.len())?;
        require!(2; axis >= batch, "axis {axis} lies before batch_dims, {batch}");
        out.extend(d.iter().take(axis).skip(batch).copied());
        out.extend(i.iter().skip(batch).copied());
        out.extend(d.iter().skip(axis + 1).copied());
        Ok(PartialShape::Ranked(out))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    #[test]
    fn rule() {
        let case = |data, indices, axis| {
            let inputs =
                [Input::shape(F32, data), Input::shape(I32, indices), Input::scalar(I64, axis)];
            Case::of("Gather", "opset8").inputs(inputs)
        };
        for (data, indices, axis, batch, expected) in [
            ("3,4,5", "2,?", 1, "0", Ok("f32[3,2,?,5]")),
            ("3,4,5", "[]", -1, "0", Ok("f32[3,4]")),
            ("3,4,5", "3,2", 1, "1", Ok("f32[3,2,5]")),
            ("?,4,5", "3,2", 2, "-1", Ok("f32[3,4,2]")),
            ("3,4", "2,2", 1, "1", Err("batch axis 0 must be 3 as in the data [3,4]")),
            ("3,4", "2", 0, "1", Err("input 1 (indices): is [2]: batch axis 0 must be 3")),
            ("3,4", "3", 0, "1", Err("input 2 (axis): axis 0 lies before batch_dims, 1")),
            ("3,4", "2", 2, "0", Err("input 2 (axis): axis 2 is out of range for rank 2")),
            ("[]", "2", 0, "0", Err("input 0 (data): is [], which has no axis")),
            ("3", "2", 0, "2", Err("batch_dims 2 is out of range for indices of rank 1")),
            ("...", "2", 0, "0", Ok("f32[...]")),
        ] {
            case(data, indices, axis).attr("batch_dims", batch).expect(&[expected]);
        }
        let late = [Input::shape(F32, "3,4"), Input::shape(I32, "2"), Input::shape(I64, "[]")];
        Case::of("Gather", "opset1").inputs(late).expect(&[Ok("f32[?,?]")]);
        let late = [Input::shape(F32, "?,4,5"), Input::shape(I32, "3,2"), Input::shape(I64, "[]")];
        let case = Case::of("Gather", "opset8").attr("batch_dims", "1").inputs(late);
        case.expect(&[Ok("f32[3,?,?]")]);
        // An axis of a type that is not read would never be known.
        let bits = [Input::shape(F32, "3,4"), Input::shape(I32, "2"), Input::shape(U1, "[]")];
        let refused = Err("input 2 (axis): must be an integer type of 4, 8 or more bits, not u1");
        Case::of("Gather", "opset8").inputs(bits).expect(&[refused]);
    }

    #[test]
    fn values() {
        let data = Input::bounds(I64, &[(2, 2), (1, 8), (7, 7)]);
        let inputs = [data.clone(), Input::ints(I32, &[-1, 1]), Input::scalar(I64, 0)];
        Case::of("Gather", "opset8").inputs(inputs).expect(&[Ok("i64[2] = {7, 1..8}")]);
        let inputs = [data, Input::scalar(I32, 0), Input::scalar(I64, 0)];
        Case::of("Gather", "opset1").inputs(inputs).expect(&[Ok("i64[] = {2}")]);
    }
}
