//! Inverted bottleneck fusion. A depthwise convolution of quantized values expands the lines that
//! it reads itself, by the 1×1 convolution that makes them, if nothing else reads them. The bits
//! stay.

use crate::fused::expanded::ExpandedConvolution;
use crate::fused::quantized::IntegerConvolution;
use crate::graph::net::{Net, Node, Operation};
use crate::graph::rewriter::GraphRewriter;
use crate::passes::context::PassCx;
use std::sync::Arc;

pub(crate) fn expand(net: &mut Net, _: &PassCx<'_>) -> usize {
    GraphRewriter::replacing(net, expanding)
}

/// The node that computes a depthwise convolution and the 1×1 convolution before it.
fn expanding(rewriter: &mut GraphRewriter<'_>, node: &Node) -> Option<Node> {
    let depthwise = node.fused::<IntegerConvolution>()?;
    let (data, others) = node.inputs.split_first()?;
    let maker = rewriter.only_for(*data)?;
    let expand = maker.fused::<IntegerConvolution>()?;
    let made = ExpandedConvolution::new((expand, maker.inputs.len()), depthwise)?;
    let mut inputs = rewriter.take(*data)?.inputs;
    inputs.extend_from_slice(others);
    Some(Node { operation: Operation::Fused(Arc::new(made)), inputs, ..node.clone() })
}
