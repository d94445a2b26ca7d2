//! ScaledDotProductAttention-13: `softmax(query · keyᵀ · scale + mask) · value`.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/sequence/scaled-dot-product-attention.html>
//!
//! OpenVINO has a sixth input `sink`, which its page does not name yet: a logit per head that takes
//! part in the softmax without a value.

use crate::rule::prelude::*;
use crate::rules::broadcast::{merge, numpy};

/// ScaledDotProductAttention-13.
#[derive(Debug)]
pub struct ScaledDotProductAttention {
    causal: bool,
}

impl Parse for ScaledDotProductAttention {
    type Kind = ();

    fn parse((): (), attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        Ok(ScaledDotProductAttention { causal: attrs.bool_or("causal", false) })
    }
}

/// A shape as batch axes and two matrix axes; of unknown dims if the rank is unknown.
fn matrix(shape: &PartialShape) -> (PartialShape, Dim, Dim) {
    match shape.dims() {
        Some([batch @ .., rows, columns]) => (PartialShape::Ranked(batch.into()), *rows, *columns),
        _ => (PartialShape::unranked(), Dim::any(), Dim::any()),
    }
}

impl ScaledDotProductAttention {
    /// Whether row `i` attends to keys `0..=i` only. Then there is no mask.
    pub fn causal(&self) -> bool {
        self.causal
    }

    /// Whether there is a mask input, other than the scalar that stands for none.
    pub fn has_mask(&self, inputs: usize, rank: Option<usize>) -> bool {
        inputs > 3 && !self.causal && rank != Some(0)
    }

    fn shape(&self, cx: &mut InferCx<'_>) -> Result<PartialShape, RuleError> {
        for input in 0..3 {
            cx.expect_rank(input, 3..=usize::MAX)?;
        }
        let (query, key, value) = (cx.shape(0), cx.shape(1), cx.shape(2));
        let (mut batch, mut rows, depth) = matrix(query);
        let (batch_k, terms, depth_k) = matrix(key);
        let (batch_v, terms_v, width) = matrix(value);
        require!(1; depth.meet(depth_k).is_some(), "has rows of {depth_k}, the query of {depth}");
        let Some(terms) = terms.meet(terms_v) else {
            return Err(RuleError::at(2, format!("has {terms_v} rows, the key {terms}")));
        };
        for (input, other) in [(1, batch_k), (2, batch_v)] {
            batch = broadcast_batch(cx, input, &batch, &other)?;
        }
        let mask = cx.shape(3);
        if self.has_mask(cx.input_count(), mask.rank()) && mask.rank().is_some() {
            cx.expect_rank(3, 2..=usize::MAX)?;
            let (batch_m, rows_m, terms_m) = matrix(mask);
            batch = broadcast_batch(cx, 3, &batch, &batch_m)?;
            let message = || format!("has {rows_m} rows, the query {rows}");
            let merged = merge(rows, rows_m, cx.symbols());
            rows = merged.ok_or_else(|| RuleError::at(3, message()))?;
            let fits = terms_m.contains(1) || terms_m.meet(terms).is_some();
            require!(3; fits, "has {terms_m} columns for {terms} keys");
        }
        let Some(batch) = batch.dims() else {
            return Ok(cx.unranked("the rank of an input is unknown"));
        };
        Ok(batch.iter().copied().chain([rows, width]).collect())
    }

    fn scale_and_sink(&self, cx: &InferCx<'_>) -> Result<(), RuleError> {
        if cx.input_count() > 4 {
            cx.expect_rank(4, 0..=1)?;
            let count = cx.shape(4).volume();
            require!(4; count.contains(1), "must hold one element, not {count}");
        }
        if let (true, Some(dims)) = (cx.input_count() > 5, cx.shape(5).dims()) {
            let last = dims.last().copied().unwrap_or(Dim::fixed(1));
            require!(5; last.contains(1), "must have 1 column, not {last}");
        }
        Ok(())
    }
}

