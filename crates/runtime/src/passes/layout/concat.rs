//! Concat elimination. A 1×1 convolution behind a Concat of inputs with as many channels each (as
//! in atrous spatial pyramid pooling) reads those inputs directly. The order of the sums stays.

use crate::fused::convolution::ChannelsLast;
use crate::graph::net::{Net, Node, Operation, ValueId};
use crate::graph::rewriter::GraphRewriter;
use crate::passes::context::PassCx;
use infer::ops::concat::Concat;
use smallvec::SmallVec;
use std::sync::Arc;

/// Below this many channels, runs along them are too short to be read input by input.
const MIN_CHANNELS: usize = 32;

pub(crate) fn eliminate(net: &mut Net, _: &PassCx<'_>) -> usize {
    GraphRewriter::editing(net, read_concat_inputs)
}

/// Lets a convolution read the operands of the Concat that feeds it.
fn read_concat_inputs(rewriter: &mut GraphRewriter<'_>, node: &mut Node) -> Option<()> {
    let conv = node.fused::<ChannelsLast>().filter(|c| c.is_pointwise())?;
    let input = *node.inputs.first()?;
    let parts = operands(rewriter, input)?;
    let (&first, others) = parts.split_first()?;
    let end = node.inputs.len();
    let conv = ChannelsLast { concat_inputs: end..end + others.len(), ..conv.clone() };
    rewriter.take(input)?;
    node.inputs[0] = first;
    node.inputs.extend_from_slice(others);
    node.operation = Operation::Fused(Arc::new(conv));
    Some(())
}

/// The inputs of a Concat along the last axis, if all have the same shape.
fn operands(rewriter: &GraphRewriter<'_>, value: ValueId) -> Option<SmallVec<[ValueId; 4]>> {
    let net = &*rewriter.net;
    let concat = rewriter.only_for(value)?;
    let rank = net.sizes(value)?.len();
    concat.is::<Concat>()?.axis(rank).ok().filter(|axis| axis + 1 == rank)?;
    let sizes = net.sizes(*concat.inputs.first()?)?;
    let fits = |v: &ValueId| net.is_f32(*v) && net.sizes(*v).as_deref() == Some(&sizes);
    let is_long = sizes.last().is_some_and(|channels| *channels >= MIN_CHANNELS);
    (is_long && concat.inputs.iter().all(fits)).then(|| concat.inputs.clone())
}
