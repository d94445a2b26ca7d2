//! Post-op fusion. Bias, activation, residual and scale are applied to blocks of MatMuls,
//! convolutions and normalizations while they are in the cache. Each post-op rounds like the
//! operation it replaces, so the bits stay the same.

use crate::fused::convolution::ChannelsLast;
use crate::fused::hard_swish::HardSwish;
use crate::fused::matmul::FusedMatMul;
use crate::fused::normalize::NormalizeMaps;
use crate::fused::quantized::IntegerConvolution;
use crate::fused::transpose::Reinterpret;
use crate::graph::net::{FusedOp, Net, Node, Operation, Value, ValueId};
use crate::graph::pattern::{kind, number, seen};
use crate::graph::rewriter::GraphRewriter;
use crate::kernel::post_ops::{Operand, PostOp, QuantizerInput};
use crate::ops::binary::common_power;
use crate::ops::normalize;
use crate::ops::normalize::NormalizeRows;
use crate::ops::unary::function;
use crate::passes::context::PassCx;
use crate::passes::quantization::lowering;
use crate::tensor::Tensor;
use infer::ops::binary::{Binary, Kind};
use infer::ops::matmul::MatMul;
use infer::ops::normalize::Normalize;
use infer::ops::prelu::PRelu;
use infer::ops::reshape::Reshape;
use infer::ops::squeeze::Squeeze;
use infer::ops::unary::Unary;
use kernels::unary::Unary as Function;
use std::sync::Arc;

pub(crate) fn epilogue(net: &mut Net, _: &PassCx<'_>) -> usize {
    GraphRewriter::replacing(net, joined)
}

/// The producer of a node's input, with the node appended to its post-ops.
fn joined(rewriter: &mut GraphRewriter<'_>, node: &Node) -> Option<Node> {
    let &[output] = &node.outputs[..] else { return None };
    if let Some(producer) = reshaped(rewriter, node, output) {
        return Some(producer);
    }
    let (input, step) = step(rewriter.net, node, output, &PostOpProducers { rewriter })?;
    let mut producer = rewriter.take(input)?;
    let op = attached(rewriter, &mut producer, step);
    producer.operation = Operation::Fused(extended(&producer, rewriter.net, op)?);
    producer.outputs = node.outputs.clone();
    producer.layer = node.layer;
    Some(producer)
}

/// The post-op, with its operands as further inputs of `producer`.
pub(super) fn attached(
    rewriter: &mut GraphRewriter<'_>,
    producer: &mut Node,
    step: Absorbed,
) -> PostOp {
    let at = producer.inputs.len();
    match step {
        Absorbed::Alone(op) => op,
        Absorbed::Constant(make, _, values) => {
            producer.inputs.push(rewriter.add(Value::known(values)));
            make(Operand::Columns(at))
        }
        Absorbed::Parameters(parameters, most) => {
            producer.inputs.push(rewriter.add(Value::known(parameters)));
            PostOp::QuantizeColumns(QuantizerInput { input: at, most })
        }
        Absorbed::Operand(make, shape, operand) => {
            let operand_of = match shape {
                OperandShape::Number(value) => Operand::Number(value),
                OperandShape::Columns | OperandShape::Channels => Operand::Columns(at),
                OperandShape::Matrix => Operand::Matrix(at),
            };
            if !matches!(operand_of, Operand::Number(_)) {
                producer.inputs.push(operand);
            }
            make(operand_of)
        }
    }
}

/// Folds a Reshape that keeps the last axis into the MatMul or convolution before it. That writes
/// its result in the new shape, so that the next node can become a post-op.
fn reshaped(rewriter: &mut GraphRewriter<'_>, node: &Node, output: ValueId) -> Option<Node> {
    let written = node.is::<Reshape>().is_some() || node.is::<Squeeze>().is_some();
    let moves = written || node.fused::<Reinterpret>().is_some();
    let &input = node.inputs.first().filter(|_| moves)?;
    let (from, to) = (rewriter.net.sizes(input)?, rewriter.net.sizes(output)?);
    let maker = rewriter.only_for(input).filter(|_| from.last() == to.last())?;
    let operation = match maker.fused::<ChannelsLast>() {
        // The means of a convolution are per batch element, so the batch axis must stay.
        Some(_) => (from.first() == to.first()).then(|| maker.operation.clone())?,
        None if maker.fused::<FusedMatMul>().is_some() || is_matmul(rewriter.net, maker) => {
            Operation::Fused(Arc::new(FusedMatMul::of(rewriter.net, maker)?))
        }
        None => return None,
    };
    let maker = rewriter.take(input)?;
    Some(Node { operation, outputs: node.outputs.clone(), ..maker })
}

/// A node as a post-op.
pub(super) enum Absorbed {
    Alone(PostOp),
    /// A number for each column or channel, which no value of the net holds.
    Constant(fn(Operand) -> PostOp, OperandShape, Tensor),
    Operand(fn(Operand) -> PostOp, OperandShape, ValueId),
    /// Quantizes each column with its own parameters; the number is the largest quantized value.
    Parameters(Tensor, f32),
}

