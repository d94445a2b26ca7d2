//! GatherND-5, GatherND-8: slices of a tensor by tuples of indices.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/movement/gather-nd-8.html>
//!
//! In version 8 batch axes of size 1 may be broadcast, which OpenVINO's inference rejects.

use crate::lattice::shape::Dims;
use crate::rule::prelude::*;
use crate::rules::broadcast::merge;
use crate::rules::gather;

/// The versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The batch axes are merged.
    V5,
    /// The batch axes are kept.
    V8,
}

/// GatherND of all versions.
#[derive(Debug)]
pub struct GatherNd {
    kind: Kind,
    batch_dims: usize,
}

impl Parse for GatherNd {
    type Kind = Kind;

    fn parse(kind: Kind, attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        Ok(GatherNd { kind, batch_dims: attrs.count_in("batch_dims", Some(0), 0..)? })
    }
}

impl GatherNd {
    /// Number of leading axes that data and indices share.
    pub fn batch_dims(&self) -> usize {
        self.batch_dims
    }
}

impl Op for GatherNd {
    fn input_names(&self) -> &'static [&'static str] {
        &["data", "indices"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(2..=2)?;
        cx.expect_integer(1)?;
        for input in 0..2 {
            cx.expect_rank(input, 1..=usize::MAX)?;
            let (shape, batch) = (cx.shape(input), self.batch_dims);
            let enough = shape.rank().is_none_or(|rank| rank > batch);
            require!(input; enough, "is {shape}, which has nothing behind {batch} batch axes");
        }
        let shape = self.shape(cx)?;
        cx.set(0, cx.element_type(0), shape);
        Ok(())
    }

    fn value(&self, cx: &ValueCx<'_>) -> Option<PartialValue> {
        let (data, indices) = (cx.value(0)?, cx.value(1)?);
        let tuple = *indices.sizes.last()?;
        let axes = data.sizes.get(..tuple).filter(|_| self.batch_dims == 0 && tuple > 0)?;
        let inner: usize = data.sizes.iter().skip(tuple).product();
        let mut positions = Vec::new();
        for indices in indices.intervals()?.chunks(tuple) {
            let slice = indices.iter().zip(axes).try_fold(0, |at, (index, size)| {
                Some(at * size + gather::position(index, *size)?)
            })?;
            positions.extend((0..inner).map(|i| slice * inner + i));
        }
        data.gathered(&cx.sizes(), positions.into_iter())
    }

    fn traits(&self) -> OpTraits {
        OpTraits::moving(InputSet::one(0))
    }
}

impl GatherNd {
    fn shape(&self, cx: &mut InferCx<'_>) -> Result<PartialShape, RuleError> {
        let (data, indices, batch) = (cx.shape(0), cx.shape(1), self.batch_dims);
        let places = indices.dims().and_then(<[Dim]>::split_last);
        let (Some(d), Some((tuple, places))) = (data.dims(), places) else {
            return Ok(cx.unranked("the rank of data or indices is unknown"));
        };
        let (least, rank) = (tuple.min(), Dim::of(d.len() - batch).min());
        require!(1; least <= rank, "is {indices}: {least} indices are too many for data {data}");
        let mut out = Dims::new();
        for (axis, (a, b)) in d.iter().zip(places).take(batch).enumerate() {
            let merged = match self.kind {
                Kind::V5 => a.meet(*b),
                Kind::V8 => merge(*a, *b, cx.symbols()),
            };
            let Some(merged) = merged else {
                let message = format!("is {indices}: batch axis {axis} must be {a} as in {data}");
                return Err(RuleError::at(1, message));
            };
            out.push(merged);
        }
        if self.kind == Kind::V5 && batch > 1 {
            let all = out.drain(..).fold(Dim::fixed(1), Dim::times);
            out.push(all);
        }
        let Some(tuple) = tuple.size() else {
            return Ok(cx.unranked("how many indices make a tuple is known only when running"));
        };
        out.extend(places.iter().skip(batch).chain(d.iter().skip(batch + tuple)).copied());
        Ok(PartialShape::Ranked(out))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    #[test]
    fn value() {
        let value = |data: Input, indices: &[i64], sizes: &[usize], expected| {
            let inputs = [data, Input::ints(I64, indices).shaped(sizes)];
            Case::of("GatherND", "opset8").inputs(inputs).expect(&[Ok(expected)]);
        };
        let list = || Input::bounds(I64, &[(2, 2), (1, 9), (5, 5), (7, 7)]);
        value(list(), &[1, -1], &[2, 1], "i64[2] = {1..9, 7}");
        value(list(), &[4], &[1, 1], "i64[1]");
        value(list().shaped(&[2, 2]), &[1], &[1, 1], "i64[1,2] = {5, 7}");
        value(list().shaped(&[2, 2]), &[0, -1, -1, 0], &[2, 2], "i64[2] = {1..9, 5}");
    }

    #[test]
    fn rule() {
        for (version, data, indices, batch, expected) in [
            ("opset8", "1000,256,10,15", "25,125,3", "0", Ok("f32[25,125,15]")),
            ("opset8", "30,2,100,35", "30,2,3,1", "2", Ok("f32[30,2,3,35]")),
            ("opset5", "30,2,100,35", "30,2,3,1", "2", Ok("f32[60,3,35]")),
            ("opset5", "?,4", "3,1", "1", Ok("f32[3]")),
            ("opset8", "1,4", "3,1", "1", Ok("f32[3]")),
            ("opset5", "1,4", "3,1", "1", Err("batch axis 0 must be 1 as in [1,4]")),
            ("opset8", "3,4", "2,0", "0", Ok("f32[2,3,4]")),
            ("opset8", "3,4", "2,?", "0", Ok("f32[...]")),
            ("opset8", "...", "2,1", "0", Ok("f32[...]")),
            ("opset8", "3,4", "2,3", "0", Err("is [2,3]: 3 indices are too many for data [3,4]")),
            ("opset8", "3,4", "3,2", "1", Err("2 indices are too many")),
            ("opset8", "3", "3,1", "1", Err("input 0 (data): is [3], which has nothing behind 1")),
            ("opset8", "[]", "1", "0", Err("input 0 (data): must have rank at least 1")),
            ("opset8", "3", "1", "-1", Err("-1 is not in 0..")),
        ] {
            let inputs = [Input::shape(F32, data), Input::shape(I32, indices)];
            let case = Case::of("GatherND", version).attr("batch_dims", batch);
            case.inputs(inputs).expect(&[expected]);
        }
    }
}
