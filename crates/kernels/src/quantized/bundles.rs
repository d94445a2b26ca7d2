//! Grouped convolutions as dense ones. A bundle of groups is a dense convolution whose filters are
//! 0 for the channels of other groups.

use super::tile::{QUARTER, WIDTH, has_tiles, leaves_sums_in_registers};
use crate::conv::Convolution;

/// The bundles of a convolution, all of the same size. Without groups there is one.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Bundles {
    /// The dense convolution of one bundle.
    pub(super) dense: Convolution,
    pub(super) count: usize,
    /// Input and output channels of a group.
    group: (usize, usize),
    /// Whether bytes are permuted to the lanes of their groups, so that no filter is padded.
    is_permuted: bool,
}

impl Bundles {
    /// The bundles of a convolution. `None` if the channels of a group do not begin at every fourth
    /// element along k.
    pub(super) fn of(conv: &Convolution) -> Option<Bundles> {
        let groups = conv.groups;
        if groups == 1 {
            return Some(Bundles::whole(conv));
        }
        let (inputs, outputs) = (conv.inputs.checked_div(groups)?, conv.outputs / groups);
        if outputs == 0 || !inputs.is_multiple_of(4) {
            return None;
        }
        // With 16 outputs a vector has one group, to which four bytes are broadcast.
        let is_permuted = leaves_sums_in_registers()
            && inputs == outputs
            && matches!(outputs, 4 | 8)
            && conv.outputs.is_multiple_of(WIDTH);
        // As many groups as fill a vector, or a panel that is computed whole.
        let columns = if is_permuted || has_tiles() { WIDTH } else { QUARTER };
        let fits = |n: &usize| groups.is_multiple_of(*n) && n * outputs <= columns;
        let together = (1..=groups.min(columns)).rev().find(fits).unwrap_or(1);
        let count = groups / together;
        let (all_inputs, all_outputs) = (conv.inputs / count, conv.outputs / count);
        let dense =
            Convolution { inputs: all_inputs, outputs: all_outputs, groups: 1, ..conv.clone() };
        Some(Bundles { dense, count, group: (inputs, outputs), is_permuted })
    }

    /// A convolution as one bundle.
    pub(super) fn whole(conv: &Convolution) -> Bundles {
        Bundles {
            dense: conv.clone(),
            count: 1,
            group: (conv.inputs, conv.outputs),
            is_permuted: false,
        }
    }

    /// Panels of a bundle's filters.
    pub(super) fn panels(&self) -> usize {
        self.dense.outputs.div_ceil(WIDTH)
    }

    /// The output channels of a panel; panels are counted over all bundles.
    pub(super) fn columns(&self, panel: usize) -> std::ops::Range<usize> {
        let (bundle, own) = (panel / self.panels(), panel % self.panels());
        let first = bundle * self.dense.outputs;
        first + own * WIDTH..first + self.dense.outputs.min((own + 1) * WIDTH)
    }

    /// The first channel, within its bundle or of those along k, that an output channel reads.
    pub(super) fn first_input(&self, output: usize) -> usize {
        let (inputs, outputs) = self.group;
        if self.is_permuted {
            return 0;
        }
        output % self.dense.outputs / outputs * inputs
    }

    /// The channels of a group, if bytes are permuted to its lanes; otherwise 0.
    pub(super) fn permuted(&self) -> usize {
        if self.is_permuted { self.group.0 } else { 0 }
    }

    /// Input channels that an output channel reads.
    pub(super) fn inputs_of_group(&self) -> usize {
        self.group.0
    }
}
