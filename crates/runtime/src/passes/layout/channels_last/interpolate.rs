//! Interpolate within regions of NHWC.

use super::ChannelsLastPass;
use crate::graph::net::{Net, Node, Operation, ValueId};
use crate::graph::rewriter::GraphRewriter;
use crate::passes::layout::nhwc::moved;
use infer::ops::interpolate::Interpolate;

impl ChannelsLastPass {
    pub(super) fn interpolate(
        &mut self,
        rewriter: &mut GraphRewriter<'_>,
        node: &Node,
        output: ValueId,
    ) -> Option<()> {
        let rule = node.is::<Interpolate>()?;
        // A model output that grows here is transposed before the upsample, while it is small.
        if rewriter.net.outputs.contains(&output) && grows(rewriter.net, node.inputs[0], output) {
            return None;
        }
        let rank = rewriter.net.sizes(output)?.len();
        if (0..rank).any(|axis| rule.pads(axis) != (0, 0)) {
            return None;
        }
        if let Some(axes) = rule.axes_input(node.inputs.len()) {
            return self.along_axes(rewriter, node, output, axes);
        }
        // Without that input all axes are meant, or those of an attribute.
        let mut node = node.clone();
        let Some(axes) = rule.axes_input(node.inputs.len() + 1) else {
            let rule = rule.moved(rank, |axis| moved(axis, rank)).ok()?;
            node.operation = Operation::source(rule)?;
            node.inputs[0] = *self.last.get(&node.inputs[0])?;
            return self.rewritten(rewriter, &node, node.inputs.clone(), output);
        };
        node.inputs.push(rewriter.list((0..rank as i64).collect())?);
        self.along_axes(rewriter, &node, output, axes)
    }
}

/// Whether a value is larger than the one it is made of.
fn grows(net: &Net, from: ValueId, to: ValueId) -> bool {
    let count = |v: ValueId| net.sizes(v).map(|sizes| sizes.iter().product::<usize>());
    count(to) > count(from)
}
