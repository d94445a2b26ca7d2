//! Horizontal GEMM fusion. MatMuls of the same few rows, such as query, key and value of a token,
//! or the gate of an MLP and what it multiplies, become one step. They share one fork and join,
//! which is a good part of the time of each.

use crate::fused::grouped_matmul::HorizontalMatMul;
use crate::fused::matmul::FusedMatMul;
use crate::graph::net::{Net, Node, Operation, ValueId};
use crate::kernel::post_ops::{Operand, PostOp};
use crate::passes::context::PassCx;
use kernels::gemm::{Precision, can_group};
use std::collections::HashMap;
use std::sync::Arc;

/// The most MatMuls in a group.
const MAX_GEMMS_IN_GROUP: usize = 8;

/// The most inputs of a MatMul: the inputs of a group are bits of an `InputSet`.
const INPUTS: usize = 7;

/// MatMuls that read the same rows.
type Group = Vec<GroupedGemm>;

/// A MatMul of a group.
struct GroupedGemm {
    /// The index of the node.
    at: usize,
    matmul: FusedMatMul,
    /// The earlier member whose result multiplies the result of this one; it is then the last
    /// input.
    factor: Option<usize>,
}

pub(crate) fn fuse_gemms(net: &mut Net, cx: &PassCx<'_>) -> usize {
    let mut groups = groups(net, cx);
    let changes = groups.values().map(Vec::len).sum();
    let made =
        |(i, node): (usize, &Node)| node.outputs.iter().map(move |v| (*v, i)).collect::<Vec<_>>();
    let producer: HashMap<ValueId, usize> = net.nodes.iter().enumerate().flat_map(made).collect();
    let mut nodes: Vec<Option<Node>> =
        std::mem::take(&mut net.nodes).into_iter().map(Some).collect();
    for i in 0..nodes.len() {
        let Some(group) = groups.remove(&i) else {
            net.nodes.extend(nodes[i].take());
            continue;
        };
        let members = group.into_iter().filter_map(|member| {
            let node = nodes[member.at].take()?;
            Some(without_factor(member, node))
        });
        let members: Vec<(GroupedGemm, Node)> = members.collect();
        // Nodes of constants alone may move to the front.
        for value in members.iter().flat_map(|(_, node)| &node.inputs[1..]) {
            net.nodes.extend(producer.get(value).and_then(|at| nodes[*at].take()));
        }
        net.nodes.extend(one(members));
    }
    changes
}

/// Each group of MatMuls with the same left operand, by its first node.
fn groups(net: &Net, cx: &PassCx<'_>) -> HashMap<usize, Group> {
    let mut makes_of_constants = HashMap::new();
    let mut by_rows: HashMap<ValueId, Group> = HashMap::new();
    for (i, node) in net.nodes.iter().enumerate() {
        let of_constants = node.inputs.iter().all(|v| net.values[*v].constant.is_some());
        makes_of_constants.extend(node.outputs.iter().map(|v| (*v, of_constants)));
        let is_known = |v: &ValueId| {
            let is_made = || makes_of_constants.get(v).copied().unwrap_or_default();
            net.values[*v].constant.is_some() || is_made()
        };
        let Some((rows, others)) = node.inputs.split_first() else { continue };
        let Some(matmul) = of_few_rows(net, cx, node) else { continue };
        let group = by_rows.entry(*rows).or_default();
        let factor = factor(net, node, &matmul, group);
        let known = &others[..others.len() - usize::from(factor.is_some())];
        if group.len() < MAX_GEMMS_IN_GROUP && known.iter().all(is_known) {
            group.push(GroupedGemm { at: i, matmul, factor });
        }
    }
    let several = by_rows.into_values().filter(|group| group.len() > 1);
    several.map(|group| (group[0].at, group)).collect()
}

/// The member of a group whose result this MatMul is multiplied by as its last post-op, if both
/// have the same shape.
fn factor(net: &Net, node: &Node, matmul: &FusedMatMul, group: &Group) -> Option<usize> {
    let (&last, &[output]) = (node.inputs.last()?, &node.outputs[..]) else { return None };
    let operand = Operand::Matrix(node.inputs.len() - 1);
    let is_last = matmul.post_ops.last() == Some(&PostOp::Multiply(operand));
    let same = is_last && net.sizes(last) == net.sizes(output);
    group.iter().position(|member| same && net.nodes[member.at].outputs[..] == [last])
}

/// The node without the post-op and the input of its factor.
fn without_factor(mut member: GroupedGemm, mut node: Node) -> (GroupedGemm, Node) {
    if member.factor.is_some() {
        member.matmul.post_ops.pop();
        node.inputs.pop();
    }
    (member, node)
}

/// The MatMul that a node computes, if it has few rows and its operands are contiguous.
fn of_few_rows(net: &Net, cx: &PassCx<'_>, node: &Node) -> Option<FusedMatMul> {
    let matmul = FusedMatMul::of(net, node)?;
    let &[a, b, ..] = &node.inputs[..] else { return None };
    let is_f32 = net.is_f32(a) && (net.is_f32(b) || matmul.weights.is_some());
    let sizes = |v| net.sizes(v).filter(|sizes| is_f32 && !sizes.is_empty());
    let (a, b) = (sizes(a)?, sizes(b)?);
    let is_grouped = matmul.through.is_none() && !matmul.is_dynamic();
    if !is_grouped || node.inputs.len() > INPUTS {
        return None;
    }
    let shape = matmul.shape(&a, &b);
    // GEMMs with compressed weights compute in f32.
    let stored = matmul.weights.is_some();
    let precision = if stored { Precision::F32 } else { cx.resources.options.precision };
    let few = can_group(shape.rows(), precision);
    (shape.reads_through() && few).then_some(matmul)
}

/// One node for all members.
fn one(members: Vec<(GroupedGemm, Node)>) -> Option<Node> {
    let (_, first) = members.first()?;
    let (rows, layer) = (first.inputs[0], first.layer);
    let others = members.iter().flat_map(|(_, node)| &node.inputs[1..]);
    let inputs = std::iter::once(&rows).chain(others).copied().collect();
    let outputs = members.iter().flat_map(|(_, node)| &node.outputs).copied().collect();
    let matmuls =
        members.into_iter().map(|(member, node)| (member.matmul, node.inputs.len(), member.factor));
    let operation = Operation::Fused(Arc::new(HorizontalMatMul::new(matmuls.collect())));
    Some(Node { operation, inputs, outputs, layer })
}
