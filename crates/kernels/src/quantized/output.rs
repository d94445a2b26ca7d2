//! Where requantized sums go, and the columns of a panel.

use super::pack::PackedFilters;
use super::tile::WIDTH;
use crate::base::par::Slice;
use crate::math::quantize::{Output, Quantizers};
use std::ops::Range;

/// The destination of the results.
#[derive(Clone, Copy)]
pub(super) enum To<'a> {
    /// In f32.
    F32(Slice<f32>),
    /// As quantized values.
    Quantized(Slice<u8>, Quantizers<'a>),
}

impl<'a> To<'a> {
    /// The whole of an output.
    pub(super) fn of(output: Output<'a>) -> To<'a> {
        match output {
            Output::F32(to) => To::F32(Slice::new(to)),
            Output::Quantized(to, quantizers) => To::Quantized(Slice::new(to), quantizers),
        }
    }
}

/// The columns of a panel; the last panel may have fewer.
pub(super) struct Columns<'a> {
    /// The first.
    pub(super) first: usize,
    /// Zero-point compensation: what the zero point adds to the sums.
    pub(super) compensation: &'a [i32],
    /// Scales of the sums.
    pub(super) scales: &'a [f32],
}

impl<'a> Columns<'a> {
    /// The columns of a panel, with `scales` for all columns.
    pub(super) fn of(filters: &'a PackedFilters, scales: &'a [f32], panel: usize) -> Columns<'a> {
        let first = panel * WIDTH;
        Columns::new(filters, scales, (panel, first..scales.len().min(first + WIDTH)))
    }

    /// A panel of these columns, with `scales` for all columns.
    pub(super) fn new(
        filters: &'a PackedFilters,
        scales: &'a [f32],
        (panel, own): (usize, Range<usize>),
    ) -> Columns<'a> {
        let (first, compensation) = (own.start, filters.compensation(panel));
        Columns { first, compensation, scales: &scales[own] }
    }
}
