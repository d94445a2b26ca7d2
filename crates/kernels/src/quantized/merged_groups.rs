//! Grouped convolutions as dense ones. Some groups are merged into one dense convolution, whose
//! filters are block-diagonal.

use super::tile::{QUARTER, WIDTH, has_tiles, leaves_sums_in_registers};
use crate::conv::Convolution;

/// The groups of a convolution, merged into dense convolutions of the same size. Without groups
/// there is one.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct MergedGroups {
    /// One of the dense convolutions.
    pub(super) dense: Convolution,
    pub(super) count: usize,
    /// Input and output channels of a group.
    group: (usize, usize),
    /// Whether bytes are permuted to the lanes of their groups, so that no filter is padded.
    is_permuted: bool,
}

impl MergedGroups {
    /// The merged groups of a convolution. `None` if the input channels of a group are no multiple
    /// of four.
    pub(super) fn of(conv: &Convolution) -> Option<MergedGroups> {
        let groups = conv.groups;
        if groups == 1 {
            return Some(MergedGroups::whole(conv));
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
        let merged = (1..=groups.min(columns)).rev().find(fits).unwrap_or(1);
        let count = groups / merged;
        let (all_inputs, all_outputs) = (conv.inputs / count, conv.outputs / count);
        let dense =
            Convolution { inputs: all_inputs, outputs: all_outputs, groups: 1, ..conv.clone() };
        Some(MergedGroups { dense, count, group: (inputs, outputs), is_permuted })
    }

    /// A convolution without groups.
    pub(super) fn whole(conv: &Convolution) -> MergedGroups {
        MergedGroups {
            dense: conv.clone(),
            count: 1,
            group: (conv.inputs, conv.outputs),
            is_permuted: false,
        }
    }

    /// Panels of the filters of a dense convolution.
    pub(super) fn panels(&self) -> usize {
        self.dense.outputs.div_ceil(WIDTH)
    }

    /// The output channels of a panel; panels are counted over all dense convolutions.
    pub(super) fn columns(&self, panel: usize) -> std::ops::Range<usize> {
        let (index, own) = (panel / self.panels(), panel % self.panels());
        let first = index * self.dense.outputs;
        first + own * WIDTH..first + self.dense.outputs.min((own + 1) * WIDTH)
    }

    /// The first input channel that an output channel reads, of those along k.
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
