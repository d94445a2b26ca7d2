//! Strings as three tensors (begins, ends, bytes) and rows of elements, as in OpenVINO Tokenizers.

use crate::lattice::shape::PartialShape;
use crate::rule::cx::InferCx;
use crate::rule::error::RuleError;
use ir::ElementType;

/// Checks an input of positions, which is i32.
///
/// # Errors
/// When it has another type.
pub(crate) fn expect_i32(cx: &InferCx<'_>, input: usize) -> Result<(), RuleError> {
    cx.expect_type(input, "i32", |t| t == ElementType::I32).map(drop)
}

/// Checks an input of bytes, which is u8.
///
/// # Errors
/// When it has another type.
pub(crate) fn expect_bytes(cx: &InferCx<'_>, input: usize) -> Result<(), RuleError> {
    cx.expect_type(input, "u8", |t| t == ElementType::U8).map(drop)
}

/// Checks two inputs: begins and ends of rows.
///
/// # Errors
/// When they are not i32, or their shapes differ. A scalar and a list of one element count as
/// equal: in tokenizers of text pairs, the begin of a special token is a scalar and its end a list.
pub(crate) fn expect_rows(cx: &InferCx<'_>, input: usize) -> Result<(), RuleError> {
    expect_i32(cx, input)?;
    expect_i32(cx, input + 1)?;
    let (begins, ends) = (cx.shape(input), cx.shape(input + 1));
    let message = || format!("is {ends}: it must have the shape of begins, {begins}");
    let single = |shape: &PartialShape| shape.volume().size() == Some(1);
    if begins.is_compatible(ends) || single(begins) && single(ends) {
        Ok(())
    } else {
        Err(RuleError::at(input + 1, message()))
    }
}

/// Checks three inputs: strings.
///
/// # Errors
/// When one is of another type.
pub(crate) fn expect_strings(cx: &InferCx<'_>, input: usize) -> Result<(), RuleError> {
    expect_rows(cx, input)?;
    expect_bytes(cx, input + 2)
}

/// Checks five inputs: rows of strings.
///
/// # Errors
/// When one is of another type.
pub(crate) fn expect_ragged_strings(cx: &InferCx<'_>, input: usize) -> Result<(), RuleError> {
    expect_rows(cx, input)?;
    expect_strings(cx, input + 2)
}

/// Sets three outputs: strings.
pub(crate) fn set_strings(cx: &mut InferCx<'_>, output: usize, shape: PartialShape) {
    set_ragged(cx, output, shape, ElementType::U8);
}

/// Sets three outputs: rows of elements.
pub(crate) fn set_ragged(
    cx: &mut InferCx<'_>,
    output: usize,
    shape: PartialShape,
    element_type: ElementType,
) {
    cx.because("how long the strings or rows are is known only when running");
    cx.set(output, ElementType::I32, shape.clone());
    cx.set(output + 1, ElementType::I32, shape);
    cx.set(output + 2, element_type, PartialShape::of_rank(1));
}

/// Sets five outputs: rows of strings.
pub(crate) fn set_ragged_strings(cx: &mut InferCx<'_>, output: usize, shape: PartialShape) {
    set_ragged(cx, output, shape, ElementType::I32);
    cx.set(output + 3, ElementType::I32, PartialShape::of_rank(1));
    cx.set(output + 4, ElementType::U8, PartialShape::of_rank(1));
}
