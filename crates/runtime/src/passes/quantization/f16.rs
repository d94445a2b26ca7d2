//! f16 promotion. f16 graphs are computed in f32 throughout, as in OpenVINO: nothing is rounded and
//! nothing overflows between operations, and every other pass sees only f32. Weights stay f16 in
//! memory, behind a Convert. Inputs, outputs and variables stay f16 and are converted at the
//! boundary. Bodies take and give f32.

use crate::graph::net::{Net, Node, Operation, Value, ValueId};
use crate::graph::rewriter::GraphRewriter;
use crate::passes::context::PassCx;
use crate::passes::quantization::decompress::CONVERTED_AT_COMPILE_ELEMENTS;
use crate::tensor::Tensor;
use crate::tensor::convert::convert_tensor;
use crate::tensor::fact::in_f32;
use infer::ops::convert::Convert;
use infer::ops::range::Range;
use infer::ops::variable::Variable;
use infer::{Fact, infer_op};
use ir::ElementType::{self, F16, F32};
use std::collections::{HashMap, HashSet};

/// Promotes the f16 part of the graph to f32.
pub(crate) fn widen(net: &mut Net, cx: &PassCx<'_>) -> usize {
    if !net.values.iter().any(|value| value.fact.element_type == F16) {
        return 0;
    }
    let element_type = |net: &Net, v: &ValueId| net.values[*v].fact.element_type;
    let mut outputs: Vec<ElementType> = net.outputs.iter().map(|v| element_type(net, v)).collect();
    let mut converted = Converted::default();
    if cx.graph.is_body() {
        converted.take_inputs(net);
        outputs.iter_mut().filter(|t| **t == F16).for_each(|t| *t = F32);
    }
    let changes = GraphRewriter::over(net, |rewriter, mut node| {
        let bodies = cx.graph.layers().get(node.layer).is_some_and(|l| !l.bodies.is_empty());
        let is_widened = if bodies {
            converted.around_bodies(rewriter, &mut node)
        } else {
            widen_node(rewriter, &mut node, cx, &mut converted)
        };
        if is_widened.is_none() {
            converted.restore(rewriter, &mut node);
        }
        rewriter.keep(node);
    });
    for (i, wanted) in outputs.into_iter().enumerate() {
        let inner = net.outputs[i];
        let fact = &net.values[inner].fact;
        if fact.element_type != wanted {
            let outer = net.add(Value::of(Fact::new(wanted, fact.shape.clone())));
            let layer = net.nodes.last().map_or(0, |node| node.layer);
            net.nodes.extend(Node::conversion(inner, outer, wanted, layer));
            net.outputs[i] = outer;
        }
    }
    changes
}

/// Computes operations with inputs of f32 and of another real type in f32, since their kernels take
/// one type. A result of the other type is rounded once.
pub(crate) fn mixed(net: &mut Net, _: &PassCx<'_>) -> usize {
    GraphRewriter::over(net, |rewriter, mut node| {
        let rounded =
            if mixes(rewriter.net, &node) { in_one_type(rewriter, &mut node) } else { None };
        rewriter.keep(node);
        if let Some(rounded) = rounded {
            rewriter.keep(rounded);
            rewriter.changed();
        }
    })
}

/// Whether a node has floating-point inputs of several types, while its kernels take one.
fn mixes(net: &Net, node: &Node) -> bool {
    let mut types = node.inputs.iter().map(|v| net.values[*v].fact.element_type);
    let of_data = types.next().filter(|t| t.is_real());
    let differs = |t: ElementType| t.is_real() && Some(t) != of_data;
    node.op().is_some_and(|op| op.traits().mixes) && of_data.is_some() && types.any(differs)
}

/// Lets a node read f32 and give its first output in f32. Returns the Convert to the type that the
/// graph declares.
fn in_one_type(rewriter: &mut GraphRewriter<'_>, node: &mut Node) -> Option<Node> {
    let mut converted = Converted::default();
    for input in &mut node.inputs {
        let element_type = rewriter.net.values[*input].fact.element_type;
        if element_type.is_real() && element_type != F32 {
            *input = converted.to(rewriter, *input, F32, node.layer)?;
        }
    }
    let is_real = |v: &&mut ValueId| rewriter.net.values[**v].fact.element_type.is_real();
    let output = node.outputs.iter_mut().find(is_real)?;
    let fact = rewriter.net.values[*output].fact.clone();
    let inner = rewriter.add(Value::of(Fact::new(F32, fact.shape)));
    let outer = std::mem::replace(output, inner);
    Node::conversion(inner, outer, fact.element_type, node.layer)
}

