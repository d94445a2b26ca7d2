//! Squeeze-excitation gate fusion. The convolution behind a gate multiplies channels by the gate
//! while it reads them. Each product is rounded as before, so the bits stay.

use crate::fused::convolution::ChannelsLast;
use crate::fused::quantized::IntegerConvolution;
use crate::graph::net::{FusedOp, Net, Node, Operation, ValueId};
use crate::graph::rewriter::GraphRewriter;
use crate::passes::context::PassCx;
use infer::ops::binary::{Binary, Kind};
use infer::rules::broadcast::AutoBroadcast;
use std::sync::Arc;

pub(crate) fn gate(net: &mut Net, _: &PassCx<'_>) -> usize {
    GraphRewriter::editing(net, gated)
}

/// Lets a convolution read the data and the gates of the Multiply that feeds it.
fn gated(rewriter: &mut GraphRewriter<'_>, node: &mut Node) -> Option<()> {
    let gates = Some(node.inputs.len());
    let float = node.fused::<ChannelsLast>().filter(|c| c.is_pointwise());
    let integer = node.fused::<IntegerConvolution>().filter(|c| c.is_pointwise());
    let made: Arc<dyn FusedOp> = match (float, integer) {
        (Some(conv), _) => Arc::new(ChannelsLast { gates, ..conv.clone() }),
        (_, Some(conv)) => Arc::new(IntegerConvolution { gates, ..conv.clone() }),
        (None, None) => return None,
    };
    let input = *node.inputs.first()?;
    let (data, gates) = operands(rewriter.net, rewriter.only_for(input)?)?;
    rewriter.take(input)?;
    node.inputs[0] = data;
    node.inputs.push(gates);
    node.operation = Operation::Fused(made);
    Some(())
}

/// The data and the gates (one per channel of each batch element) of a Multiply.
fn operands(net: &Net, node: &Node) -> Option<(ValueId, ValueId)> {
    let rule = node.is::<Binary>().filter(|b| b.kind() == Kind::Multiply)?;
    let (&[a, b], &[output]) = (&node.inputs[..], &node.outputs[..]) else { return None };
    if rule.broadcast() != AutoBroadcast::Numpy || !net.is_f32(a) || !net.is_f32(b) {
        return None;
    }
    let all = net.sizes(output)?;
    let last = all.len().checked_sub(1)?;
    let is_gate = |v: ValueId| {
        let own = net.sizes(v).unwrap_or_default();
        let each = |(i, s): (usize, &usize)| *s == if i == 0 || i == last { all[i] } else { 1 };
        own.len() == all.len() && own.iter().enumerate().all(each)
    };
    let found = [(a, b), (b, a)]
        .into_iter()
        .find(|(data, gates)| net.sizes(*data).as_deref() == Some(&all) && is_gate(*gates))?;
    Some(found)
}
