//! The convolutions that the depthwise kernel computes, the lines that it reads, and the positions
//! that neighbouring windows share.

use crate::conv::problem::Convolution;

/// The most channels in a group.
pub(super) const MAX_GROUP_CHANNELS: usize = 8;

/// A line of the input, and the weights of the first tap that reads it.
#[derive(Clone, Copy)]
pub(super) struct InputLine {
    pub(super) values: *const f32,
    pub(super) weights: *const f32,
}

/// Channels per group, if the depthwise kernel computes it: a group has equally many outputs and
/// inputs, and either groups divide a vector or vectors divide a group.
pub(in crate::conv) fn group_channels(conv: &Convolution) -> Option<usize> {
    let (inputs, outputs) = conv.group();
    let suits = |each: &usize| each.is_power_of_two() && *each <= MAX_GROUP_CHANNELS;
    Some(inputs).filter(|_| conv.groups > 1 && inputs == outputs).filter(suits)
}

/// Whether it can read quantized values, which are dequantized line by line within one plane.
pub(in crate::conv) fn accepts_quantized(conv: &Convolution) -> bool {
    group_channels(conv).is_some() && conv.axes[0].taps == 1
}

/// Unrolls the body over the positions that neighbouring windows read, so that the compiler knows
/// which sums a position adds to.
macro_rules! positions {
    ($i:ident => $body:block) => {
        positions!($i => $body; 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18)
    };
    ($i:ident => $body:block; $($n:literal)*) => {
        $({ const $i: usize = $n; $body })*
    };
}

pub(crate) use positions;

/// The number of those positions.
pub(crate) const POSITIONS: usize = 19;

/// The window whose tap at offset `tap` reads a position; the position is counted from the first
/// window's first tap.
#[inline(always)]
pub(crate) fn pixel(position: usize, tap: usize, stride: usize) -> Option<usize> {
    let start = position.checked_sub(tap)?;
    start.is_multiple_of(stride).then_some(start / stride)
}