/// The batch axes so far, broadcast with those of another input. An input of unknown rank may add
/// axes and broadcast others; nominally it has the batch axes of the query.
fn broadcast_batch(
    cx: &mut InferCx<'_>,
    input: usize,
    so_far: &PartialShape,
    other: &PartialShape,
) -> Result<PartialShape, RuleError> {
    if cx.nominal() && other.rank().is_none() {
        return Ok(so_far.clone());
    }
    let shape = cx.shape(input);
    let describe = |_| {
        RuleError::at(input, format!("is {shape}; its batch does not fit the others' {so_far}"))
    };
    numpy(so_far, other, cx.symbols()).map_err(describe)
}

impl Op for ScaledDotProductAttention {
    fn input_names(&self) -> &'static [&'static str] {
        &["query", "key", "value", "attention_mask", "scale", "sink"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(3..=6)?;
        for input in (0..cx.input_count()).filter(|i| *i != 3) {
            cx.expect_real(input)?;
        }
        let element_type = cx.same_type((0..cx.input_count()).filter(|i| *i != 3))?;
        if cx.input_count() > 3 && !self.causal {
            let fits = |t| t == ElementType::Boolean || t == element_type;
            let open = element_type == ElementType::Dynamic;
            cx.expect_type(3, "boolean or the type of the query", |t| open || fits(t))?;
        }
        self.scale_and_sink(cx)?;
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
        let case =
            |causal: &str| Case::of("ScaledDotProductAttention", "opset13").attr("causal", causal);
        let three = |q, k, v, expected| {
            case("false").inputs([f(q), f(k), f(v)]).expect(&[expected]);
        };
        three("1,2,3,8", "1,2,5,8", "1,2,5,4", Ok("f32[1,2,3,4]"));
        three("1,6,3,8", "4,1,5,8", "1,1,?,?", Ok("f32[4,6,3,?]"));
        three("...", "4,1,5,8", "1,1,?,9", Ok("f32[...]"));
        let nominal = |q, k, v, expected| {
            case("false").nominal().inputs([f(q), f(k), f(v)]).expect(&[Ok(expected)]);
        };
        nominal("1,6,3,8", "...", "4,1,?,9", "f32[4,6,3,9]");
        nominal("1,6,3,8", "4,1,5,8", "...", "f32[4,6,3,?]");
        nominal("?,3,8", "...", "...", "f32[?,3,?]");
        nominal("...", "4,1,5,8", "1,1,?,9", "f32[...]");
        three("1,6,3,8", "...", "4,1,?,9", Ok("f32[...]"));
        three("2,?,1..4,8", "2,?,5,?", "2,3,5,9", Ok("f32[2,3,1..4,9]"));
        three("1,3,8", "1,5,7", "1,5,4", Err("input 1 (key): has rows of 7, the query of 8"));
        three("1,3,8", "1,5,8", "1,6,4", Err("input 2 (value): has 6 rows, the key 5"));
        three("2,3,8", "3,5,8", "1,5,4", Err("its batch does not fit the others' [2]"));
        three("3,8", "5,8", "5,4", Err("input 0 (query): must have rank at least 3, not 2"));
        let masked = |causal, mask: Input, expected| {
            let inputs = [f("1,2,3,8"), f("1,2,5,8"), f("1,2,5,4"), mask];
            case(causal).inputs(inputs).expect(&[expected]);
        };
        masked("false", f("3,5"), Ok("f32[1,2,3,4]"));
        masked("false", Input::shape(Boolean, "7,1,1,5"), Ok("f32[7,2,3,4]"));
        masked("false", f("[]"), Ok("f32[1,2,3,4]"));
        masked("true", f("9"), Ok("f32[1,2,3,4]"));
        masked("false", f("3,4"), Err("input 3 (attention_mask): has 4 columns for 5 keys"));
        masked("false", Input::shape(I32, "3,5"), Err("must be boolean or the type of the query"));
    }
}
