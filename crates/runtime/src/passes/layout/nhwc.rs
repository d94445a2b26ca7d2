//! The order of axes in NCHW and in NHWC, for any rank.

use crate::tensor::Sizes;

/// The order of axes from NCHW to NHWC, for any rank.
pub(super) fn to_last(rank: usize) -> Sizes {
    [0].into_iter().chain(2..rank).chain([1]).collect()
}

/// The order of axes from NHWC to NCHW, for any rank.
pub(super) fn to_first(rank: usize) -> Sizes {
    [0, rank - 1].into_iter().chain(1..rank - 1).collect()
}

/// The position in NHWC of NCHW axis `axis`.
pub(super) fn moved(axis: usize, rank: usize) -> usize {
    match axis {
        0 => 0,
        1 => rank - 1,
        spatial => spatial - 1,
    }
}

/// Sizes in another order of axes.
pub(super) fn reordered(sizes: &[usize], order: &[usize]) -> Sizes {
    order.iter().map(|&axis| sizes[axis]).collect()
}
