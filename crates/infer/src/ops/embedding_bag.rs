//! EmbeddingBagOffsetsSum-3, EmbeddingBagOffsets-15, EmbeddingBagPackedSum-3,
//! EmbeddingBagPacked-15, EmbeddingSegmentsSum-3: sums or means of rows of a table.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/sparse/embedding-bag-offsets-15.html>

use crate::rule::prelude::*;
use crate::rules::sizes;

/// How indices are divided into bags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// By the start of each bag; sums.
    OffsetsSum,
    /// The same, with `reduction`.
    Offsets,
    /// One row of indices per bag; sums.
    PackedSum,
    /// The same, with `reduction`.
    Packed,
    /// By the sorted bag number of each index; sums.
    SegmentsSum,
}

/// Sums or means of embeddings.
#[derive(Debug)]
pub struct EmbeddingBag {
    kind: Kind,
    mean: bool,
}

impl Parse for EmbeddingBag {
    type Kind = Kind;

    fn parse(kind: Kind, attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        let mean = match kind {
            Kind::Offsets | Kind::Packed => {
                attrs.choice_or("reduction", &[("sum", false), ("mean", true)], false)?
            }
            _ => false,
        };
        Ok(EmbeddingBag { kind, mean })
    }
}

impl EmbeddingBag {
    /// How indices are divided into bags.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether sums are divided by the number of elements.
    pub fn mean(&self) -> bool {
        self.mean
    }

    /// The input with the index of the row for empty bags, if there can be one. The weights follow
    /// it, or take its place.
    pub fn default_index(&self) -> Option<usize> {
        match self.kind {
            Kind::OffsetsSum | Kind::Offsets => Some(3),
            Kind::SegmentsSum => Some(4),
            Kind::PackedSum | Kind::Packed => None,
        }
    }

    /// The input with the weight of each entry.
    pub fn weights(&self) -> usize {
        self.default_index().map_or(2, |input| input + 1)
    }

    /// Checks ranks, and returns the number of bags.
    fn bags(&self, cx: &mut InferCx<'_>) -> Result<Dim, RuleError> {
        let packed = matches!(self.kind, Kind::PackedSum | Kind::Packed);
        let rank = if packed { 2 } else { 1 };
        cx.expect_rank(1, rank..=rank)?;
        if packed {
            let (bags, weights) = (cx.shape(1).dim(0), self.weights());
            // Indices and weights have one shape. Without weights, any size fits.
            return cx.expect_dim(weights, 0, "the bags", bags);
        }
        cx.expect_rank(2, 1..=1)?;
        if self.kind != Kind::SegmentsSum {
            return Ok(cx.shape(2).dim(0));
        }
        let (indices, ids) = (cx.shape(1), cx.shape(2));
        require!(
            2; ids.is_compatible(indices),
            "is {ids}: there must be one for each of the indices {indices}"
        );
        cx.expect_rank(3, 0..=0)?;
        sizes::count(cx, 3, "segments")
    }
}

