//! Normalizations within regions of NHWC.

use super::{ChannelsLastPass, made};
use crate::fused::normalize::NormalizeMaps;
use crate::graph::net::{Node, ValueId};
use crate::graph::rewriter::GraphRewriter;
use crate::ops::normalize::normalization;
use infer::ops::group_normalization::GroupNormalization;
use infer::ops::normalize::Normalize;
use infer::rules::axes::normalize_unique;
use kernels::group_norm::Maps;
use kernels::layer_norm::{Divisor, Normalization};
use smallvec::{SmallVec, smallvec};

impl ChannelsLastPass {
    pub(super) fn normalize(
        &mut self,
        rewriter: &mut GraphRewriter<'_>,
        node: &Node,
        output: ValueId,
    ) -> Option<()> {
        let over_maps = self.instance_normalization(rewriter, node, output);
        over_maps.or_else(|| self.along_axes(rewriter, node, output, 1))
    }

    pub(super) fn group_normalization(
        &mut self,
        rewriter: &mut GraphRewriter<'_>,
        node: &Node,
        output: ValueId,
    ) -> Option<()> {
        let rule = node.is::<GroupNormalization>()?;
        let divisor = Divisor::DeviationInside(rule.epsilon());
        let normalization = Normalization { center: true, divisor };
        self.over_maps(rewriter, node, output, (rule.groups(), normalization))
    }

    /// Instance normalization: each channel over all its spatial positions.
    fn instance_normalization(
        &mut self,
        rewriter: &mut GraphRewriter<'_>,
        node: &Node,
        output: ValueId,
    ) -> Option<()> {
        let sizes = rewriter.net.sizes(node.inputs[0])?;
        let axes = rewriter.net.values[*node.inputs.get(1)?].fact.value.as_deref()?.i64s()?;
        let axes = normalize_unique(&axes, sizes.len(), 1).ok()?;
        let all_spatial = axes.len() + 2 == sizes.len() && axes.iter().all(|axis| *axis >= 2);
        let rule = node.is::<Normalize>().filter(|_| all_spatial)?;
        self.over_maps(rewriter, node, output, (sizes[1], normalization(rule)))
    }

    /// A normalization over groups of channels and all spatial positions. Of three inputs the last
    /// two are scale and bias per channel.
    fn over_maps(
        &mut self,
        rewriter: &mut GraphRewriter<'_>,
        node: &Node,
        output: ValueId,
        (groups, normalization): (usize, Normalization),
    ) -> Option<()> {
        let sizes = rewriter.net.sizes(node.inputs[0])?;
        let (&[batch, channels], spatial) = sizes.split_first_chunk::<2>()?;
        if channels == 0 || groups == 0 || !channels.is_multiple_of(groups) {
            return None;
        }
        let maps =
            Maps { batch, positions: spatial.iter().product(), channels, groups, normalization };
        let mut inputs: SmallVec<[ValueId; 4]> = smallvec![*self.last.get(&node.inputs[0])?];
        let affine = if node.inputs.len() == 3 { &node.inputs[1..] } else { &[] };
        inputs.extend_from_slice(affine);
        let normalize = NormalizeMaps { maps, is_affine: !affine.is_empty(), post_ops: Vec::new() };
        let last = self.result(rewriter, output)?;
        rewriter.keep(made(normalize, &inputs, last, node.layer));
        Some(())
    }
}
