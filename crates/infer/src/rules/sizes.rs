//! Sizes that are given by the value of an input.

use crate::lattice::dim::Dim;
use crate::lattice::shape::PartialShape;
use crate::lattice::value::Interval;
use crate::require;
use crate::rule::cx::InferCx;
use crate::rule::error::RuleError;

/// The size that a value stands for.
///
/// # Errors
/// When it is negative; the error names the input.
pub(crate) fn size(input: usize, value: Interval) -> Result<Dim, RuleError> {
    require!(input; value.hi >= 0, "holds the negative size {}", value.hi);
    Ok(Dim::from(value))
}

/// The number of `what`, which is the first value of an input.
///
/// # Errors
/// When it is negative.
pub(crate) fn count(cx: &mut InferCx<'_>, input: usize, what: &str) -> Result<Dim, RuleError> {
    cx.because(format!("the number of {what} is known only when running"));
    let Some(count) = cx.interval(input) else { return Ok(Dim::any()) };
    require!(input; count.hi >= 0, "{} is not a number of {what}", count.lo);
    Ok(Dim::from(count))
}

/// The shape that an input lists; `unknown` is the reason if it is unknown.
///
/// # Errors
/// When a size is negative.
pub(crate) fn shape(
    cx: &mut InferCx<'_>,
    input: usize,
    unknown: &str,
) -> Result<PartialShape, RuleError> {
    let Some(sizes) = cx.intervals(input) else {
        cx.because(unknown);
        let rank = cx.shape(input).volume().size();
        return Ok(rank.map_or_else(PartialShape::unranked, PartialShape::of_rank));
    };
    let negative = sizes.iter().find(|v| v.hi < 0);
    require!(input; negative.is_none(), "{} is not a size", negative.map_or(0, |v| v.lo));
    Ok(sizes.iter().map(|v| Dim::from(*v)).collect())
}
