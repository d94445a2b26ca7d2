//! Decompression of weights. It runs in f32, without an intermediate rounding to f16, and once.

use crate::fused::decompress::Once;
use crate::graph::net::{Net, Node, Operation, Value, ValueId};
use crate::graph::rewriter::GraphRewriter;
use crate::passes::context::PassCx;
use crate::tensor::Tensor;
use crate::tensor::convert::convert_tensor;
use infer::ops::binary::Binary;
use infer::ops::convert::Convert;
use infer::{Fact, InputSet};
use ir::ElementType;
use smallvec::smallvec;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Constants of up to this many elements are converted at compile time: less than a megabyte, so
/// that a process which runs once does not convert weights that it would also convert as it runs.
pub(super) const CONVERTED_AT_COMPILE_ELEMENTS: usize = 1 << 16;

/// The most operations between a constant and the Convert of what is computed from it.
const MOST_OPERATIONS: usize = 64;

/// Converts constants with one axis, as limits, scales and zero points have: quantization analysis
/// reads their values.
pub(crate) fn vectors(net: &mut Net, _: &PassCx<'_>) -> usize {
    GraphRewriter::over(net, |rewriter, node| match converted(rewriter.net, &node) {
        Some(tensor) => {
            let value = rewriter.add(Value::known(tensor));
            rewriter.replace(&node, node.outputs[0], value);
        }
        None => rewriter.keep(node),
    })
}

/// The constant with one axis that a node converts to f32.
fn converted(net: &Net, node: &Node) -> Option<Tensor> {
    let &[output] = &node.outputs[..] else { return None };
    let constant = net.values[*node.inputs.first()?].constant.as_ref()?;
    let is_half = matches!(constant.element_type(), ElementType::F16 | ElementType::BF16);
    let is_vector = constant.sizes().iter().filter(|size| **size != 1).count() <= 1
        && constant.count() <= CONVERTED_AT_COMPILE_ELEMENTS;
    let fits = is_half && is_vector && node.is::<Convert>().is_some() && net.is_f32(output);
    fits.then(|| convert_tensor(constant, ElementType::F32).ok())?
}

/// Computes in f32 what is computed from constants in f16 and then converted to f32. OpenVINO does
/// the same.
pub(crate) fn widen(net: &mut Net, _: &PassCx<'_>) -> usize {
    let mut wide = HashMap::new();
    GraphRewriter::over(net, |rewriter, node| {
        let half = |t| matches!(t, ElementType::F16 | ElementType::BF16);
        let net = &*rewriter.net;
        let converts = node.is::<Convert>().is_some()
            && net.is_f32(node.outputs[0])
            && half(net.values[node.inputs[0]].fact.element_type)
            && net.values[node.inputs[0]].constant.is_none();
        let value = if converts { widened(rewriter, node.inputs[0], &mut wide, 0) } else { None };
        match value {
            Some(value) => rewriter.replace(&node, node.outputs[0], value),
            None => rewriter.keep(node),
        }
    })
}

