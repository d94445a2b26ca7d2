//! Constant folding. Computes once what depends on no input, and refines the facts of the nodes
//! that follow.

use crate::graph::net::{Net, Node, Operation, Value, ValueId};
use crate::graph::rewriter::GraphRewriter;
use crate::kernel::RunSite;
use crate::kernel::evaluate::evaluate;
use crate::kernel::lower::LowerError;
use crate::passes::context::PassCx;
use crate::tensor::Tensor;
use crate::tensor::convert::convert_tensor;
use crate::tensor::fact::in_f32;
use infer::ops::binary::Binary;
use infer::ops::convert::Convert;
use infer::ops::convolution::Convolution;
use infer::ops::matmul::MatMul;
use infer::{Fact, InputSet, PartialShape, PartialValue, infer_op};
use ir::ElementType;
use std::collections::HashSet;

/// Results of up to this many bytes replace what they are computed from.
const RESULT: usize = 1 << 20;

/// Weights of more elements stay compressed: MatMul reads them as they are stored.
const SMALL_WEIGHT: usize = 1 << 12;

/// The most bytes of all results.
const BUDGET: usize = 32 << 20;

/// Folds constants, but not the filters of quantized convolutions that are known as integers times
/// scales, nor what only those are computed from: quantized lowering reads the integers.
pub(crate) fn fold_others(net: &mut Net, cx: &PassCx<'_>) -> usize {
    let wanted = read_as_values(net);
    fold_wanted(net, cx, &wanted)
}

/// Folds all constants.
pub(crate) fn fold(net: &mut Net, cx: &PassCx<'_>) -> usize {
    let wanted = vec![true; net.values.len()];
    fold_wanted(net, cx, &wanted)
}

/// Folds the nodes with an output that is wanted.
fn fold_wanted(net: &mut Net, cx: &PassCx<'_>, wanted: &[bool]) -> usize {
    let mut refined = vec![false; net.values.len()];
    let mut left = BUDGET;
    let weights = weights(net);
    GraphRewriter::over(net, |rewriter, mut node| {
        if node.inputs.iter().any(|v| refined[*v]) {
            refine(rewriter.net, cx, &mut node, &mut refined);
        }
        let waits = !node.outputs.iter().any(|v| wanted[*v]);
        if waits || node.outputs.iter().any(|v| weights.contains(v)) && widens(rewriter.net, &node)
        {
            return rewriter.keep(node);
        }
        let results =
            known(rewriter.net, &node).or_else(|| computed(rewriter.net, cx, &node, left));
        let Some(results) = results else { return rewriter.keep(node) };
        for (&output, tensor) in node.outputs.iter().zip(results) {
            left = left.saturating_sub(tensor.bytes().len());
            let value = &mut rewriter.net.values[output];
            let known = Value::known(tensor);
            refined[output] |= value.fact != known.fact;
            *value = Value {
                quant_params: value.quant_params,
                integers: value.integers.take(),
                source: value.source,
                ..known
            };
        }
        rewriter.release(&node.inputs);
        rewriter.changed();
    })
}

/// For each value whether a node reads it that cannot read its integers instead.
fn read_as_values(net: &Net) -> Vec<bool> {
    let mut wanted = vec![false; net.values.len()];
    net.outputs.iter().for_each(|v| wanted[*v] = true);
    for node in net.nodes.iter().rev() {
        if node.outputs.iter().any(|v| wanted[*v]) || node.has_effect() {
            let filters = integer_filters(net, node);
            let others = node.inputs.iter().filter(|v| filters != Some(**v));
            others.for_each(|v| wanted[*v] = true);
        }
    }
    wanted
}

/// The integers times scales by which a convolution or MatMul multiplies quantized data.
fn integer_filters(net: &Net, node: &Node) -> Option<ValueId> {
    let &[data, filters] = &node.inputs[..] else { return None };
    let multiplies = node.is::<MatMul>().is_some()
        || node.is::<Convolution>().is_some_and(|conv| !conv.kind().is_grouped());
    let is_quantized = net.values[data].quant_params.is_some();
    (multiplies && is_quantized && net.values[filters].integers.is_some()).then_some(filters)
}

/// The values that MatMuls read as weights, and what those are computed from.
fn weights(net: &Net) -> HashSet<ValueId> {
    let mut weights = HashSet::new();
    for node in net.nodes.iter().rev() {
        let is_weight = node.outputs.iter().any(|v| weights.contains(v));
        if node.is::<MatMul>().is_some() {
            weights.extend(node.inputs.get(1));
        } else if is_weight && node.is::<Binary>().is_some() {
            weights.extend(&node.inputs);
        } else if is_weight {
            weights.extend(node.inputs.first());
        }
    }
    weights
}

