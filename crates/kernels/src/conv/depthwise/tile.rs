//! The convolutions that the depthwise kernel computes, and the lines that it reads.

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
