//! bf16 propagation. A convolution result is stored as bf16 if only bf16 convolutions read it, also
//! through MaxPool. This halves its memory. The bits stay the same, since conversion to bf16 and
//! max commute.

use crate::fused::convolution::ChannelsLast;
use crate::fused::pool::{Elements, PoolLast};
use crate::graph::net::{Net, Node, Operation, ValueId};
use crate::passes::context::PassCx;
use infer::Fact;
use ir::ElementType;
use kernels::pool::Pooling;
use std::sync::Arc;

/// The longest chain of MaxPools that bf16 passes through. Each is a recursive call, and a file may
/// hold any number.
const POOLS: usize = 8;

pub(crate) fn round(net: &mut Net, cx: &PassCx<'_>) -> usize {
    if !cx.resources.options.precision.keeps_pairs() {
        return 0;
    }
    let readers = net.readers();
    let mut found = 0;
    for i in 0..net.nodes.len() {
        let node = &net.nodes[i];
        let with_output = node.fused::<ChannelsLast>().and_then(ChannelsLast::with_bf16_output);
        let (Some(conv), &[value]) = (with_output, &node.outputs[..]) else { continue };
        if is_taken(net, &readers, value, POOLS) {
            net.nodes[i].operation = Operation::Fused(Arc::new(conv));
            store(net, &readers, value);
            found += 1;
        }
    }
    found
}

/// Whether every reader of a value takes bf16, through at most `pools` MaxPools.
fn is_taken(net: &Net, readers: &[Vec<usize>], value: ValueId, pools: usize) -> bool {
    let takes = |node: &Node| {
        if let Some(conv) = node.fused::<ChannelsLast>() {
            let is_data = node.inputs.iter().skip(1).all(|v| *v != value);
            return is_data && conv.with_bf16_input().is_some();
        }
        let is_max = |pool: &PoolLast| pool.pool.pooling == Pooling::Max;
        let passes = pools > 0 && node.fused::<PoolLast>().is_some_and(is_max);
        passes && is_taken(net, readers, node.outputs[0], pools - 1)
    };
    !net.outputs.contains(&value) && readers[value].iter().all(|i| takes(&net.nodes[*i]))
}

/// Stores as bf16 a value that [`is_taken`], and lets its readers read bf16.
fn store(net: &mut Net, readers: &[Vec<usize>], value: ValueId) {
    let shape = net.values[value].fact.shape.clone();
    net.values[value].fact = Fact::new(ElementType::BF16, shape);
    for &i in &readers[value] {
        let node = &net.nodes[i];
        if let Some(pool) = node.fused::<PoolLast>() {
            let (pool, output) = (pool.clone(), node.outputs[0]);
            let pool = PoolLast { elements: Elements::Bf16, ..pool };
            net.nodes[i].operation = Operation::Fused(Arc::new(pool));
            store(net, readers, output);
        } else if let Some(conv) =
            node.fused::<ChannelsLast>().and_then(ChannelsLast::with_bf16_input)
        {
            net.nodes[i].operation = Operation::Fused(Arc::new(conv));
        }
    }
}