/// The value in f32, if it is computed from constants and was not rounded before.
fn widened(
    rewriter: &mut GraphRewriter<'_>,
    value: ValueId,
    wide: &mut HashMap<ValueId, ValueId>,
    operations: usize,
) -> Option<ValueId> {
    if operations > MOST_OPERATIONS {
        return None;
    }
    if let Some(&known) = wide.get(&value) {
        return Some(known);
    }
    let fact = &rewriter.net.values[value].fact;
    let sizes = fact.shape.sizes()?;
    let of_f32 = Value::of(Fact::new(ElementType::F32, fact.shape.clone()));
    let result = if let Some(constant) = rewriter.net.values[value].constant.clone() {
        if sizes.iter().product::<usize>() > CONVERTED_AT_COMPILE_ELEMENTS {
            let layer = 0;
            let output = rewriter.add(of_f32);
            rewriter.keep(Node::conversion(value, output, ElementType::F32, layer)?);
            output
        } else {
            rewriter.add(Value::known(convert_tensor(&constant, ElementType::F32).ok()?))
        }
    } else {
        let mut node = rewriter.maker(value)?.clone();
        let data = *node.inputs.first()?;
        let moves = node.op()?.traits().moves == InputSet::one(0) && node.outputs.len() == 1;
        if node.is::<Convert>().is_some() {
            // Integers of up to 8 bits are exact in f16. Other constants were rounded.
            let from = &rewriter.net.values[data];
            let exact = from.fact.element_type.bits().is_some_and(|bits| bits <= 8);
            if !exact || from.constant.is_none() {
                return None;
            }
            let output = rewriter.add(of_f32);
            rewriter.keep(Node::conversion(data, output, ElementType::F32, node.layer)?);
            wide.insert(value, output);
            return Some(output);
        } else if node.is::<Binary>().is_some() {
            for input in &mut node.inputs {
                *input = widened(rewriter, *input, wide, operations + 1)?;
            }
        } else if moves {
            node.inputs[0] = widened(rewriter, data, wide, operations + 1)?;
        } else {
            return None;
        }
        let output = rewriter.add(of_f32);
        node.outputs = smallvec![output];
        rewriter.keep(node);
        output
    };
    wide.insert(value, result);
    Some(result)
}

/// Joins what is computed from constants alone to nodes that run in the first run only. A plan for
/// a single run leaves these nodes apart, so that their memory is shared in the arena.
pub(crate) fn once(net: &mut Net, cx: &PassCx<'_>) -> usize {
    if cx.resources.options.runs_once {
        return 0;
    }
    let fixed = fixed(net, cx);
    let mut needed: Vec<ValueId> = Vec::new();
    for node in net.nodes.iter().filter(|n| !fixed.contains(&n.outputs[0])) {
        needed.extend(node.inputs.iter().filter(|v| fixed.contains(*v)));
    }
    needed.sort_unstable();
    needed.dedup();
    let makers: HashMap<ValueId, usize> =
        net.nodes.iter().enumerate().map(|(i, n)| (n.outputs[0], i)).collect();
    let joined = needed.iter().map(|&value| (value, join(net, cx, &makers, value)));
    let joined: HashMap<ValueId, Node> = joined.collect();
    for &value in &needed {
        net.values[value].invariant = true;
    }
    GraphRewriter::replacing(net, |_, node| joined.get(&node.outputs[0]).cloned())
}

/// The values that are computed from constants alone and are not outputs.
fn fixed(net: &Net, cx: &PassCx<'_>) -> HashSet<ValueId> {
    let mut fixed = HashSet::new();
    for node in &net.nodes {
        let pure = node.op().is_some_and(|op| op.traits().pure);
        let bodies = cx.graph.layers().get(node.layer).is_some_and(|l| !l.bodies.is_empty());
        let known = |v: &ValueId| net.values[*v].constant.is_some() || fixed.contains(v);
        let &[output] = &node.outputs[..] else { continue };
        let ready = !node.inputs.is_empty() && node.inputs.iter().all(known);
        let is_static = net.values[output].fact.is_static();
        if pure && !bodies && ready && is_static && !net.outputs.contains(&output) {
            fixed.insert(output);
        }
    }
    fixed
}

/// All nodes that compute a value, as one node.
fn join(net: &Net, cx: &PassCx<'_>, makers: &HashMap<ValueId, usize>, value: ValueId) -> Node {
    let (mut open, mut own, mut constants) = (vec![value], Vec::new(), Vec::new());
    while let Some(value) = open.pop() {
        match makers.get(&value) {
            Some(maker) if !own.contains(maker) => {
                own.push(*maker);
                open.extend(&net.nodes[*maker].inputs);
            }
            None if !constants.contains(&value) => constants.push(value),
            _ => {}
        }
    }
    own.sort_unstable();
    let nodes: Vec<Node> = own.iter().map(|&i| net.nodes[i].clone()).collect();
    let layer = nodes.last().map_or(0, |n| n.layer);
    let graph = cx.graph.clone();
    let once = Once { graph, nodes, constants: constants.clone(), value };
    let operation = Operation::Fused(Arc::new(once));
    Node { operation, inputs: constants.into(), outputs: smallvec![value], layer }
}