/// Lets a node read and give f32 in place of f16. `None`, with nothing changed, if no f16 is
/// involved or if the types are part of what the operation does. Converts to f32 and comparisons
/// read the f32 value directly.
fn widen_node(
    rewriter: &mut GraphRewriter<'_>,
    node: &mut Node,
    cx: &PassCx<'_>,
    converted: &mut Converted,
) -> Option<()> {
    let is_f16 = |net: &Net, v: &ValueId| net.values[*v].fact.element_type == F16;
    let is_widened = |v: &ValueId| converted.widened.contains(v);
    let has_f16 = node.inputs.iter().chain(&node.outputs).any(|v| is_f16(rewriter.net, v))
        || node.inputs.iter().any(is_widened);
    let is_variable = node.is::<Variable>().is_some();
    let op = node.op().filter(|_| has_f16 && !is_variable)?;
    let facts: Vec<Fact> = rewriter.net.input_facts(node).into_iter().map(in_f32).collect();
    let gives_f16 = is_f16(rewriter.net, node.outputs.first()?);
    let to_f16 = node.is::<Convert>().is_some() && gives_f16;
    let range_of_f16 = node.is::<Range>().is_some() && gives_f16;
    let (given, _) =
        infer_op(op, &facts, node.outputs.len(), &[], &cx.resources.extensions, None).ok()?;
    if to_f16 {
        node.operation = Operation::source(Convert::to(F32))?;
        // The second input of ConvertLike only gives the type.
        node.inputs.truncate(1);
    }
    if range_of_f16 {
        node.operation = Operation::source(Range::of(F32))?;
    }
    for input in &mut node.inputs {
        if is_f16(rewriter.net, input) {
            *input = converted.to(rewriter, *input, F32, node.layer)?;
        }
    }
    for (output, fact) in node.outputs.iter().zip(given) {
        if is_f16(rewriter.net, output) && (to_f16 || range_of_f16 || fact.element_type == F32) {
            converted.widen(rewriter.net, *output);
            rewriter.changed();
        }
    }
    Some(())
}

/// Values that exist in both types.
#[derive(Default)]
struct Converted {
    /// Values that were f16 in the graph and are now computed in f32.
    widened: HashSet<ValueId>,
    /// For each value its counterpart in the other type.
    other: HashMap<ValueId, ValueId>,
}

impl Converted {
    /// Makes an f16 value an f32 value.
    fn widen(&mut self, net: &mut Net, value: ValueId) {
        let own = &mut net.values[value].fact;
        *own = in_f32(std::mem::replace(own, Fact::unknown()));
        self.widened.insert(value);
    }

    /// Lets a body take f32 inputs in place of f16.
    fn take_inputs(&mut self, net: &mut Net) {
        for value in net.inputs.clone() {
            if net.values[value].fact.element_type == F16 {
                self.widen(net, value);
            }
        }
    }

    /// Passes f32 to the bodies of a node in place of f16, and takes f32 results from them.
    fn around_bodies(&mut self, rewriter: &mut GraphRewriter<'_>, node: &mut Node) -> Option<()> {
        let is_f16 = |net: &Net, v: ValueId| net.values[v].fact.element_type == F16;
        for input in &mut node.inputs {
            if is_f16(rewriter.net, *input) {
                *input = self.to(rewriter, *input, F32, node.layer)?;
            }
        }
        for &output in &node.outputs {
            if is_f16(rewriter.net, output) {
                self.widen(rewriter.net, output);
                rewriter.changed();
            }
        }
        Some(())
    }

    /// A value converted to another type.
    fn to(
        &mut self,
        rewriter: &mut GraphRewriter<'_>,
        value: ValueId,
        element_type: ElementType,
        layer: usize,
    ) -> Option<ValueId> {
        if let Some(&known) = self.other.get(&value) {
            return Some(known);
        }
        let from = &rewriter.net.values[value];
        let is_small =
            |t: &&Tensor| t.sizes().iter().product::<usize>() <= CONVERTED_AT_COMPILE_ELEMENTS;
        let other = match from.constant.as_ref().filter(is_small) {
            Some(constant) => {
                let constant = convert_tensor(constant, element_type).ok()?;
                rewriter.add(Value::known(constant))
            }
            None => {
                let fact = Fact::new(element_type, from.fact.shape.clone());
                let other = rewriter.add(Value::of(fact));
                rewriter.keep(Node::conversion(value, other, element_type, layer)?);
                other
            }
        };
        self.other.insert(value, other);
        Some(other)
    }

    /// Gives f16 back to a node that is not rewritten, where its inputs are f32 now.
    fn restore(&mut self, rewriter: &mut GraphRewriter<'_>, node: &mut Node) {
        for input in &mut node.inputs {
            if self.widened.contains(input)
                && let Some(other) = self.to(rewriter, *input, F16, node.layer)
            {
                *input = other;
            }
        }
    }
}
