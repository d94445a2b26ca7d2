//! Products of the same few rows, as those that make queries, keys and values of a token, are one
//! step, which threads begin once: that takes a good part of the time of each.

use super::PassCx;
use crate::fused::product::Product;
use crate::fused::together::Products;
use crate::net::{Net, Node, Operation, ValueId};
use crate::ops::matmul::Shape;
use infer::ops::matmul::MatMul;
use kernels::gemm::are_few;
use std::collections::HashMap;
use std::sync::Arc;

/// Products of a group, at most.
const MOST: usize = 8;

/// Inputs of a product, at most: those of a group have a bit each.
const INPUTS: usize = 7;

pub(super) fn together(net: &mut Net, cx: &PassCx<'_>) -> usize {
    let groups = groups(net, cx);
    let changes = groups.values().map(Vec::len).sum();
    let made =
        |(i, node): (usize, &Node)| node.outputs.iter().map(move |v| (*v, i)).collect::<Vec<_>>();
    let producer: HashMap<ValueId, usize> = net.nodes.iter().enumerate().flat_map(made).collect();
    let mut nodes: Vec<Option<Node>> =
        std::mem::take(&mut net.nodes).into_iter().map(Some).collect();
    for i in 0..nodes.len() {
        let Some(group) = groups.get(&i) else {
            net.nodes.extend(nodes[i].take());
            continue;
        };
        let members: Vec<Node> = group.iter().filter_map(|i| nodes[*i].take()).collect();
        // What is made of constants alone can be made earlier.
        for value in members.iter().flat_map(|node| &node.inputs[1..]) {
            net.nodes.extend(producer.get(value).and_then(|at| nodes[*at].take()));
        }
        let one = one(net, &members);
        net.nodes.extend(one);
    }
    changes
}

/// By its first node each group of products that read the same.
fn groups(net: &Net, cx: &PassCx<'_>) -> HashMap<usize, Vec<usize>> {
    let mut makes_of_constants = HashMap::new();
    let mut by_rows: HashMap<ValueId, Vec<usize>> = HashMap::new();
    for (i, node) in net.nodes.iter().enumerate() {
        let of_constants = node.inputs.iter().all(|v| net.values[*v].constant.is_some());
        makes_of_constants.extend(node.outputs.iter().map(|v| (*v, of_constants)));
        let is_known = |v: &ValueId| {
            let is_made = || makes_of_constants.get(v).copied().unwrap_or_default();
            net.values[*v].constant.is_some() || is_made()
        };
        let Some((rows, others)) = node.inputs.split_first() else { continue };
        if others.iter().all(is_known) && suits(net, cx, node) {
            let group = by_rows.entry(*rows).or_default();
            if group.len() < MOST {
                group.push(i);
            }
        }
    }
    by_rows.into_values().filter(|group| group.len() > 1).map(|group| (group[0], group)).collect()
}

/// Whether a node is a product of few rows as they lie.
fn suits(net: &Net, cx: &PassCx<'_>, node: &Node) -> bool {
    let shape = || {
        let (product, &[a, b, ..]) = (product(net, node)?, &node.inputs[..]) else { return None };
        let is_plain = product.through.is_none() && node.inputs.len() <= INPUTS;
        let sizes = [a, b].map(|v| net.sizes(v).filter(|s| net.is_f32(v) && !s.is_empty()));
        let [Some(a), Some(b)] = sizes else { return None };
        let (turn_a, turn_b) = product.turned;
        is_plain.then(|| Shape::new(&a, &b, turn_a, turn_b))
    };
    let precision = cx.shared.options.precision;
    shape().is_some_and(|shape| shape.reads_through() && are_few(shape.rows(), precision))
}

/// The product that a node is.
fn product(net: &Net, node: &Node) -> Option<Product> {
    if let Some(product) = node.made::<Product>() {
        return Some(product.clone());
    }
    let matmul = node.is::<MatMul>()?;
    let rank = |i: usize| net.sizes(*node.inputs.get(i)?).map(|s| s.len());
    Some(Product { turned: matmul.transposed(rank(0)?, rank(1)?), then: Vec::new(), through: None })
}

/// One node for all members.
fn one(net: &Net, members: &[Node]) -> Option<Node> {
    let first = members.first()?;
    let products = members.iter().map(|node| Some((product(net, node)?, node.inputs.len())));
    let operation = Operation::Made(Arc::new(Products::new(products.collect::<Option<_>>()?)));
    let others = members.iter().flat_map(|node| &node.inputs[1..]);
    let inputs = first.inputs[..1].iter().chain(others).copied().collect();
    let outputs = members.iter().flat_map(|node| &node.outputs).copied().collect();
    Some(Node { operation, inputs, outputs, layer: first.layer })
}
