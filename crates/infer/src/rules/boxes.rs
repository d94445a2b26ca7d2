//! Boxes on feature maps, as ROI pooling takes them.

use crate::lattice::dim::Dim;
use crate::require;
use crate::rule::attrs::Attrs;
use crate::rule::cx::InferCx;
use crate::rule::error::{AttrError, RuleError};
use ir::ElementType;

/// Checks feature maps in input 0 and boxes of `size` numbers each in input 1. Returns the element
/// type of the maps and the number of boxes.
///
/// # Errors
/// When their types are not floating-point, or their shapes do not match.
pub(crate) fn boxes(cx: &InferCx<'_>, size: i64) -> Result<(ElementType, Dim), RuleError> {
    for (input, rank) in [(0, 4), (1, 2)] {
        cx.expect_real(input)?;
        cx.expect_rank(input, rank..=rank)?;
    }
    let element_type = cx.mixed(0..2)?;
    let found = cx.shape(1).dim(1);
    require!(1; found.contains(size), "holds {found} numbers for each box, not {size}");
    Ok((element_type, cx.shape(1).dim(0)))
}

/// Reads `spatial_scale`.
///
/// # Errors
/// When it is missing or not a positive number.
pub(crate) fn scale(attrs: &mut Attrs<'_>) -> Result<f64, AttrError> {
    let scale = attrs.float("spatial_scale")?;
    if scale > 0.0 && scale.is_finite() {
        return Ok(scale);
    }
    Err(AttrError::new("spatial_scale", format!("{scale} is not a positive number")))
}

/// Reads a count of bins or samples, at least `least`; `default` if it is absent.
///
/// # Errors
/// When it is out of range, or missing without a default.
pub(crate) fn count(
    attrs: &mut Attrs<'_>,
    name: &str,
    default: Option<i64>,
    least: i64,
) -> Result<usize, AttrError> {
    attrs.count_in(name, default, least..=MAX_COUNT)
}

/// The square of a count up to this fits in 32 bits.
const MAX_COUNT: i64 = 1 << 15;
