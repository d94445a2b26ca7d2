//! No-op elimination.

use crate::graph::net::{Net, Node, ValueId};
use crate::graph::rewriter::GraphRewriter;
use crate::passes::context::PassCx;
use infer::ops::binary::{Binary, Kind as BinaryKind};
use infer::ops::broadcast::Broadcast;
use infer::ops::concat::Concat;
use infer::ops::convert::Convert;
use infer::ops::pad::Pad;
use infer::ops::reshape::Reshape;
use infer::ops::slice::Slice;
use infer::ops::squeeze::Squeeze;
use infer::ops::strided_slice::StridedSlice;
use infer::ops::transpose::Transpose;
use infer::ops::unary::{Kind as UnaryKind, Unary};

/// Removes nodes whose output equals one of their inputs, bit for bit.
pub(crate) fn nop_elimination(net: &mut Net, _: &PassCx<'_>) -> usize {
    GraphRewriter::over(net, |rewriter, node| match idle(rewriter.net, &node) {
        Some(input) => rewriter.replace(&node, node.outputs[0], node.inputs[input]),
        None => rewriter.keep(node),
    })
}

/// The index of the input that the output equals.
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
        return if same(input) && (neutral(node.inputs[1]) || divides) {
            Some(0)
        } else {
            (same(node.inputs[1]) && neutral(input)).then_some(1)
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

/// Whether a value is a constant with one element, the f32 number 1.
fn is_one(net: &Net, value: ValueId) -> bool {
    let Some(constant) = &net.values[value].constant else { return false };
    constant.count() == 1 && constant.as_slice::<f32>().is_some_and(|v| v == [1.0])
}

/// Whether all steps of a slice are 1. Then a slice that keeps the shape keeps everything.
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
