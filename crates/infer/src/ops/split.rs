//! Split-1, VariadicSplit-1: splits a tensor along an axis.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/movement/split-1.html>

use crate::lattice::value::Interval;
use crate::rule::prelude::*;
use crate::rules::axes;

/// The operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Into equal parts.
    Split,
    /// Into parts of given lengths.
    VariadicSplit,
}

/// Split-1 and VariadicSplit-1.
#[derive(Debug)]
pub struct Split {
    /// Number of equal parts; `None` for given lengths.
    parts: Option<usize>,
}

impl Parse for Split {
    type Kind = Kind;

    fn parse(kind: Kind, attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        let parts = match kind {
            Kind::Split => Some(attrs.size("num_splits")?),
            Kind::VariadicSplit => None,
        };
        if parts.is_some_and(|p| p != attrs.output_count()) {
            let outputs = attrs.output_count();
            return Err(AttrError::new("num_splits", format!("the layer has {outputs} outputs")));
        }
        Ok(Split { parts })
    }
}

impl Split {
    /// The start and length of each part, for an axis of `size`.
    ///
    /// # Errors
    /// When the lengths do not add up to the size.
    pub fn parts(
        &self,
        size: usize,
        lengths: Option<&[i64]>,
    ) -> Result<Vec<(usize, usize)>, RuleError> {
        if let Some(parts) = self.parts {
            require!(size.is_multiple_of(parts), "{size} cannot be cut into {parts} equal parts");
            let each = size / parts;
            return Ok((0..parts).map(|i| (i * each, each)).collect());
        }
        let lengths = lengths.unwrap_or_default();
        let open = lengths.iter().filter(|l| **l == -1).count();
        require!(2; open <= 1, "{open} lengths are -1; only one can be inferred");
        let bad = lengths.iter().find(|l| **l < -1);
        require!(2; bad.is_none(), "{} is not a length", bad.unwrap_or(&0));
        let known: i64 = lengths.iter().filter(|l| **l >= 0).fold(0, |s, l| s.saturating_add(*l));
        let size = i64::try_from(size).unwrap_or(i64::MAX);
        let fits = if open == 1 { known <= size } else { known == size };
        require!(2; fits, "the lengths {lengths:?} do not add up to {size}");
        let mut start = 0;
        let mut out = Vec::new();
        for length in lengths {
            let length = if *length == -1 { size - known } else { *length };
            let index = |v: i64| usize::try_from(v).unwrap_or(0);
            out.push((index(start), index(length)));
            start += length;
        }
        Ok(out)
    }
}

impl Op for Split {
    fn input_names(&self) -> &'static [&'static str] {
        &["data", "axis", "split_lengths"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        let inputs = if self.parts.is_some() { 2 } else { 3 };
        cx.expect_inputs(inputs..=inputs)?;
        for input in 1..inputs {
            cx.expect_axes(input)?;
        }
        if inputs == 3 {
            cx.expect_rank(2, 1..=1)?;
            let (lengths, outputs) = (cx.shape(2).volume(), cx.output_count());
            require!(2; lengths.contains(i64::try_from(outputs).unwrap_or(0)),
                "holds {lengths} lengths, but the layer has {outputs} outputs");
        }
        let (element_type, outputs) = (cx.element_type(0), cx.output_count());
        if let Some(parts) = self.parts {
            require!(
                attribute "num_splits"; parts == outputs,
                "num_splits is {parts}, but the layer has {outputs} outputs"
            );
        }
        let (dims, axis) = (cx.shape(0).dims(), cx.int(1));
        let (Some(dims), Some(axis)) = (dims, axis) else {
            cx.because("the rank of the data or the axis is known only when running");
            let shape = cx.rank(0).map_or_else(PartialShape::unranked, PartialShape::of_rank);
            (0..outputs).for_each(|o| cx.set(o, element_type, shape.clone()));
            return Ok(());
        };
        let axis = axes::normalize_of(1, axis, dims.len())?;
        let dim = dims.get(axis).copied().unwrap_or(Dim::any());
        let parts = match dim.size() {
            Some(size) if self.parts.is_some() || cx.ints(2).is_some() => {
                let parts = self.parts(size, cx.ints(2).as_deref())?;
                parts.into_iter().map(|(_, length)| Dim::of(length)).collect()
            }
            _ => self.open_parts(cx, dim)?,
        };
        for (output, part) in parts.into_iter().enumerate() {
            cx.set(output, element_type, cx.shape(0).clone().with_dim(axis, part));
        }
        Ok(())
    }

    fn value(&self, cx: &ValueCx<'_>) -> Option<PartialValue> {
        let data = cx.value(0)?;
        let axis = axes::normalize(*cx.ints(1)?.first()?, data.sizes.len()).ok()?;
        let size = *data.sizes.get(axis)?;
        let parts = self.parts(size, cx.ints(2).as_deref()).ok()?;
        let (start, length) = *parts.get(cx.output())?;
        let inner: usize = data.sizes.iter().skip(axis + 1).product();
        let outer: usize = data.sizes.iter().take(axis).product();
        let run = |o: usize| (o * size + start) * inner..(o * size + start + length) * inner;
        data.gathered(&cx.sizes(), (0..outer).flat_map(run))
    }

    fn traits(&self) -> OpTraits {
        OpTraits::moving(InputSet::one(0))
    }
}

