//! Shared by object detection: how many detections the data may give.

use crate::lattice::dim::Dim;
use crate::lattice::shape::PartialShape;
use crate::require;
use crate::rule::attrs::Attrs;
use crate::rule::cx::InferCx;
use crate::rule::error::{AttrError, RuleError};
use crate::rules::sizes;
use ir::ElementType;

/// Any number up to the maximum of `dim`.
pub(crate) fn up_to(dim: Dim) -> Dim {
    Dim::range(0, dim.max()).with_why(dim.why())
}

/// As [`up_to`], but at most `limit`, unless that is negative.
pub(crate) fn capped(dim: Dim, limit: i64) -> Dim {
    if limit < 0 { up_to(dim) } else { Dim::range(0, dim.max().min(limit)).with_why(dim.why()) }
}

/// The size of an axis of an input divided by `each`, without remainder.
///
/// # Errors
/// When both are known and there is a remainder.
pub(crate) fn divided(input: usize, dim: Dim, each: Dim) -> Result<Dim, RuleError> {
    let Some(n) = each.value().filter(|n| *n > 0) else { return Ok(Dim::any()) };
    if let Some(size) = dim.value() {
        require!(input; size % n == 0, "has an axis of {size}: {size} is not a multiple of {n}");
    }
    let (low, high) = (dim.div_ceil(n), dim.div_floor(n));
    Ok(Dim::range(low.min(), high.max()).with_why(dim.why()))
}

/// Rows of `columns` elements; their number depends on the data.
pub(crate) fn rows(count: Dim, columns: i64) -> PartialShape {
    [count, Dim::fixed(columns)].into()
}

/// Sets the prior boxes and their variances: `priors` boxes per cell of a grid, whose height and
/// width are in input 0.
///
/// # Errors
/// When an input is not a list of two integers.
pub(crate) fn infer_prior_boxes(cx: &mut InferCx<'_>, priors: Dim) -> Result<(), RuleError> {
    cx.expect_inputs(2..=2)?;
    for input in 0..2 {
        cx.expect_integer(input)?;
        cx.expect_rows(input, 1, 2)?;
    }
    let mut count = priors.scaled(4);
    match cx.intervals(0) {
        Some(sizes) => {
            for size in sizes {
                count = sizes::size(0, *size)?.unlabelled().times(count);
            }
        }
        None => {
            cx.because("the value of output_size is unknown");
            count = Dim::any();
        }
    }
    cx.set(0, ElementType::F32, [Dim::fixed(2), count]);
    Ok(())
}

/// The variances of prior boxes: none, one or four. None means 0.1.
///
/// # Errors
/// For any other number.
pub(crate) fn variances(attrs: &mut Attrs<'_>) -> Result<Vec<f32>, AttrError> {
    let values = attrs.list_opt("variance")?.unwrap_or_default();
    match values.len() {
        0 => Ok(vec![0.1]),
        1 | 4 => Ok(values),
        n => Err(AttrError::new("variance", format!("holds {n} values, not 0, 1 or 4"))),
    }
}
