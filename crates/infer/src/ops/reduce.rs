//! Reductions: ReduceSum-1, ReduceMean-1, ReduceProd-1, ReduceMax-1, ReduceMin-1, ReduceL1-4,
//! ReduceL2-4, ReduceLogicalAnd-1, ReduceLogicalOr-1.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/reduction/reduce-sum-1.html>

use crate::lattice::shape::Dims;
use crate::lattice::value::Interval;
use crate::rule::prelude::*;
use crate::rules::axes;
use crate::rules::interval::{Arithmetic, ints};

/// The reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names of the operations
pub enum Kind {
    Sum,
    Mean,
    Prod,
    Max,
    Min,
    L1,
    L2,
    LogicalAnd,
    LogicalOr,
}

/// A reduction along axes.
#[derive(Debug)]
pub struct Reduce {
    kind: Kind,
    keep_dims: bool,
}

impl Parse for Reduce {
    type Kind = Kind;

    fn parse(kind: Kind, attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        Ok(Reduce { kind, keep_dims: attrs.bool_or("keep_dims", false) })
    }
}

impl Reduce {
    /// The reduction.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether reduced axes are kept with size 1.
    pub fn keep_dims(&self) -> bool {
        self.keep_dims
    }
}

impl Op for Reduce {
    fn input_names(&self) -> &'static [&'static str] {
        &["data", "axes"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(2..=2)?;
        let element_type = match self.kind {
            Kind::LogicalAnd | Kind::LogicalOr => cx.expect_boolean(0)?,
            _ => cx.expect_number(0)?,
        };
        cx.expect_integer(1)?;
        cx.expect_rank(1, 0..=1)?;
        let shape = self.shape(cx)?;
        cx.set(0, element_type, shape);
        Ok(())
    }

    /// Reductions of a whole list, which graphs use to count elements.
    fn value(&self, cx: &ValueCx<'_>) -> Option<PartialValue> {
        let (data, sizes) = (cx.value(0)?, cx.sizes());
        if sizes.iter().any(|s| *s != 1) || data.is_empty() {
            return None;
        }
        let op = match self.kind {
            Kind::Sum => Arithmetic::Add,
            Kind::Prod => Arithmetic::Multiply,
            Kind::Max => Arithmetic::Maximum,
            Kind::Min => Arithmetic::Minimum,
            _ => return None,
        };
        let values = data.intervals()?.iter().copied();
        let all: Interval = values.reduce(|a, b| ints(op, a, b, data.element_type))?;
        Some(PartialValue::ints(data.element_type, &sizes, vec![all]))
    }
}

impl Reduce {
    fn shape(&self, cx: &mut InferCx<'_>) -> Result<PartialShape, RuleError> {
        let Some(dims) = cx.shape(0).dims() else {
            return Ok(cx.unranked("the rank of the data is unknown"));
        };
        let Some(values) = cx.ints(1) else {
            cx.because("the axes are known only when running");
            // The reduced axes are unknown: each size is kept or becomes 1.
            let one = cx.shape(1).volume() == Dim::fixed(1) && !dims.is_empty();
            return Ok(if self.keep_dims {
                dims.iter().map(|d| d.join(Dim::fixed(1)).unlabelled()).collect()
            } else if one {
                // One axis is removed: each size is that of its own axis or of the next.
                dims.iter().zip(dims.iter().skip(1)).map(|(a, b)| a.join(*b)).collect()
            } else {
                PartialShape::unranked()
            });
        };
        let axes = axes::normalize_all(&values, dims.len().max(1), 1)?;
        let mut out = Dims::new();
        for (axis, dim) in dims.iter().enumerate() {
            if !axes.contains(&axis) {
                out.push(*dim);
            } else if self.keep_dims {
                out.push(Dim::fixed(1));
            }
        }
        Ok(PartialShape::Ranked(out))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    #[test]
    fn rule() {
        let case = |keep: &str, shape, axes: Input| {
            let inputs = [Input::shape(F32, shape), axes];
            Case::of("ReduceMean", "opset1").attr("keep_dims", keep).inputs(inputs)
        };
        let i = |v: &[i64]| Input::ints(I64, v);
        case("true", "2,?,4", i(&[-1])).expect(&[Ok("f32[2,?,1]")]);
        case("false", "2,?,4", i(&[0, 2, 0])).expect(&[Ok("f32[?]")]);
        case("false", "2", i(&[])).expect(&[Ok("f32[2]")]);
        case("false", "2", i(&[1])).expect(&[Err("input 1 (axes): axis 1 is out of range")]);
        case("false", "[]", i(&[-1])).expect(&[Ok("f32[]")]);
        case("false", "[]", i(&[1])).expect(&[Err("axis 1 is out of range")]);
        case("true", "2,3", Input::shape(I64, "1")).expect(&[Ok("f32[1..2,1..3]")]);
        case("false", "2,3,?", Input::shape(I64, "1")).expect(&[Ok("f32[2..3,?]")]);
        case("false", "2,3", Input::shape(I64, "2")).expect(&[Ok("f32[...]")]);
        let logical = [Input::shape(F32, "2"), i(&[0])];
        Case::of("ReduceLogicalAnd", "opset1").inputs(logical).expect(&[Err("must be boolean")]);
    }

    #[test]
    fn values() {
        let data = Input::bounds(I64, &[(1, 8), (2, 2), (3, 3)]);
        let inputs = [data, Input::scalar(I64, 0)];
        Case::of("ReduceProd", "opset1").inputs(inputs).expect(&[Ok("i64[] = {6..48}")]);
    }
}
