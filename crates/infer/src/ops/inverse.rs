//! Inverse-14: inverses of square matrices, or their transposes.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/matrix/inverse-14.html>

use crate::rule::prelude::*;

/// Inverse-14.
#[derive(Debug)]
pub struct Inverse {
    adjoint: bool,
}

impl Parse for Inverse {
    type Kind = ();

    fn parse((): (), attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        Ok(Inverse { adjoint: attrs.bool_or("adjoint", false) })
    }
}

impl Inverse {
    /// Whether the result is transposed.
    pub fn is_adjoint(&self) -> bool {
        self.adjoint
    }
}

impl Op for Inverse {
    fn input_names(&self) -> &'static [&'static str] {
        &["data"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(1..=1)?;
        let element_type = cx.expect_real(0)?;
        cx.expect_rank(0, 2..=usize::MAX)?;
        let mut shape = cx.shape(0).clone();
        if let Some([batch @ .., rows, columns]) = shape.dims() {
            let Some(side) = rows.meet(*columns) else {
                return Err(RuleError::at(0, format!("is {shape}; its matrices are not square")));
            };
            shape = batch.iter().copied().chain([side; 2]).collect();
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
        let op = Case::of("Inverse", "opset14").attr("adjoint", "true");
        for (shape, expected) in [
            ("?,3,3", Ok("f32[?,3,3]")),
            ("3,?", Ok("f32[3,3]")),
            ("2,2..5,4..9", Ok("f32[2,4..5,4..5]")),
            ("...", Ok("f32[...]")),
            ("2,3,4", Err("input 0 (data): is [2,3,4]; its matrices are not square")),
            ("3", Err("must have rank at least 2, not 1")),
        ] {
            op.clone().inputs([Input::shape(F32, shape)]).expect(&[expected]);
        }
        op.inputs([Input::shape(I32, "3,3")]).expect(&[Err("must be a floating-point type")]);
    }
}
