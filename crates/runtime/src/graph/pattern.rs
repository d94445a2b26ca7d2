//! Helpers of passes that match patterns of several nodes.

use crate::graph::net::{Net, Node, ValueId};
use crate::graph::rewriter::GraphRewriter;
use crate::kernel::Kernel;
use crate::kernel::lower::LowerCx;
use infer::ops::binary::{Binary, Kind};
use infer::ops::reduce::{self, Reduce};
use infer::ops::unary::{self, Unary};
use infer::rules::axes;
use infer::rules::broadcast::AutoBroadcast;

/// The kind of a binary node, unless it broadcasts from another axis than the last (PDPD).
pub(crate) fn kind(node: &Node) -> Option<Kind> {
    let aligned_last = |b: &&Binary| !matches!(b.broadcast(), AutoBroadcast::Pdpd(_));
    node.is::<Binary>().filter(aligned_last).map(Binary::kind)
}

/// The operands of a binary node of kind `function`.
pub(crate) fn operands(node: &Node, function: Kind) -> Option<[ValueId; 2]> {
    let &[a, b] = &node.inputs[..] else { return None };
    (kind(node)? == function).then_some([a, b])
}

/// The operands of a binary node, in both orders.
pub(crate) fn either_way(node: &Node, kind: Kind) -> impl Iterator<Item = [ValueId; 2]> {
    operands(node, kind).into_iter().flat_map(|[a, b]| [[a, b], [b, a]])
}

/// A constant that is a single f32.
pub(crate) fn number(net: &Net, value: ValueId) -> Option<f32> {
    match net.values[value].constant.as_ref()?.as_slice::<f32>()? {
        [one] => Some(*one),
        _ => None,
    }
}

/// `x` of a node `mean(x)` over the last axis, which is kept.
pub(crate) fn mean_of_rows(net: &Net, node: &Node) -> Option<ValueId> {
    node.is::<Reduce>().filter(|r| r.kind() == reduce::Kind::Mean && r.keep_dims())?;
    let &[data, axes] = &node.inputs[..] else { return None };
    let rank = net.sizes(data)?.len();
    let axes = net.values[axes].fact.value.as_deref()?.i64s()?;
    let axes: Vec<usize> = axes::normalize_all(&axes, rank, 1).ok()?.into_iter().collect();
    (axes == [rank.checked_sub(1)?]).then_some(data)
}

/// `x` of a node `1 / sqrt(x)`, which may be written `x^-0.5`.
pub(crate) fn of_inverse_root(rewriter: &GraphRewriter<'_>, node: &Node) -> Option<ValueId> {
    let is = |value: ValueId, wanted: f32| number(rewriter.net, value) == Some(wanted);
    if let Some([base, by]) = operands(node, Kind::Power) {
        return is(by, -0.5).then_some(base);
    }
    let [one, root] = operands(node, Kind::Divide)?;
    let root = rewriter.maker(root).filter(|_| is(one, 1.0))?;
    root.is::<Unary>().filter(|u| u.kind() == unary::Kind::Sqrt)?;
    root.inputs.first().copied()
}

/// The kernel of a node, if its inputs are known well enough.
pub(crate) fn lowered(net: &Net, node: &Node) -> Option<Box<dyn Kernel>> {
    seen(net, node, |cx| node.lower(cx).ok())
}

/// Calls `f` with the context in which the kernel of a node is chosen.
pub(crate) fn seen<T>(net: &Net, node: &Node, f: impl FnOnce(&LowerCx<'_>) -> T) -> T {
    let (inputs, outputs) = (net.input_facts(node), net.output_facts(node));
    let constants = net.constants(node);
    f(&LowerCx::new((&inputs, &outputs), &constants, &constants, &[]))
}
