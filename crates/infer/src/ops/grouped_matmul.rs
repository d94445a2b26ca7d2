//! GroupedMatMul-17: a matrix product per group, with its own weights.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/matrix/grouped-matmul-17.html>
//!
//! The weights of a group are `[N, K]`, as in OpenVINO 2026.4. An early specification has `[K, N]`,
//! and also a form with two matrices, which OpenVINO rejects.

use crate::rule::prelude::*;

/// GroupedMatMul-17.
#[derive(Debug)]
pub struct GroupedMatMul;

no_attributes!(GroupedMatMul);

impl Op for GroupedMatMul {
    fn input_names(&self) -> &'static [&'static str] {
        &["mat_a", "mat_b", "offsets"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(2..=3)?;
        let element_type = cx.same_number(0..2)?;
        cx.expect_rank(0, 2..=3)?;
        cx.expect_rank(1, 3..=3)?;
        let (a, b) = (cx.shape(0), cx.shape(1));
        let Some(dims) = a.dims() else {
            cx.because("the rank of mat_a is unknown");
            cx.set(0, element_type, PartialShape::unranked());
            return Ok(());
        };
        let (depth, own) = (a.dim(dims.len() - 1), b.dim(2));
        require!(depth.meet(own).is_some(), "mat_a has {depth} columns, mat_b is for {own}");
        let mut head = a.dim(0);
        if dims.len() == 2 {
            require!(cx.input_count() == 3, "a 2-D mat_a needs offsets");
            offsets(cx, b.dim(0))?;
            cx.set(0, element_type, [head, b.dim(1)]);
            return Ok(());
        }
        require!(cx.input_count() == 2, "a 3-D mat_a has one matrix for each group, not offsets");
        let groups = b.dim(0);
        let Some(both) = head.meet(groups) else {
            return Err(RuleError::at(1, format!("has {groups} groups, mat_a has {head}")));
        };
        head = both;
        cx.set(0, element_type, [head, a.dim(1), b.dim(1)]);
        Ok(())
    }
}

/// Checks the ends of the groups.
fn offsets(cx: &InferCx<'_>, groups: Dim) -> Result<(), RuleError> {
    cx.expect_index(2)?;
    cx.expect_rank(2, 1..=1)?;
    let count = cx.shape(2).dim(0);
    require!(2; count.meet(groups).is_some(), "holds {count} offsets for {groups} groups");
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    #[test]
    fn rule() {
        let op = |shapes: &[&str], expected| {
            let types = [F32, F32, I32];
            let inputs = shapes.iter().zip(types).map(|(shape, t)| Input::shape(t, shape));
            Case::of("GroupedMatMul", "opset17").inputs(inputs).expect(&[expected]);
        };
        op(&["9,8", "3,5,8", "3"], Ok("f32[9,5]"));
        op(&["?,8", "3,?,?", "?"], Ok("f32[?,?]"));
        op(&["3,4,8", "3,5,8"], Ok("f32[3,4,5]"));
        op(&["?,4,?", "2..3,5,8"], Ok("f32[2..3,4,5]"));
        op(&["...", "3,5,8"], Ok("f32[...]"));
        op(&["9,8", "3,8,5", "3"], Err("mat_a has 8 columns, mat_b is for 5"));
        op(&["9,8", "3,5,8"], Err("a 2-D mat_a needs offsets"));
        op(&["9,8", "3,5,8", "2"], Err("input 2 (offsets): holds 2 offsets for 3 groups"));
        op(&["3,4,8", "3,5,8", "3"], Err("not offsets"));
        op(&["2,4,8", "3,5,8"], Err("input 1 (mat_b): has 3 groups, mat_a has 2"));
        op(&["9,8", "5,8", "3"], Err("input 1 (mat_b): must have rank 3, not 2"));
    }
}
