//! Which convolutions vectors of channels compute, and what they read.

use crate::conv::problem::Convolution;

/// Channels of a group, at most.
pub(super) const MAX_GROUP_CHANNELS: usize = 8;

/// A line of the input, and the weights of the first tap that reads it.
#[derive(Clone, Copy)]
pub(super) struct InputLine {
    pub(super) values: *const f32,
    pub(super) weights: *const f32,
}

/// Channels of each group, if the convolution is computed here: a group has as many outputs as
/// inputs, and a vector holds whole groups, or a group whole vectors.
pub(in crate::conv) fn group_channels(conv: &Convolution) -> Option<usize> {
    let (inputs, outputs) = conv.group();
    let suits = |each: &usize| each.is_power_of_two() && *each <= MAX_GROUP_CHANNELS;
    Some(inputs).filter(|_| conv.groups > 1 && inputs == outputs).filter(suits)
}

/// Whether it can read quantized values: those of one plane, line by line.
pub(in crate::conv) fn accepts_quantized(conv: &Convolution) -> bool {
    group_channels(conv).is_some() && conv.axes[0].taps == 1
}
