//! Attention: its sizes and operands.

use crate::gemm::Precision;

/// What all heads have in common.
#[derive(Clone, Debug, PartialEq)]
pub struct Attention {
    /// Rows of the query and of the output.
    pub rows: usize,
    /// Rows of the key and the value.
    pub keys: usize,
    /// Columns of query and key.
    pub depth: usize,
    /// Columns of value and output.
    pub width: usize,
    /// The factor of q kᵀ.
    pub scale: f32,
    /// Whether row `i` attends to rows `0..=i` of the keys only.
    pub causal: bool,
    /// Distances between the rows of query, key, value and output.
    pub strides: AttentionStrides,
    /// What the operands of both GEMMs are converted to, unless there are few rows.
    pub precision: Precision,
}

/// Distances between rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttentionStrides {
    /// Of the query.
    pub query: usize,
    /// Of the key.
    pub key: usize,
    /// Of the value.
    pub value: usize,
    /// Of the output.
    pub output: usize,
}

impl AttentionStrides {
    /// Rows without gaps, of `depth` elements in query and key, and of `width` in the others.
    pub fn dense(depth: usize, width: usize) -> AttentionStrides {
        AttentionStrides { query: depth, key: depth, value: width, output: width }
    }
}

/// The most masks of a head.
pub const MAX_MASKS: usize = 3;

/// The operands of one head.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// Rows of `depth` elements.
    pub query: &'a [f32],
    /// Rows of `depth` elements.
    pub key: &'a [f32],
    /// Rows of `width` elements.
    pub value: &'a [f32],
    /// The factor of q kᵀ, if it is not that of all heads.
    pub scale: Option<f32>,
    /// What is added to the scores, in this order; ignored if `causal`.
    pub masks: [Option<Mask<'a>>; MAX_MASKS],
    /// A score per row that takes part in the softmax but has no value: one column.
    pub sink: Option<Mask<'a>>,
}

/// A matrix that broadcasts to the scores of a head.
#[derive(Clone, Copy, Debug)]
pub struct Mask<'a> {
    /// Its elements.
    pub values: &'a [f32],
    /// Distance between rows: 0 if all are equal.
    pub row: usize,
    /// Distance between columns: 1, or 0 if all are equal.
    pub column: usize,
}
