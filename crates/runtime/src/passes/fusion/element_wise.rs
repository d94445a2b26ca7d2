//! Element-wise fusion. A chain of sums, products, quotients, activations and FakeQuantize, each as
//! long as its result, is computed block by block in the cache.

use crate::fused::element_wise::{ChainShape, ElementWiseChain};
use crate::graph::net::{Net, Node, Operation, ValueId};
use crate::graph::rewriter::GraphRewriter;
use crate::kernel::post_ops::{Operand, PostOp};
use crate::passes::context::PassCx;
use crate::passes::fusion::post_ops::{Absorbed, OperandShape, Producers, attached, step};
use infer::ops::convert::Convert;
use ir::ElementType;
use smallvec::smallvec;
use std::sync::Arc;

pub(crate) fn chains(net: &mut Net, _: &PassCx<'_>) -> usize {
    GraphRewriter::replacing(net, joined)
}

/// The chain that feeds a node, with the node as its last post-op.
fn joined(rewriter: &mut GraphRewriter<'_>, node: &Node) -> Option<Node> {
    let last = as_post_op(rewriter.net, node, &ChainProducers { rewriter })?;
    let maker = rewriter.only_for(last.input)?;
    let (mut chain, inputs, first) = match maker.fused::<ElementWiseChain>() {
        Some(chain) => (chain.clone(), maker.inputs.clone(), None),
        None if converts(rewriter.net, maker) => {
            (ElementWiseChain::new(last.shape), maker.inputs.clone(), None)
        }
        None => {
            let first = as_post_op(rewriter.net, maker, &AnyProducer)?;
            let chain = ElementWiseChain::new(first.shape);
            (chain, smallvec![first.input], Some(first))
        }
    };
    let is_free = !chain.post_ops.iter().any(is_by_column)
        && first.as_ref().is_none_or(|first| !first.fixes_shape());
    if is_free {
        chain.shape = last.shape;
    } else if chain.shape != last.shape && last.fixes_shape() {
        return None;
    }
    rewriter.take(last.input)?;
    let mut made = Node { inputs, ..node.clone() };
    for step in first.into_iter().chain([last]) {
        chain.post_ops.push(attached(rewriter, &mut made, step.op));
    }
    made.operation = Operation::Fused(Arc::new(chain));
    Some(made)
}

/// Whether each column or channel has an operand of its own.
pub(super) fn is_by_column(op: &PostOp) -> bool {
    match op {
        PostOp::Add(by) | PostOp::Multiply(by) | PostOp::Divide(by) => {
            matches!(by, Operand::Columns(_))
        }
        PostOp::QuantizeColumns(_) => true,
        _ => false,
    }
}

/// Whether it is a FakeQuantize.
pub(super) fn quantizes(op: &PostOp) -> bool {
    matches!(op, PostOp::Quantize { .. } | PostOp::QuantizeColumns(_))
}

/// Whether a node converts to f32, from a type of few bytes.
fn converts(net: &Net, node: &Node) -> bool {
    use ElementType::{BF16, F16, I8, I16, I32, U8, U16};
    let (&[input], &[output]) = (&node.inputs[..], &node.outputs[..]) else { return false };
    let from = net.values[input].fact.element_type;
    node.is::<Convert>().is_some()
        && net.is_f32(output)
        && net.values[input].constant.is_none()
        && matches!(from, U8 | I8 | U16 | I16 | I32 | F16 | BF16)
}

/// The shortest rows whose columns have operands of their own. Several shorter ones are taken for
/// one row.
const SHORTEST_ROW: usize = 16;

/// Shorter rows that are taken for one, if their number is a multiple of it.
const ROWS_AT_ONCE: usize = 32;

/// The shortest planes whose channels have operands of their own.
const SHORTEST_PLANE: usize = 256;

/// A node as a post-op.
pub(super) struct Step {
    /// The input of the node that is computed before it.
    pub(super) input: ValueId,
    pub(super) op: Absorbed,
    /// The shape of a chain that takes it. Any, if neither columns nor channels have operands of
    /// their own.
    pub(super) shape: ChainShape,
}

impl Step {
    /// Whether it needs a chain of this shape.
    pub(super) fn fixes_shape(&self) -> bool {
        matches!(self.op.shape(), Some(OperandShape::Columns | OperandShape::Channels))
    }
}

/// A node of f32 as a post-op of one of its inputs.
pub(super) fn as_post_op(net: &Net, node: &Node, producers: &dyn Producers) -> Option<Step> {
    let &[output] = &node.outputs[..] else { return None };
    let sizes = net.sizes(output).filter(|_| net.is_f32(output))?;
    let (columns, count) = (*sizes.last()?, sizes.iter().product::<usize>());
    let (input, op) = step(net, node, output, producers)?;
    match op.shape() {
        Some(OperandShape::Columns) => {
            let times = if columns < SHORTEST_ROW { ROWS_AT_ONCE } else { 1 };
            let fits = (count / columns.max(1)).is_multiple_of(times);
            let op = op.repeated(net, times).filter(|_| fits)?;
            Some(Step { input, op, shape: ChainShape::Rows(columns * times) })
        }
        Some(OperandShape::Channels) => {
            let (channels, len) = (*sizes.get(1)?, sizes.get(2..)?.iter().product());
            let shape = ChainShape::Planes { channels, len };
            (len >= SHORTEST_PLANE).then_some(Step { input, op, shape })
        }
        _ => Some(Step { input, op, shape: ChainShape::Rows(columns) }),
    }
}

/// Chains, and nodes that begin one.
struct ChainProducers<'a, 'n> {
    rewriter: &'a GraphRewriter<'n>,
}

impl Producers for ChainProducers<'_, '_> {
    fn takes(&self, net: &Net, value: ValueId) -> bool {
        self.rewriter.only_for(value).is_some_and(|maker| {
            maker.fused::<ElementWiseChain>().is_some()
                || converts(net, maker)
                || as_post_op(net, maker, &AnyProducer).is_some()
        })
    }

    /// Not behind another FakeQuantize: of its values, many may lie halfway between two others.
    fn rounds(&self, _: &Net, value: ValueId, _: bool) -> bool {
        let maker = self.rewriter.only_for(value);
        let last = maker.and_then(|maker| maker.fused::<ElementWiseChain>()?.post_ops.last());
        !last.is_some_and(quantizes)
    }

    fn are_chains(&self) -> bool {
        true
    }
}

/// Any value of f32 that is computed.
pub(super) struct AnyProducer;

impl Producers for AnyProducer {
    fn takes(&self, net: &Net, value: ValueId) -> bool {
        net.is_f32(value) && net.values[value].constant.is_none()
    }

    /// What is quantized may be the values of another FakeQuantize.
    fn rounds(&self, _: &Net, _: ValueId, _: bool) -> bool {
        false
    }

    fn are_chains(&self) -> bool {
        true
    }
}
