//! Global pooling fusion. The depthwise convolution before a squeeze-and-excitation block also
//! gives the mean of each channel, while its lines are in the cache of the thread that wrote them.
//! Each line is summed first, then the line sums, so the rounding differs.

use crate::fused::convolution::ChannelsLast;
use crate::graph::net::{Net, Node, Operation};
use crate::graph::rewriter::GraphRewriter;
use crate::passes::context::PassCx;
use infer::ops::reduce::{Kind, Reduce};
use infer::rules::axes::normalize_unique;
use std::sync::Arc;

pub(crate) fn means(net: &mut Net, _: &PassCx<'_>) -> usize {
    GraphRewriter::over(net, |rewriter, node| match given(rewriter, &node) {
        Some(()) => rewriter.changed(),
        None => rewriter.keep(node),
    })
}

/// Lets the convolution that makes a value also give the means that `node` computes.
fn given(rewriter: &mut GraphRewriter<'_>, node: &Node) -> Option<()> {
    node.is::<Reduce>().filter(|rule| rule.kind() == Kind::Mean)?;
    let (&[map, axes], &[means]) = (&node.inputs[..], &node.outputs[..]) else { return None };
    let rank = rewriter.net.sizes(map)?.len();
    let axes = rewriter.net.values[axes].fact.value.as_deref()?.i64s()?;
    let axes = normalize_unique(&axes, rank, 1).ok()?;
    let all_spatial = axes.len() + 2 == rank && (1..rank - 1).all(|axis| axes.contains(&axis));
    let maker = rewriter.maker(map).filter(|_| all_spatial)?;
    let operation = Operation::Fused(Arc::new(maker.fused::<ChannelsLast>()?.with_means()?));
    rewriter.give_more(map, operation, means)
}