impl Absorbed {
    /// How its operand is broadcast; `None` if it has none.
    pub(super) fn shape(&self) -> Option<OperandShape> {
        match self {
            Absorbed::Alone(_) => None,
            Absorbed::Parameters(..) => Some(OperandShape::Columns),
            Absorbed::Constant(_, shape, _) | Absorbed::Operand(_, shape, _) => Some(*shape),
        }
    }

    /// The same with constant operands of columns one after the other, `times` times; `None` for
    /// other operands of columns.
    pub(super) fn repeated(self, net: &Net, times: usize) -> Option<Absorbed> {
        if times == 1 {
            return Some(self);
        }
        let shape = OperandShape::Columns;
        let (make, columns) = match self {
            Absorbed::Constant(make, OperandShape::Columns, columns) => (make, columns),
            Absorbed::Operand(make, OperandShape::Columns, operand) => {
                (make, net.values[operand].constant.clone()?)
            }
            Absorbed::Parameters(..) => return None,
            other => return Some(other),
        };
        let repeated = columns.as_slice::<f32>()?.repeat(times);
        let repeated = Tensor::from_vec(&[repeated.len()], repeated).ok()?;
        Some(Absorbed::Constant(make, shape, repeated))
    }
}

/// How an operand is broadcast to the result.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum OperandShape {
    Number(f32),
    /// One number for each column, which is the last axis.
    Columns,
    /// One number for each channel, which is axis 1.
    Channels,
    Matrix,
}

/// The inputs of a node that can take it as a post-op.
pub(super) trait Producers {
    /// Whether what makes a value takes post-ops, and is read by this node alone.
    fn takes(&self, net: &Net, value: ValueId) -> bool;

    /// Whether it takes a FakeQuantize, too, with ranges of columns or one range.
    fn rounds(&self, net: &Net, value: ValueId, columns: bool) -> bool;

    /// Whether they are chains, which take divisions and operands of channels, too.
    fn are_chains(&self) -> bool {
        false
    }
}

/// Nodes that take post-ops already.
struct PostOpProducers<'a, 'n> {
    rewriter: &'a GraphRewriter<'n>,
}

impl Producers for PostOpProducers<'_, '_> {
    fn takes(&self, net: &Net, value: ValueId) -> bool {
        self.rewriter.only_for(value).is_some_and(|maker| takes_post_ops(net, maker))
    }

    /// Others than convolutions keep the FakeQuantize as a node.
    fn rounds(&self, _: &Net, value: ValueId, columns: bool) -> bool {
        self.rewriter.only_for(value).is_some_and(|maker| {
            let is_depthwise = maker.fused::<ChannelsLast>().is_some_and(|c| c.is_depthwise());
            maker.fused::<IntegerConvolution>().is_some() || is_depthwise && !columns
        })
    }
}

/// The input of a node that becomes its producer, and the post-op.
pub(super) fn step(
    net: &Net,
    node: &Node,
    output: ValueId,
    producers: &dyn Producers,
) -> Option<(ValueId, Absorbed)> {
    let feeds = |v: ValueId| {
        let same = net.sizes(v).is_some() && net.sizes(v) == net.sizes(output);
        same && producers.takes(net, v)
    };
    if let Some((input, function)) = activation(net, node) {
        return feeds(input).then_some((input, Absorbed::Alone(PostOp::Apply(function))));
    }
    if let Some((absorbed, of_columns)) = quantization(net, node) {
        let input = node.inputs[0];
        let fits = producers.rounds(net, input, of_columns) && feeds(input);
        return fits.then_some((input, absorbed));
    }
    arithmetic(net, node, output, (producers, &feeds))
}

/// The function that a node applies to each element of one input.
fn activation(net: &Net, node: &Node) -> Option<(ValueId, Function)> {
    let input = *node.inputs.first()?;
    if let Some(unary) = node.is::<Unary>() {
        return Some((input, seen(net, node, |cx| function(unary, cx)).ok()?));
    }
    if let Some(hard_swish) = node.fused::<HardSwish>() {
        return Some((input, hard_swish.function()));
    }
    if node.is::<PRelu>().is_some() {
        let alpha = f64::from(number(net, *node.inputs.get(1)?)?);
        return Some((input, Function::LeakyRelu { alpha }));
    }
    let power = node.is::<Binary>().filter(|_| kind(node) == Some(Kind::Power))?;
    Some((input, seen(net, node, |cx| common_power(power, cx))?))
}

/// A FakeQuantize as a post-op, and whether it has ranges of columns.
fn quantization(net: &Net, node: &Node) -> Option<(Absorbed, bool)> {
    if let Some(rounding) = lowering::rounding(net, node) {
        let (to, scale, low) = (rounding.to, rounding.scale, rounding.low);
        return Some((Absorbed::Alone(PostOp::Quantize { to, scale, low }), false));
    }
    let (parameters, most) = lowering::column_rounding(net, node)?;
    Some((Absorbed::Parameters(parameters, most), true))
}

