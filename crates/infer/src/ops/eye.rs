//! Eye-9: matrices with ones on a diagonal.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/generation/eye-9.html>

use crate::lattice::shape::Dims;
use crate::lattice::value::Interval;
use crate::rule::prelude::*;

/// Eye-9.
#[derive(Debug)]
pub struct Eye {
    output_type: ElementType,
}

impl Parse for Eye {
    type Kind = ();

    fn parse((): (), attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        Ok(Eye { output_type: attrs.element_type("output_type")? })
    }
}

impl Op for Eye {
    fn input_names(&self) -> &'static [&'static str] {
        &["num_rows", "num_columns", "diagonal_index", "batch_shape"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(3..=4)?;
        for input in 0..cx.input_count() {
            cx.expect_index(input)?;
            cx.expect_rank(input, if input < 3 { 0..=1 } else { 1..=1 })?;
            let one = input == 3 || cx.shape(input).volume().contains(1);
            require!(input; one, "must hold one number, but is {}", cx.shape(input));
        }
        cx.because("sizes are known only when running");
        let batch = match cx.input_count() {
            3 => Some(0),
            _ => cx.shape(3).dim(0).size(),
        };
        let shape = match batch {
            None => PartialShape::unranked(),
            Some(batch) => {
                let mut dims = sizes(cx, 3, batch)?;
                dims.extend(sizes(cx, 0, 1)?);
                dims.extend(sizes(cx, 1, 1)?);
                PartialShape::Ranked(dims)
            }
        };
        cx.set(0, self.output_type, shape);
        Ok(())
    }
}

/// The `count` sizes that an input gives, as far as they are known.
fn sizes(cx: &InferCx<'_>, input: usize, count: usize) -> Result<Dims, RuleError> {
    let known = cx.intervals(input).unwrap_or_default();
    let size = |i: usize| {
        let Some(v) = known.get(i) else { return Ok(Dim::any()) };
        require!(input; v.hi >= 0, "{} is no size", v.hi);
        Ok(Dim::from(Interval { lo: v.lo.max(0), ..*v }))
    };
    (0..count).map(size).collect()
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    #[test]
    fn rule() {
        let i = |v| Input::scalar(I64, v);
        let late = || Input::shape(I64, "[]");
        let case = |rows, columns, batch: Option<Input>| {
            let inputs = [rows, columns, late()].into_iter().chain(batch);
            Case::of("Eye", "opset9").attr("output_type", "i8").inputs(inputs)
        };
        let list = |v: &[i64]| Some(Input::ints(I32, v));
        for (rows, columns, batch, expected) in [
            (i(3), i(4), None, Ok("i8[3,4]")),
            (i(0), Input::ints(I32, &[4]), list(&[]), Ok("i8[0,4]")),
            (late(), i(4), list(&[2, 3]), Ok("i8[2,3,?,4]")),
            (Input::bounds(I64, &[(-1, 5)]), i(4), None, Ok("i8[..5,4]")),
            (i(1), i(4), Some(Input::shape(I64, "2")), Ok("i8[?,?,1,4]")),
            (i(1), i(4), Some(Input::shape(I64, "?")), Ok("i8[...]")),
            (i(-1), i(4), None, Err("input 0 (num_rows): -1 is no size")),
            (i(1), i(1), list(&[-2]), Err("input 3 (batch_shape): -2 is no size")),
            (Input::ints(I64, &[1, 1]), i(1), None, Err("must hold one number, but is [2]")),
            (Input::scalar(I16, 1), i(1), None, Err("must be i32 or i64, not i16")),
        ] {
            case(rows, columns, batch).expect(&[expected]);
        }
    }
}