/// Whether a node converts a large constant to a type with more bits.
fn widens(net: &Net, node: &Node) -> bool {
    let (&[input], &[output]) = (&node.inputs[..], &node.outputs[..]) else { return false };
    let bits = |v: ValueId| net.values[v].fact.element_type.bits();
    let is_small = |t: &Tensor| t.sizes().iter().product::<usize>() <= SMALL_WEIGHT;
    let is_large = net.values[input].constant.as_ref().is_some_and(|t| !is_small(t));
    node.is::<Convert>().is_some() && is_large && bits(input) < bits(output)
}

/// Infers the outputs of a node again, from its refined inputs.
fn refine(net: &mut Net, cx: &PassCx<'_>, node: &mut Node, refined: &mut [bool]) {
    let Some(op) = node.op() else { return };
    let bodies = cx.graph.layers().get(node.layer).map_or(&[][..], |l| &l.bodies);
    let (inputs, variables) = (net.input_facts(node), cx.variables.cloned());
    let (outputs, extensions) = (node.outputs.len(), &cx.resources.extensions);
    let inferred = infer_op(op, &inputs, outputs, bodies, extensions, variables);
    let Ok((facts, _)) = inferred else { return refuse(net, node, refined) };
    for (&output, mut fact) in node.outputs.iter().zip(facts) {
        let old = &mut net.values[output].fact;
        // f16 promotion makes bodies compute in f32; their rules still say f16.
        if !bodies.is_empty() && old.element_type == ElementType::F32 {
            fact = in_f32(fact);
        }
        if *old != fact && tells_more(&fact, old) {
            *old = fact;
            refined[output] = true;
        }
    }
}

/// Called if the rule of a node rejects its refined inputs. The node keeps outputs of unknown shape
/// and gets no kernel. If it is ever run, the rule reports the error.
fn refuse(net: &mut Net, node: &mut Node, refined: &mut [bool]) {
    if let Operation::Source { lower, .. } = &mut node.operation {
        *lower = |_, _| Err(LowerError::NeedsShape(0));
    }
    for &output in &node.outputs {
        let fact = &mut net.values[output].fact;
        *fact = Fact::new(fact.element_type, PartialShape::unranked());
        refined[output] = true;
    }
}

/// Whether a later fact is at least as precise as the one before.
fn tells_more(new: &Fact, old: &Fact) -> bool {
    let fits = |value: &Option<_>| value.is_some() || old.value.is_none();
    old.shape.covers(&new.shape) && fits(&new.value)
}

/// The results of a node that propagation has already computed.
fn known(net: &Net, node: &Node) -> Option<Vec<Tensor>> {
    if !node.op()?.traits().pure {
        return None;
    }
    node.outputs.iter().map(|&v| tensor(net.values[v].fact.value.as_deref()?)).collect()
}

/// A partial value as a tensor, if all its integers are known.
fn tensor(value: &PartialValue) -> Option<Tensor> {
    let exact = value.element_type.is_integral() || value.element_type == ElementType::Boolean;
    let ints = value.i64s().filter(|_| exact)?;
    let wide = Tensor::from_vec(&value.sizes, ints).ok()?;
    convert_tensor(&wide, value.element_type).ok()
}

/// The results of a node of constants, unless they are large.
fn computed(net: &Net, cx: &PassCx<'_>, node: &Node, left: usize) -> Option<Vec<Tensor>> {
    let has_bodies = cx.graph.layers().get(node.layer).is_some_and(|l| !l.bodies.is_empty());
    if !node.op()?.traits().pure || has_bodies {
        return None;
    }
    // Large f32 constants are not worth a copy that only aligns them.
    let is_fit = |t: &Tensor| t.is_aligned() || t.element_type() != ElementType::F32;
    let constant = |&v: &ValueId| net.values[v].constant.clone().filter(is_fit);
    let inputs: Vec<Tensor> = node.inputs.iter().map(constant).collect::<Option<_>>()?;
    let small = |v: &ValueId| {
        let fact = &net.values[*v].fact;
        let elements = fact.shape.volume().value();
        let bits = fact.element_type.bits().unwrap_or(64) as i64;
        elements.is_none_or(|n| n.saturating_mul(bits) / 8 <= RESULT.min(left) as i64)
    };
    if !node.outputs.iter().all(small) {
        return None;
    }
    // A failure here is no error: the node fails again if it is ever run.
    let operation = node.deferred(InputSet::NONE)?;
    let results =
        RunSite::outside(&cx.resources, |site| evaluate(cx.graph, &operation, &inputs, site).ok())?;
    (results.iter().map(|t| t.bytes().len()).sum::<usize>() <= RESULT).then_some(results)
}
