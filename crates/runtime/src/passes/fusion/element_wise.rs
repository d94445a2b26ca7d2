//! Element-wise fusion. A chain of sums, products, activations and FakeQuantize, each as long as
//! its result, is computed block by block in the cache.

use crate::fused::element_wise::ElementWiseChain;
use crate::graph::net::{Net, Node, Operation, ValueId};
use crate::graph::rewriter::GraphRewriter;
use crate::kernel::post_ops::PostOp;
use crate::passes::context::PassCx;
use crate::passes::fusion::post_ops::{Absorbed, Producers, attached, step};
use smallvec::smallvec;
use std::sync::Arc;

pub(crate) fn chains(net: &mut Net, _: &PassCx<'_>) -> usize {
    GraphRewriter::replacing(net, joined)
}

/// The chain that feeds a node, with the node as its last post-op.
fn joined(rewriter: &mut GraphRewriter<'_>, node: &Node) -> Option<Node> {
    let (input, last) = as_post_op(rewriter.net, node, &ChainProducers { rewriter })?;
    let maker = rewriter.only_for(input)?;
    let begun = match maker.fused::<ElementWiseChain>() {
        Some(chain) => (chain.clone(), maker.inputs.clone(), None),
        None => {
            let columns = *rewriter.net.sizes(input)?.last()?;
            let (data, first) = as_post_op(rewriter.net, maker, &AnyProducer)?;
            (ElementWiseChain { columns, post_ops: Vec::new() }, smallvec![data], Some(first))
        }
    };
    let (mut chain, inputs, first) = begun;
    rewriter.take(input)?;
    let mut made = Node { inputs, ..node.clone() };
    for step in first.into_iter().chain([last]) {
        chain.post_ops.push(attached(rewriter, &mut made, step));
    }
    made.operation = Operation::Fused(Arc::new(chain));
    Some(made)
}

/// The shortest rows whose columns have operands of their own.
const SHORTEST_ROW: usize = 16;

/// A node of f32 as a post-op of one of its inputs.
fn as_post_op(net: &Net, node: &Node, producers: &dyn Producers) -> Option<(ValueId, Absorbed)> {
    let &[output] = &node.outputs[..] else { return None };
    let found = net.is_f32(output).then(|| step(net, node, output, producers))??;
    let is_long = *net.sizes(output)?.last()? >= SHORTEST_ROW;
    (is_long || !found.1.is_by_column()).then_some(found)
}

/// Chains, and nodes that begin one.
struct ChainProducers<'a, 'n> {
    rewriter: &'a GraphRewriter<'n>,
}

impl Producers for ChainProducers<'_, '_> {
    fn takes(&self, net: &Net, value: ValueId) -> bool {
        self.rewriter.only_for(value).is_some_and(|maker| {
            maker.fused::<ElementWiseChain>().is_some()
                || as_post_op(net, maker, &AnyProducer).is_some()
        })
    }

    /// Not behind another FakeQuantize: of its values, many may lie halfway between two others.
    fn rounds(&self, _: &Net, value: ValueId, _: bool) -> bool {
        let maker = self.rewriter.only_for(value);
        let last = maker.and_then(|maker| maker.fused::<ElementWiseChain>()?.post_ops.last());
        !matches!(last, Some(PostOp::Quantize { .. } | PostOp::QuantizeColumns(_)))
    }
}

/// Any value of f32 that is computed.
struct AnyProducer;

impl Producers for AnyProducer {
    fn takes(&self, net: &Net, value: ValueId) -> bool {
        net.is_f32(value) && net.values[value].constant.is_none()
    }

    /// What is quantized may be the values of another FakeQuantize.
    fn rounds(&self, _: &Net, _: ValueId, _: bool) -> bool {
        false
    }
}
