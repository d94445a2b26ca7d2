//! Axes: negative ones count from the end. OpenVINO takes a scalar for a list of one element in
//! some operations, Roll, Squeeze, CumSum, softmax and reductions: there `rank` is at least 1.

use crate::rule::cx::InferCx;
use crate::rule::error::RuleError;
use smallvec::SmallVec;

/// The axis in `0..rank` that `axis` stands for.
///
/// # Errors
/// `axis 5 is out of range for rank 4, [-4, 3]`.
pub fn normalize(axis: i64, rank: usize) -> Result<usize, RuleError> {
    let size = i64::try_from(rank).unwrap_or(i64::MAX);
    let positive = if axis < 0 { axis.saturating_add(size) } else { axis };
    match usize::try_from(positive) {
        Ok(axis) if axis < rank => Ok(axis),
        _ if rank == 0 => Err(RuleError::new(format!("axis {axis} is out of range for a scalar"))),
        _ => {
            let last = size - 1;
            Err(RuleError::new(format!(
                "axis {axis} is out of range for rank {rank}, [-{rank}, {last}]"
            )))
        }
    }
}

/// As [`normalize`], for an axis given by an input.
///
/// # Errors
/// As [`normalize`], about that input.
pub fn normalize_of(input: usize, axis: i64, rank: usize) -> Result<usize, RuleError> {
    normalize(axis, rank).map_err(|e| RuleError { input: Some(input), ..e })
}

/// As [`normalize`], for an axis given by an attribute.
///
/// # Errors
/// As [`normalize`], about that attribute.
pub fn normalize_attribute(name: &'static str, axis: i64, rank: usize) -> Result<usize, RuleError> {
    normalize(axis, rank).map_err(|e| e.about(name))
}

/// The axes that a list stands for, in its order.
///
/// # Errors
/// As [`normalize_of`] the input with the list.
pub fn normalize_all(
    axes: &[i64],
    rank: usize,
    input: usize,
) -> Result<SmallVec<[usize; 6]>, RuleError> {
    axes.iter().map(|&axis| normalize_of(input, axis, rank)).collect()
}

/// As [`normalize_all`], without duplicates.
///
/// # Errors
/// As [`normalize_all`], and for duplicates.
pub fn normalize_unique(
    axes: &[i64],
    rank: usize,
    input: usize,
) -> Result<SmallVec<[usize; 6]>, RuleError> {
    let normal = normalize_all(axes, rank, input)?;
    for (i, axis) in normal.iter().enumerate() {
        if normal.iter().take(i).any(|earlier| earlier == axis) {
            return Err(RuleError::at(input, format!("axis {axis} is named twice")));
        }
    }
    Ok(normal)
}

/// The axes of data of a rank that an input lists; `None` if they or the rank are unknown.
///
/// # Errors
/// When that input is not a list of integers, and as [`normalize_all`].
pub fn of_input(
    cx: &InferCx<'_>,
    rank: Option<usize>,
    input: usize,
) -> Result<Option<SmallVec<[usize; 6]>>, RuleError> {
    // A constant may hold real numbers, as OpenVINO allows.
    let known = cx.value(input).is_some();
    if known {
        cx.expect_axes(input)?
    } else {
        cx.expect_integer(input)?
    };
    cx.expect_rank(input, 0..=1)?;
    let (Some(rank), Some(values)) = (rank, cx.ints(input)) else { return Ok(None) };
    normalize_all(&values, rank, input).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_count_from_either_end() {
        assert_eq!(normalize(-1, 3).unwrap(), 2);
        assert_eq!(normalize_all(&[0, -3], 3, 1).unwrap()[..], [0, 0]);
        let text = |e: RuleError| e.to_string();
        let wrong = "axis 5 is out of range for rank 4, [-4, 3]";
        assert_eq!(normalize(5, 4).map_err(text), Err(wrong.to_owned()));
        assert!(normalize(i64::MIN, 3).is_err() && normalize(0, 0).is_err());
        let twice = normalize_unique(&[1, -2], 3, 1).unwrap_err();
        assert_eq!((twice.input, text(twice)), (Some(1), "axis 1 is named twice".to_owned()));
    }
}
