//! Concat fusion. Element-wise operations before and behind a Concat along the last axis run while
//! its rows are copied, block by block in the cache. CRelu is such a Concat, of x and -x, and a
//! batch normalization behind a Concat is another.

use crate::fused::concat::{Branch, ConcatChain};
use crate::fused::convolution::ChannelsLast;
use crate::fused::element_wise::{ChainShape, ElementWiseChain};
use crate::fused::quantized::IntegerConvolution;
use crate::graph::net::{Net, Node, Operation, ValueId};
use crate::graph::rewriter::GraphRewriter;
use crate::kernel::post_ops::moved;
use crate::passes::context::PassCx;
use crate::passes::fusion::element_wise::{as_post_op, is_by_column, quantizes};
use crate::passes::fusion::post_ops::{Producers, attached};
use infer::ops::concat::Concat;
use kernels::gemm::BLOCK;
use std::sync::Arc;

/// The shortest rows of an operand that are worth a copy of their own.
const SHORTEST_ROW: usize = 8;

pub(crate) fn fuse(net: &mut Net, _: &PassCx<'_>) -> usize {
    GraphRewriter::replacing(net, |rewriter, node| {
        concat_of_chains(rewriter, node).or_else(|| behind_concat(rewriter, node))
    })
}

/// A Concat that reads what its operands' chains read.
fn concat_of_chains(rewriter: &mut GraphRewriter<'_>, node: &Node) -> Option<Node> {
    let mut concat = along_rows(rewriter.net, node)?;
    let mut made = node.clone();
    for (i, branch) in concat.branches.iter_mut().enumerate() {
        absorb(rewriter, (&mut made, i), branch);
    }
    concat.branches.iter().any(|branch| !branch.post_ops.is_empty()).then(|| {
        made.operation = Operation::Fused(Arc::new(concat));
        made
    })
}

/// Moves the element-wise node that makes an operand into its branch, if there is one.
fn absorb(rewriter: &mut GraphRewriter<'_>, (made, i): (&mut Node, usize), branch: &mut Branch) {
    let value = made.inputs[i];
    let Some(maker) = rewriter.only_for(value) else { return };
    if let Some(chain) = chain_of(rewriter.net, maker, branch.columns) {
        let (operands, by) = (maker.inputs[1..].to_vec(), made.inputs.len() - 1);
        branch.post_ops.extend(chain.post_ops.iter().map(|op| moved(*op, by)));
        made.inputs[i] = maker.inputs[0];
        made.inputs.extend(operands);
        rewriter.take(value);
        return;
    }
    let Some(step) = as_post_op(rewriter.net, maker, &Computed { rewriter }) else { return };
    if step.fixes_shape() && step.shape != ChainShape::Rows(branch.columns) {
        return;
    }
    rewriter.take(value);
    made.inputs[i] = step.input;
    branch.post_ops.push(attached(rewriter, made, step.op));
}

/// The Concat before an element-wise node, with the node's post-ops behind it.
fn behind_concat(rewriter: &mut GraphRewriter<'_>, node: &Node) -> Option<Node> {
    if let Some(chain) = node.fused::<ElementWiseChain>() {
        let mut concat = feeding(rewriter, *node.inputs.first()?)?;
        chain_of(rewriter.net, node, concat.columns())?;
        let mut made = behind(rewriter.take(node.inputs[0])?, node);
        let by = made.inputs.len() - 1;
        concat.post_ops.extend(chain.post_ops.iter().map(|op| moved(*op, by)));
        made.inputs.extend(node.inputs[1..].iter().copied());
        made.operation = Operation::Fused(Arc::new(concat));
        return Some(made);
    }
    let step = as_post_op(rewriter.net, node, &Concats { rewriter })?;
    let mut concat = feeding(rewriter, step.input)?;
    if step.fixes_shape() && step.shape != ChainShape::Rows(concat.columns()) {
        return None;
    }
    let mut made = behind(rewriter.take(step.input)?, node);
    concat.post_ops.push(attached(rewriter, &mut made, step.op));
    made.operation = Operation::Fused(Arc::new(concat));
    Some(made)
}

/// A Concat that gives the outputs of the node behind it.
fn behind(concat: Node, node: &Node) -> Node {
    Node { outputs: node.outputs.clone(), layer: node.layer, ..concat }
}

/// The Concat that only the visited node reads.
pub(super) fn feeding(rewriter: &GraphRewriter<'_>, value: ValueId) -> Option<ConcatChain> {
    let maker = rewriter.only_for(value)?;
    maker.fused::<ConcatChain>().cloned().or_else(|| along_rows(rewriter.net, maker))
}

/// A Concat of f32 along the last axis, whose rows fit a block.
pub(super) fn along_rows(net: &Net, node: &Node) -> Option<ConcatChain> {
    let concat = node.is::<Concat>()?;
    let &[output] = &node.outputs[..] else { return None };
    let sizes = net.sizes(output).filter(|_| net.is_f32(output))?;
    concat.axis(sizes.len()).ok().filter(|axis| axis + 1 == sizes.len())?;
    let branch = |input: &ValueId| {
        let columns = *net.sizes(*input)?.last()?;
        (columns >= SHORTEST_ROW).then_some(Branch { columns, post_ops: Vec::new() })
    };
    let branches = node.inputs.iter().map(branch).collect::<Option<_>>()?;
    let is_block = sizes.iter().all(|size| *size > 0) && *sizes.last()? <= BLOCK;
    is_block.then_some(ConcatChain { branches, post_ops: Vec::new(), writes: None })
}

/// The chain that a node is, if it computes rows of `columns` elements of f32.
fn chain_of<'n>(net: &Net, node: &'n Node, columns: usize) -> Option<&'n ElementWiseChain> {
    let chain = node.fused::<ElementWiseChain>()?;
    let is_free = !chain.post_ops.iter().any(is_by_column);
    let fits = is_free || chain.shape == ChainShape::Rows(columns);
    (fits && net.is_f32(*node.inputs.first()?)).then_some(chain)
}

/// Values of f32 that are computed.
struct Computed<'a, 'n> {
    rewriter: &'a GraphRewriter<'n>,
}

impl Producers for Computed<'_, '_> {
    fn takes(&self, net: &Net, value: ValueId) -> bool {
        net.is_f32(value) && net.values[value].constant.is_none()
    }

    /// Behind convolutions, whose results are not halfway between two quantized values.
    fn rounds(&self, _: &Net, value: ValueId, _: bool) -> bool {
        self.rewriter.maker(value).is_some_and(|maker| {
            let of_floats = maker.fused::<ChannelsLast>().map(|conv| &conv.post_ops);
            let of_integers = || Some(&maker.fused::<IntegerConvolution>()?.post_ops);
            let post_ops = of_floats.or_else(of_integers);
            post_ops.is_some_and(|post_ops| !post_ops.iter().any(quantizes))
        })
    }
}

/// Concats that take post-ops.
struct Concats<'a, 'n> {
    rewriter: &'a GraphRewriter<'n>,
}

impl Producers for Concats<'_, '_> {
    fn takes(&self, _: &Net, value: ValueId) -> bool {
        feeding(self.rewriter, value).is_some()
    }

    /// What is concatenated may be quantized.
    fn rounds(&self, _: &Net, _: ValueId, _: bool) -> bool {
        false
    }

    fn are_chains(&self) -> bool {
        true
    }
}