/// An operation with a second operand.
fn arithmetic(
    net: &Net,
    node: &Node,
    output: ValueId,
    (producers, feeds): (&dyn Producers, &dyn Fn(ValueId) -> bool),
) -> Option<(ValueId, Absorbed)> {
    let &[a, b] = &node.inputs[..] else { return None };
    let takes = |shape: &OperandShape| producers.are_chains() || *shape != OperandShape::Channels;
    let place = |operand| place(net, operand, output).filter(takes);
    let make = match kind(node)? {
        Kind::Add => PostOp::Add,
        Kind::Multiply => PostOp::Multiply,
        Kind::Divide if producers.are_chains() => {
            let shape = place(b).filter(|_| a != b && feeds(a))?;
            return Some((a, Absorbed::Operand(PostOp::Divide, shape, b)));
        }
        Kind::Subtract => {
            let negated = place(b).and_then(|shape| negated(net, b, shape));
            return Some((a, negated.filter(|_| feeds(a))?));
        }
        _ => return None,
    };
    // If both inputs can take post-ops, the second does, and the first is its operand.
    [(b, a), (a, b)].into_iter().filter(|_| a != b).find_map(|(producer, operand)| {
        let shape = place(operand).filter(|_| feeds(producer))?;
        Some((producer, Absorbed::Operand(make, shape, operand)))
    })
}

/// The subtraction of a constant as an addition, which has the same bits.
fn negated(net: &Net, constant: ValueId, shape: OperandShape) -> Option<Absorbed> {
    match shape {
        OperandShape::Number(value) => Some(Absorbed::Alone(PostOp::Add(Operand::Number(-value)))),
        OperandShape::Columns | OperandShape::Channels => {
            let constant = net.values[constant].constant.as_ref()?;
            let negated = constant.as_slice::<f32>()?.iter().map(|x| -x).collect();
            let negated = Tensor::from_vec(constant.sizes(), negated).ok()?;
            Some(Absorbed::Constant(PostOp::Add, shape, negated))
        }
        OperandShape::Matrix => None,
    }
}

/// How an operand is broadcast to a result.
fn place(net: &Net, operand: ValueId, result: ValueId) -> Option<OperandShape> {
    if !net.is_f32(operand) {
        return None;
    }
    let (own, all) = (net.sizes(operand)?, net.sizes(result)?);
    let (count, columns) = (own.iter().product::<usize>(), *all.last()?);
    if count == 1 {
        let constant = net.values[operand].constant.as_ref()?;
        return Some(OperandShape::Number(*constant.as_slice::<f32>()?.first()?));
    }
    let lead = own.iter().position(|s| *s != 1)?;
    if all.ends_with(&own[lead..]) && count == all.iter().product() {
        return Some(OperandShape::Matrix);
    }
    if lead + 1 == own.len() && count == columns {
        return Some(OperandShape::Columns);
    }
    let axis = (own.len() + 1).checked_sub(all.len())?;
    let is_by_channel = own.get(axis) == Some(&count) && all.get(1) == Some(&count);
    is_by_channel.then_some(OperandShape::Channels)
}

/// Whether a node takes post-ops.
pub(crate) fn takes_post_ops(net: &Net, node: &Node) -> bool {
    is_matmul(net, node)
        || node.fused::<FusedMatMul>().is_some()
        || node.fused::<ChannelsLast>().is_some()
        || node.fused::<IntegerConvolution>().is_some()
        || node.fused::<NormalizeRows>().is_some()
        || node.fused::<NormalizeMaps>().is_some()
        || rows(net, node).is_some()
}

/// Whether a node is a MatMul of f32 matrices.
fn is_matmul(net: &Net, node: &Node) -> bool {
    let matrices = |v: &ValueId| net.is_f32(*v) && net.sizes(*v).is_some_and(|s| s.len() > 1);
    node.is::<MatMul>().is_some() && node.inputs.iter().all(matrices)
}

/// The normalization along rows that a node computes.
fn rows(net: &Net, node: &Node) -> Option<NormalizeRows> {
    let rule = node.is::<Normalize>()?;
    net.sizes(*node.inputs.first()?)?;
    seen(net, node, |cx| normalize::rows(rule, cx)).ok()?
}

/// The operation of a producer with one more post-op.
fn extended(node: &Node, net: &Net, op: PostOp) -> Option<Arc<dyn FusedOp>> {
    if let Some(conv) = node.fused::<ChannelsLast>() {
        let mut conv = conv.clone();
        conv.post_ops.push(op);
        return Some(Arc::new(conv));
    }
    if let Some(conv) = node.fused::<IntegerConvolution>() {
        let mut conv = conv.clone();
        conv.post_ops.push(op);
        return Some(Arc::new(conv));
    }
    if let Some(maps) = node.fused::<NormalizeMaps>() {
        let mut maps = maps.clone();
        maps.post_ops.push(op);
        return Some(Arc::new(maps));
    }
    if let Some(mut own) = node.fused::<NormalizeRows>().cloned().or_else(|| rows(net, node)) {
        own.post_ops.push(op);
        return Some(Arc::new(own));
    }
    let mut matmul = FusedMatMul::of(net, node)?;
    matmul.post_ops.push(op);
    Some(Arc::new(matmul))
}