impl Split {
    /// The parts if the size of the axis, or a length, is not known exactly.
    fn open_parts(&self, cx: &mut InferCx<'_>, dim: Dim) -> Result<Vec<Dim>, RuleError> {
        if let Some(parts) = self.parts {
            let n = i64::try_from(parts).unwrap_or(i64::MAX);
            let high = if dim.is_bounded() { dim.max() / n } else { Dim::INF };
            let part = Dim::range(dim.min().div_euclid(n) + i64::from(dim.min() % n != 0), high);
            require!(0; part.min() <= high, "no size in {dim} can be cut into {n} equal parts");
            return Ok(vec![part.with_why(dim.why()); parts]);
        }
        cx.because("the lengths are known only when running");
        let Some(lengths) = cx.intervals(2) else {
            return Ok(vec![Dim::range(0, dim.max()); cx.output_count()]);
        };
        // A length that may be -1 counts with its other values: one at most is the rest.
        let known = lengths.iter().filter(|l| l.value() != Some(-1));
        let known = known.fold(Dim::fixed(0), |sum, l| sum.plus(Dim::from(*l)));
        let rest = Dim::range(
            dim.min().saturating_sub(known.max()),
            if dim.is_bounded() { dim.max().saturating_sub(known.min()) } else { Dim::INF },
        );
        let part = |l: &Interval| match l.value() {
            Some(-1) => rest.with_why(dim.why()),
            _ if l.lo < 0 => Dim::range(0, dim.max()),
            _ => Dim::from(*l),
        };
        Ok(lengths.iter().map(part).collect())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    #[test]
    fn equal_parts() {
        let case = |shape, axis| {
            let inputs = [Input::shape(F32, shape), Input::scalar(I64, axis)];
            Case::of("Split", "opset1").attr("num_splits", "2").inputs(inputs)
        };
        case("4,6", -1).expect(&[Ok("f32[4,3]"), Ok("f32[4,3]")]);
        case("4,3..9", 1).expect(&[Ok("f32[4,2..4]"), Ok("f32[4,2..4]")]);
        case("5", 0).expect(&[Err("5 cannot be cut into 2 equal parts"), Err("")]);
        case("5", 1).expect(&[Err("input 1 (axis): axis 1 is out of range"), Err("")]);
        case("5", 0).expect(&[Err("attribute num_splits: the layer has 1 outputs")]);
    }

    #[test]
    fn values() {
        let data = Input::ints(I64, &[1, 2, 3, 4, 5, 6]).shaped(&[3, 2]);
        let case = Case::of("Split", "opset1").attr("num_splits", "2");
        let case = case.inputs([data, Input::scalar(I64, 1)]);
        case.expect(&[Ok("i64[3,1] = {1, 3, 5}"), Ok("i64[3,1] = {2, 4, 6}")]);
    }

    #[test]
    fn given_lengths() {
        let case = |shape, lengths: &[i64]| {
            let inputs =
                [Input::shape(F32, shape), Input::scalar(I64, 0), Input::ints(I64, lengths)];
            Case::of("VariadicSplit", "opset1").inputs(inputs)
        };
        case("9", &[2, -1]).expect(&[Ok("f32[2]"), Ok("f32[7]")]);
        case("4..9", &[2, -1]).expect(&[Ok("f32[2]"), Ok("f32[2..7]")]);
        let lengths = |bounds: &[(i64, i64)]| {
            let lengths = Input::bounds(I64, bounds);
            let inputs = [Input::shape(F32, "9"), Input::scalar(I64, 0), lengths];
            Case::of("VariadicSplit", "opset1").inputs(inputs)
        };
        lengths(&[(1, 7), (-1, -1)]).expect(&[Ok("f32[1..7]"), Ok("f32[2..8]")]);
        lengths(&[(-1, 7), (-1, -1)]).expect(&[Ok("f32[..9]"), Ok("f32[2..9]")]);
        case("9", &[2, 3]).expect(&[Err("the lengths [2, 3] do not add up to 9"), Err("")]);
        case("9", &[-1, -1]).expect(&[Err("2 lengths are -1"), Err("")]);
        case("9", &[2, 3, 4]).expect(&[Err("holds 3 lengths, but the layer has 2"), Err("")]);
    }
}