impl Op for EmbeddingBag {
    fn input_names(&self) -> &'static [&'static str] {
        match self.kind {
            Kind::OffsetsSum | Kind::Offsets => {
                &["emb_table", "indices", "offsets", "default_index", "per_sample_weights"]
            }
            Kind::PackedSum | Kind::Packed => &["emb_table", "indices", "per_sample_weights"],
            Kind::SegmentsSum => &[
                "emb_table",
                "indices",
                "segment_ids",
                "num_segments",
                "default_index",
                "per_sample_weights",
            ],
        }
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        let weights = self.weights();
        cx.expect_inputs(self.default_index().unwrap_or(2)..=weights + 1)?;
        cx.expect_number(0)?;
        let element_type = cx.same_type([0, weights])?;
        let indices = 1..weights.min(cx.input_count());
        for input in indices.clone() {
            cx.expect_index(input)?;
        }
        cx.same_type(indices)?;
        cx.expect_rank(0, 1..=usize::MAX)?;
        let bags = self.bags(cx)?;
        if let Some(input) = self.default_index() {
            cx.expect_rank(input, 0..=0)?;
        }
        if cx.input_count() > weights {
            require!(weights; !self.mean, "can only be used with reduction sum");
            let (indices, given) = (cx.shape(1), cx.shape(weights));
            require!(
                weights; given.is_compatible(indices),
                "is {given}: there must be one for each of the indices {indices}"
            );
        }
        let shape = match cx.shape(0).dims() {
            Some([_, rest @ ..]) => std::iter::once(bags).chain(rest.iter().copied()).collect(),
            _ => cx.unranked("the rank of the table is unknown"),
        };
        cx.set(0, element_type, shape);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    fn i(shape: &str) -> Input {
        Input::shape(I32, shape)
    }

    fn f(shape: &str) -> Input {
        Input::shape(F16, shape)
    }

    #[test]
    fn offsets() {
        let case = |inputs: &[Input]| {
            Case::of("EmbeddingBagOffsets", "opset15").inputs(inputs.iter().cloned())
        };
        case(&[f("5,2,?"), i("4"), i("?")]).expect(&[Ok("f16[?,2,?]")]);
        case(&[f("5,2"), i("?"), i("3"), i("[]")]).expect(&[Ok("f16[3,2]")]);
        case(&[f("5,2"), i("4"), i("3"), i("[]"), f("4")]).expect(&[Ok("f16[3,2]")]);
        case(&[f("..."), i("4"), i("3")]).expect(&[Ok("f16[...]")]);
        let short = case(&[f("5,2"), i("4"), i("3"), i("[]"), f("3")]);
        short.expect(&[Err("input 4 (per_sample_weights): is [3]: there must be one for each")]);
        let mean = case(&[f("5,2"), i("4"), i("3"), i("[]"), f("4")]).attr("reduction", "mean");
        mean.expect(&[Err("can only be used with reduction sum")]);
        case(&[f("5"), i("4,1"), i("3")]).expect(&[Err("input 1 (indices): must have rank 1")]);
        case(&[f("5"), i("4"), i("3"), i("1")]).expect(&[Err("must have rank 0, not 1")]);
        case(&[f("[]"), i("4"), i("3")]).expect(&[Err("must have rank at least 1")]);
        case(&[f("5"), f("4"), i("3")]).expect(&[Err("must be i32 or i64, not f16")]);
    }

    #[test]
    fn packed_and_segments() {
        let packed = |inputs: &[Input]| {
            Case::of("EmbeddingBagPackedSum", "opset3").inputs(inputs.iter().cloned())
        };
        packed(&[f("5,2"), i("3,4")]).expect(&[Ok("f16[3,2]")]);
        packed(&[f("5"), i("1..3,4"), f("?,4")]).expect(&[Ok("f16[1..3]")]);
        packed(&[f("5"), i("2..6,4"), f("4..8,4")]).expect(&[Ok("f16[4..6]")]);
        let fewer = packed(&[f("5"), i("3,4"), f("2,4")]);
        fewer.expect(&[Err("input 2 (per_sample_weights): is [2,4]: axis 0, the bags, must be 3")]);
        packed(&[f("5"), i("3")]).expect(&[Err("input 1 (indices): must have rank 2, not 1")]);
        packed(&[f("5"), i("3,4"), i("3,4")]).expect(&[Err("is i32, but an earlier input is f16")]);
        let segments = |inputs: &[Input]| {
            Case::of("EmbeddingSegmentsSum", "opset3").inputs(inputs.iter().cloned())
        };
        let count = Input::scalar(I32, 3);
        segments(&[f("5,2"), i("4"), i("4"), count.clone()]).expect(&[Ok("f16[3,2]")]);
        segments(&[f("5,2"), i("4"), i("4"), i("[]"), i("[]"), f("4")]).expect(&[Ok("f16[?,2]")]);
        let wide = segments(&[f("5,2"), i("4"), Input::shape(I64, "4"), count.clone()]);
        wide.expect(&[Err("input 2 (segment_ids): is i64, but an earlier input is i32")]);
        let short = segments(&[f("5,2"), i("4"), i("3"), count]);
        short.expect(&[Err("input 2 (segment_ids): is [3]: there must be one for each")]);
    }
}
