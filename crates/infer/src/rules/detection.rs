//! What the operations that detect objects share: how many of them the data can let through.

use crate::attrs::Attrs;
use crate::cx::InferCx;
use crate::dim::Dim;
use crate::error::{AttrError, RuleError};
use crate::require;
use crate::shape::PartialShape;
use ir::ElementType;

/// Any number up to the largest that `dim` allows.
pub fn up_to(dim: Dim) -> Dim {
    Dim::range(0, dim.max()).with_why(dim.why())
}

/// The smaller of two upper bounds.
pub fn capped(dim: Dim, limit: i64) -> Dim {
    match limit < 0 {
        true => up_to(dim),
        false => Dim::range(0, dim.max().min(limit)).with_why(dim.why()),
    }
}

/// Checks that the given inputs are of floating-point types.
///
/// # Errors
/// Naming the first that is not.
pub fn expect_real(
    cx: &InferCx<'_>,
    inputs: impl IntoIterator<Item = usize>,
) -> Result<(), RuleError> {
    for input in inputs {
        cx.expect_type(input, "a floating-point type", ElementType::is_real)?;
    }
    Ok(())
}

/// Checks that an input has `rank` axes, the last of which can hold `size`.
///
/// # Errors
/// When it has not.
pub fn expect_rows(
    cx: &InferCx<'_>,
    input: usize,
    rank: usize,
    size: i64,
) -> Result<(), RuleError> {
    cx.expect_rank(input, rank..=rank)?;
    let fits = cx.shape(input).dim(rank.saturating_sub(1)).contains(size);
    require!(input; fits, "is {}, the last axis must have {size} elements", cx.shape(input));
    Ok(())
}

/// The one size that an axis of each of some inputs has.
///
/// # Errors
/// When two of them differ.
pub fn same_dim(
    cx: &InferCx<'_>,
    what: &str,
    axes: impl IntoIterator<Item = (usize, usize)>,
) -> Result<Dim, RuleError> {
    let mut common = Dim::any();
    for (input, axis) in axes {
        let found = cx.shape(input).dim(axis);
        let met = common.meet(found);
        require!(input; met.is_some(), "has {found} {what}, an earlier input has {common}");
        common = met.unwrap_or(common);
    }
    Ok(common)
}

/// How many times `each` goes into an axis of an input, which must be without remainder.
///
/// # Errors
/// When both are known and there is one.
pub fn divided(input: usize, dim: Dim, each: Dim) -> Result<Dim, RuleError> {
    let Some(n) = each.value().filter(|n| *n > 0) else { return Ok(Dim::any()) };
    if let Some(size) = dim.value() {
        require!(input; size % n == 0, "has an axis of {size}: {size} is not a multiple of {n}");
    }
    let (low, high) = (dim.div_ceil(n), dim.div_floor(n));
    Ok(Dim::range(low.min(), high.max()).with_why(dim.why()))
}

/// Rows of `columns` elements, whose number only the data decides.
pub fn rows(count: Dim, columns: i64) -> PartialShape {
    [count, Dim::fixed(columns)].into_iter().collect()
}

/// The shape of prior boxes and their variances: `priors` boxes for each cell of the grid whose
/// height and width input 0 holds.
///
/// # Errors
/// When an input is not a list of two integers.
pub fn prior_shape(cx: &mut InferCx<'_>, priors: Dim) -> Result<PartialShape, RuleError> {
    cx.expect_inputs(2..=2)?;
    for input in 0..2 {
        cx.expect_type(input, "an integer type", ElementType::is_integral)?;
        expect_rows(cx, input, 1, 2)?;
    }
    let dims = [Dim::fixed(2), Dim::any()].into_iter().collect();
    let Some(sizes) = cx.value(0).and_then(|v| v.intervals()) else {
        cx.because("the value of output_size is unknown");
        return Ok(dims);
    };
    let mut count = priors.scaled(4);
    for size in sizes {
        require!(0; size.hi >= 0, "holds the negative size {}", size.hi);
        count = Dim::from(*size).unlabelled().times(count);
    }
    Ok([Dim::fixed(2), count].into_iter().collect())
}

/// The variances of prior boxes: none, one or four; none stands for 0.1.
///
/// # Errors
/// For any other number.
pub fn variances(attrs: &mut Attrs<'_>) -> Result<Vec<f32>, AttrError> {
    let values = attrs.list_opt("variance")?.unwrap_or_default();
    match values.len() {
        0 => Ok(vec![0.1]),
        1 | 4 => Ok(values),
        n => Err(AttrError::new("variance", format!("holds {n} values, not 0, 1 or 4"))),
    }
}
