//! Nodes that do nothing, do the same as another, or are needed by nobody.

use super::PassCx;
use super::sweep::Sweep;
use crate::net::{Net, Node, Operation, ValueId};
use infer::ops::adaptive_pool::AdaptivePool;
use infer::ops::binary::{Binary, Kind as BinaryKind};
use infer::ops::broadcast::Broadcast;
use infer::ops::concat::Concat;
use infer::ops::convert::Convert;
use infer::ops::pad::Pad;
use infer::ops::pool::Pool;
use infer::ops::reshape::Reshape;
use infer::ops::slice::Slice;
use infer::ops::squeeze::Squeeze;
use infer::ops::strided_slice::StridedSlice;
use infer::ops::transpose::Transpose;
use infer::ops::unary::{Kind as UnaryKind, Unary};
use std::any::{Any, TypeId};
use std::collections::HashMap;

/// Takes from pooling the output of indices where nothing reads it: without it pooling is several
/// times as fast.
pub(super) fn drop_indices(net: &mut Net, _: &PassCx<'_>) -> usize {
    let mut read = vec![false; net.values.len()];
    for &value in net.nodes.iter().flat_map(|n| &n.inputs).chain(&net.outputs) {
        read[value] = true;
    }
    let mut changes = 0;
    for node in &mut net.nodes {
        let pools = node.is::<Pool>().is_some() || node.is::<AdaptivePool>().is_some();
        if pools && matches!(node.outputs[..], [_, indices] if !read[indices]) {
            node.outputs.truncate(1);
            changes += 1;
        }
    }
    changes
}

/// Takes out nodes whose output is one of their inputs, bit for bit.
pub(super) fn drop_idle(net: &mut Net, _: &PassCx<'_>) -> usize {
    Sweep::over(net, |sweep, node| match idle(sweep.net, &node) {
        Some(input) => sweep.replace(node.outputs[0], node.inputs[input]),
        None => sweep.keep(node),
    })
}

/// Which input is the output.
fn idle(net: &Net, node: &Node) -> Option<usize> {
    let (&[input, ..], &[output]) = (&node.inputs[..], &node.outputs[..]) else { return None };
    let fact = |v: ValueId| &net.values[v].fact;
    let same = |a: ValueId| {
        let (a, b) = (fact(a), fact(output));
        let sizes = a.shape.sizes();
        a.element_type == b.element_type && sizes.is_some() && sizes == b.shape.sizes()
    };
    if let Some(binary) = node.is::<Binary>() {
        let neutral = |v: ValueId| is_one(net, v) && binary.kind() == BinaryKind::Multiply;
        let divides = binary.kind() == BinaryKind::Divide && is_one(net, node.inputs[1]);
        return match same(input) && (neutral(node.inputs[1]) || divides) {
            true => Some(0),
            false => (same(node.inputs[1]) && neutral(input)).then_some(1),
        };
    }
    let moves = node.is::<Reshape>().is_some()
        || node.is::<Squeeze>().is_some()
        || node.is::<Convert>().is_some()
        || node.is::<Broadcast>().is_some()
        || node.is::<Concat>().is_some_and(|_| node.inputs.len() == 1)
        || node.is::<Unary>().is_some_and(|u| u.kind() == UnaryKind::Identity)
        || (node.is::<Slice>().is_some() && forward(net, node, 3))
        || (node.is::<StridedSlice>().is_some() && forward(net, node, 3))
        || (node.is::<Pad>().is_some() && [1, 2].iter().all(|i| is_zero(net, node, *i)))
        || (node.is::<Transpose>().is_some() && in_order(net, node));
    (moves && same(input)).then_some(0)
}

/// Whether all elements of a constant are 1.
fn is_one(net: &Net, value: ValueId) -> bool {
    let Some(constant) = &net.values[value].constant else { return false };
    constant.count() == 1 && constant.as_slice::<f32>().is_some_and(|v| v == [1.0])
}

/// Whether the steps of a slice are all 1, so that one of the same shape is whole.
fn forward(net: &Net, node: &Node, steps: usize) -> bool {
    let Some(&steps) = node.inputs.get(steps) else { return true };
    let value = net.values[steps].fact.value.as_deref().and_then(|v| v.i64s());
    value.is_some_and(|v| v.iter().all(|s| *s == 1))
}

/// Whether all elements of an input are 0.
fn is_zero(net: &Net, node: &Node, input: usize) -> bool {
    let Some(&input) = node.inputs.get(input) else { return false };
    let value = net.values[input].fact.value.as_deref().and_then(|v| v.i64s());
    value.is_some_and(|v| v.iter().all(|x| *x == 0))
}

fn in_order(net: &Net, node: &Node) -> bool {
    let Some(&order) = node.inputs.get(1) else { return false };
    let value = net.values[order].fact.value.as_deref().and_then(|v| v.i64s());
    value.is_some_and(|v| !v.is_empty() && v.iter().enumerate().all(|(i, a)| *a == i as i64))
}

/// Lets nodes that compute the same share one.
pub(super) fn share(net: &mut Net, _: &PassCx<'_>) -> usize {
    type Key = (TypeId, String, Vec<ValueId>, usize);
    let mut known: HashMap<Key, Vec<ValueId>> = HashMap::new();
    Sweep::over(net, |sweep, node| {
        let Operation::Written { op, .. } = &node.operation else { return sweep.keep(node) };
        if !op.traits().pure {
            return sweep.keep(node);
        }
        let any: &dyn Any = &**op;
        // What an operation prints are all its attributes. Versions may differ in their outputs
        // alone, as those of Proposal do.
        let outputs = node.outputs.len();
        let key = (any.type_id(), format!("{op:?}"), node.inputs.to_vec(), outputs);
        match known.get(&key) {
            Some(outputs) => {
                for (&output, &other) in node.outputs.iter().zip(outputs) {
                    sweep.replace(output, other);
                }
            }
            None => {
                known.insert(key, node.outputs.to_vec());
                sweep.keep(node);
            }
        }
    })
}

/// Takes out nodes whose outputs nobody reads.
pub(super) fn drop_dead(net: &mut Net, _: &PassCx<'_>) -> usize {
    let mut needed = vec![false; net.values.len()];
    net.outputs.iter().for_each(|&v| needed[v] = true);
    let before = net.nodes.len();
    let mut kept: Vec<Node> = Vec::with_capacity(before);
    for node in std::mem::take(&mut net.nodes).into_iter().rev() {
        if node.has_effect() || node.outputs.iter().any(|v| needed[*v]) {
            node.inputs.iter().for_each(|&v| needed[v] = true);
            kept.push(node);
        }
    }
    kept.reverse();
    net.nodes = kept;
    before - net.nodes.len()
}
