//! MatMul-1: matrix products, batched over leading axes.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/matrix/matmul-1.html>

use crate::lattice::shape::Dims;
use crate::rule::prelude::*;
use crate::rules::broadcast::merge;

/// MatMul-1.
#[derive(Debug)]
pub struct MatMul {
    transpose_a: bool,
    transpose_b: bool,
}

impl Parse for MatMul {
    type Kind = ();

    fn parse((): (), attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        Ok(MatMul {
            transpose_a: attrs.bool_or("transpose_a", false),
            transpose_b: attrs.bool_or("transpose_b", false),
        })
    }
}

impl MatMul {
    /// A MatMul with these transposes.
    pub fn transposing(transpose_a: bool, transpose_b: bool) -> MatMul {
        MatMul { transpose_a, transpose_b }
    }

    /// Whether each operand is transposed. A vector is never transposed.
    pub fn transposed(&self, a_rank: usize, b_rank: usize) -> (bool, bool) {
        (self.transpose_a && a_rank > 1, self.transpose_b && b_rank > 1)
    }

    fn shape(&self, cx: &mut InferCx<'_>) -> Result<PartialShape, RuleError> {
        let (a, b) = (cx.shape(0), cx.shape(1));
        let (Some(x), Some(y)) = (a.dims(), b.dims()) else {
            return Ok(cx.unranked("the rank of an input is unknown"));
        };
        require!(0; !x.is_empty(), "is a scalar; a vector or matrix is needed");
        require!(1; !y.is_empty(), "is a scalar; a vector or matrix is needed");
        let (transpose_a, transpose_b) = self.transposed(x.len(), y.len());
        // A vector is a row on the left and a column on the right.
        let matrix = |dims: &[Dim], row: bool| -> Dims {
            match (dims, row) {
                ([one], true) => [Dim::fixed(1), *one].into_iter().collect(),
                ([one], false) => [*one, Dim::fixed(1)].into_iter().collect(),
                (many, _) => many.into(),
            }
        };
        let (left, right) = (matrix(x, true), matrix(y, false));
        let last_two = |dims: &Dims, transpose: bool| {
            let (r, c) = (dims[dims.len() - 2], dims[dims.len() - 1]);
            if transpose { (c, r) } else { (r, c) }
        };
        let ((m, k), (k2, n)) = (last_two(&left, transpose_a), last_two(&right, transpose_b));
        require!(k.meet(k2).is_some(), "{a} has rows of {k}, {b} has columns of {k2}");
        let rank = left.len().max(right.len());
        let mut out = Dims::new();
        for axis in 0..rank - 2 {
            let at = |dims: &Dims| {
                let own = axis.checked_sub(rank - dims.len());
                own.map_or(Dim::fixed(1), |i| dims[i])
            };
            let (p, q) = (at(&left), at(&right));
            let merged = merge(p, q, cx.symbols());
            require!(merged.is_some(), "batch axes of {a} and {b} do not fit: {p} and {q}");
            out.push(merged.unwrap_or(p));
        }
        if x.len() > 1 {
            out.push(m);
        }
        if y.len() > 1 {
            out.push(n);
        }
        Ok(PartialShape::Ranked(out))
    }
}

impl Op for MatMul {
    fn input_names(&self) -> &'static [&'static str] {
        &["A", "B"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(2..=2)?;
        let element_type = cx.same_number(0..2)?;
        let shape = self.shape(cx)?;
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
        let f = |s| Input::shape(F32, s);
        let case = |a: &str, b: &str| {
            Case::of("MatMul", "opset1").attr("transpose_a", a).attr("transpose_b", b)
        };
        for (ta, tb, a, b, expected) in [
            ("false", "false", "2,3", "3,4", Ok("f32[2,4]")),
            ("true", "true", "3,2", "4,3", Ok("f32[2,4]")),
            ("false", "false", "3", "3,4", Ok("f32[4]")),
            ("true", "false", "3", "3,4", Ok("f32[4]")),
            ("false", "false", "2,3", "3", Ok("f32[2]")),
            ("false", "true", "3", "3", Ok("f32[]")),
            ("false", "false", "5,1,2,3", "7,3,4", Ok("f32[5,7,2,4]")),
            ("false", "false", "?,2..3,?", "?,4", Ok("f32[?,2..3,4]")),
            ("false", "false", "...", "3,4", Ok("f32[...]")),
            ("false", "false", "2,3", "4,5", Err("[2,3] has rows of 3, [4,5] has columns of 4")),
            ("false", "false", "2,2,3", "3,3,4", Err("batch axes of [2,2,3] and [3,3,4]")),
            ("false", "false", "[]", "3", Err("input 0 (A): is a scalar")),
        ] {
            case(ta, tb).inputs([f(a), f(b)]).expect(&[expected]);
        }
    }
}
