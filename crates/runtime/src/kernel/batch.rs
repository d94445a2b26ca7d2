//! Batch axes: the leading axes of matrices, broadcast by the rule of NumPy.

/// The batch axes of a result, broadcast from those of its operands.
pub(crate) fn broadcast_shape(operands: &[&[usize]]) -> Vec<usize> {
    let rank = operands.iter().map(|o| o.len()).max().unwrap_or(0);
    let size = |axis: usize| {
        let sizes = operands.iter().filter_map(|o| Some(o[axis.checked_sub(rank - o.len())?]));
        sizes.fold(1, |all, size| if all == 1 { size } else { all })
    };
    (0..rank).map(size).collect()
}

/// For each batch of the result, the offset of the operand's matrix, which has `len` elements.
pub(crate) fn offsets(result: &[usize], own: &[usize], len: usize) -> Vec<usize> {
    let missing = result.len() - own.len();
    let mut strides = vec![0; result.len()];
    let mut stride = len;
    for (axis, &size) in own.iter().enumerate().rev() {
        strides[missing + axis] = if size == 1 { 0 } else { stride };
        stride *= size;
    }
    let mut at = vec![0];
    for (&size, stride) in result.iter().zip(strides) {
        at = at.iter().flat_map(|o| (0..size).map(move |i| o + i * stride)).collect();
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_repeat() {
        let all = broadcast_shape(&[&[2, 1], &[3], &[]]);
        assert_eq!(all, [2, 3]);
        assert_eq!(offsets(&all, &[2, 1], 10), [0, 0, 0, 10, 10, 10]);
        assert_eq!(offsets(&all, &[3], 5), [0, 5, 10, 0, 5, 10]);
        assert_eq!(offsets(&all, &[], 5), [0; 6]);
        assert_eq!(broadcast_shape(&[&[1, 0], &[4, 1]]), [4, 0]);
        assert!(offsets(&[4, 0], &[4, 1], 5).is_empty());
    }
}
