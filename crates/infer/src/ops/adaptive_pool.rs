//! AdaptiveAvgPool-8 and AdaptiveMaxPool-8: mean or maximum over windows that divide each spatial
//! axis evenly into the requested output size.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/pooling/adaptive-avg-pool-8.html>
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/pooling/adaptive-max-pool-8.html>

use crate::lattice::shape::Dims;
use crate::ops::pool::index_type;
use crate::rule::prelude::*;
use crate::rules::sizes;

/// The operations of this file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// AdaptiveAvgPool.
    Avg,
    /// AdaptiveMaxPool.
    Max,
}

/// An operation of this file.
#[derive(Debug)]
pub struct AdaptivePool {
    /// Type of the indices of the maxima; `None` for the mean.
    indices: Option<ElementType>,
}

impl Parse for AdaptivePool {
    type Kind = Kind;

    fn parse(kind: Kind, attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        // Only the examples of the specification have it.
        attrs.ignore(&["output_type"]);
        let indices = match kind {
            Kind::Avg => None,
            Kind::Max => Some(index_type(attrs)?),
        };
        Ok(AdaptivePool { indices })
    }
}

impl AdaptivePool {
    /// Whether it takes the maximum rather than the mean.
    pub fn is_max(&self) -> bool {
        self.indices.is_some()
    }

    fn shape(&self, cx: &mut InferCx<'_>) -> Result<PartialShape, RuleError> {
        let (data, count) = (cx.shape(0), cx.shape(1).dim(0));
        let Some(dims) = data.dims() else {
            let Some(axes) = count.value() else {
                return Ok(cx.unranked("the rank of the data is unknown"));
            };
            let rank = usize::try_from(axes).map_or(2, |axes| axes.saturating_add(2));
            require!(1; (3..=5).contains(&rank), "holds {axes} sizes; there are 1 to 3 axes");
            return self.sized(cx, &[Dim::any(), Dim::any()], rank - 2);
        };
        let axes = dims.len() - 2;
        require!(1; count.contains(Dim::of(axes).min()), "holds {count} sizes for {axes} axes");
        self.sized(cx, &dims[..2], axes)
    }

    fn sized(
        &self,
        cx: &mut InferCx<'_>,
        head: &[Dim],
        axes: usize,
    ) -> Result<PartialShape, RuleError> {
        let mut out: Dims = head.iter().copied().collect();
        let Some(values) = cx.intervals(1) else {
            cx.because("the sizes of the output are known only when running");
            out.extend(std::iter::repeat_n(Dim::any(), axes));
            return Ok(PartialShape::Ranked(out));
        };
        for value in values {
            out.push(sizes::size(1, *value)?);
        }
        Ok(PartialShape::Ranked(out))
    }
}

impl Op for AdaptivePool {
    fn input_names(&self) -> &'static [&'static str] {
        &["data", "output_shape"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(2..=2)?;
        // The maximum of integers is not in the specification, but in OpenVINO.
        let element_type = if self.is_max() { cx.expect_number(0)? } else { cx.expect_real(0)? };
        cx.expect_index(1)?;
        cx.expect_rank(0, 3..=5)?;
        cx.expect_rank(1, 1..=1)?;
        let shape = self.shape(cx)?;
        if let Some(index_type) = self.indices {
            cx.set(1, index_type, shape.clone());
        }
        cx.set(0, element_type, shape);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    #[test]
    fn rule() {
        let run = |data: &str, sizes: Input, expected| {
            let inputs = [Input::shape(F16, data), sizes];
            Case::of("AdaptiveAvgPool", "opset8").inputs(inputs).expect(&[expected]);
        };
        let i = |v: &[i64]| Input::ints(I32, v);
        run("1,3,32,?", i(&[16, 20]), Ok("f16[1,3,16,20]"));
        run("?,2..4,8", i(&[3]), Ok("f16[?,2..4,3]"));
        run("1,3,8,8,8", Input::bounds(I64, &[(1, 5), (2, 2), (0, 9)]), Ok("f16[1,3,1..5,2,..9]"));
        run("1,3,8,8", Input::shape(I64, "2"), Ok("f16[1,3,?,?]"));
        run("...", i(&[4]), Ok("f16[?,?,4]"));
        run("...", Input::shape(I64, "?"), Ok("f16[...]"));
        run("1,3,8", i(&[4, 4]), Err("input 1 (output_shape): holds 2 sizes for 1 axes"));
        run("...", i(&[4, 4, 4, 4]), Err("holds 4 sizes; there are 1 to 3 axes"));
        run("1,3,8", i(&[-1]), Err("holds the negative size -1"));
        run("1,3", i(&[]), Err("input 0 (data): must have rank 3 to 5, not 2"));
    }

    #[test]
    fn indices() {
        let case = Case::of("AdaptiveMaxPool", "opset8")
            .inputs([Input::shape(F32, "1,2,9"), Input::ints(I64, &[4])]);
        case.expect(&[Ok("f32[1,2,4]"), Ok("i64[1,2,4]")]);
        let narrow = case.clone().attr("index_element_type", "i32");
        narrow.expect(&[Ok("f32[1,2,4]"), Ok("i32[1,2,4]")]);
        let whole = [Input::shape(U8, "1,2,9"), Input::ints(I64, &[4])];
        case.clone().inputs(whole.clone()).expect(&[Ok("u8[1,2,4]"), Ok("i64[1,2,4]")]);
        let mean = Case::of("AdaptiveAvgPool", "opset8").inputs(whole);
        mean.expect(&[Err("must be a floating-point type, not u8")]);
        case.attr("index_element_type", "u8").expect(&[Err("\"u8\" is not one of i64, i32")]);
    }
}
